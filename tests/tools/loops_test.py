"""Protects what tests/gpu/loops.py asks of tj-bench and what it makes of the answers: sizes of one wave, cycles of an iteration, errors and their sum. The driver
is the fake one, which shows that problems are such as the tool takes."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock

ROOT = os.environ["TJ_TEST_REPO_DIR"]
sys.path[:0] = [os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "tests", "gpu")]
import loops  # noqa: E402
import skips  # noqa: E402
import tuning  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
LIBRARY = os.path.join(BUILD, "lib", "libtilejit.so")
FAKES = os.path.join(BUILD, "tests", "fakes")


def loop_of(title, target="sm_90a"):
    return next(loop for loop in loops.loops_of(target) if loop.title == title)


def schedule(graph, ii=1000, beside=1):
    return {"kernel": "k", "graph": graph, "ii": ii, "proven_ii": True, "certificate": f"II {ii}: unit TC", "blocks_per_sm": beside}


def way(us, mhz=2000):
    return {"us": {"median": us}, **({"clock_mhz": {"median": mhz}} if mhz else {})}


class Sizes(unittest.TestCase):
    def test_tiles_of_attention(self):
        self.assertEqual(loops.tile_of_fmha("fmha_f16_d64_causal_dynamic_3x64x128"), (192, 128))
        self.assertEqual(loops.tile_of_fmha("fmha_f16_d64_128x80_4warps"), (128, 80))
        with self.assertRaisesRegex(tuning.ToolError, "fmha_other names no tile"):
            loops.tile_of_fmha("fmha_other")

    def test_one_wave_of_equal_tiles(self):
        words, iterations = loops.fmha_sizes("fmha_f16_d128_2x64x160", 132, 32)
        self.assertEqual(" ".join(words), "--batch 1 --heads 132 --kv-heads 12 --seq-q 128 --seq-k 5120")
        self.assertEqual(iterations, 32)
        words, _ = loops.gemm_sizes("gemm_f16_kk_128x256x64", 132, 16)
        self.assertEqual(" ".join(words), "--m 1536 --n 2816 --k 1024 --tile 128x256x64")
        words, iterations = loop_of("chunk_o 6/12 heads").sizes("chunk_o_r2_h2", 132, 16)
        self.assertEqual((words, iterations), (["--lengths", str(64 * 352)], 16))
        words, iterations = loop_of("chunk_solve").sizes("chunk_solve_bf16_d128", 5 * 132, 16)
        self.assertEqual((words, iterations), (["--lengths", str(64 * 880)], 16))
        self.assertIn("--v-heads 132", " ".join(loops.state_sizes("delta_chunks_wide-state_bf16", 132, 8)[0]))
        self.assertIn("--v-heads 66", " ".join(loops.state_sizes("chunk_states_bf16", 132, 8)[0]))

    def test_other_targets_have_what_runs_there(self):
        titles = [loop.title for loop in loops.loops_of("sm_90+smem=99K")]
        self.assertEqual(len(titles), 11)
        self.assertNotIn("gemm e4m3", titles)
        self.assertEqual(len(loops.loops_of("sm_90a")), 18)


class Rows(unittest.TestCase):
    def made(self, ii=1000, cycles=1100, mhz=2000):
        loop = loop_of("gemm f16")
        pair = [({w: way((500 + n * cycles) / 2000, mhz) for w in loops.WAYS}, n) for n in (16, 32)]
        return loops.row_of(loop, "replayed", pair, schedule("g", ii))

    def test_an_iteration_is_the_difference(self):
        row = self.made()
        self.assertAlmostEqual(row["measured_cycles"], 1100)
        self.assertAlmostEqual(row["error"], 1000 / 1100 - 1)
        self.assertAlmostEqual(row["rest_cycles"], 500)
        self.assertIn("II  1000  measured   1100.0  error   -9.1%", loops.line(row))

    def test_what_was_not_measured_is_no_number(self):
        with self.assertRaisesRegex(tuning.ToolError, "SM clock could not be measured"):
            self.made(mhz=0)
        with self.assertRaisesRegex(tuning.ToolError, "32 iterations took no longer than 16"):
            self.made(cycles=-1)

    def test_the_summary_takes_replays_and_names_what_is_far(self):
        rows = [self.made(), self.made(cycles=1250), self.made(cycles=1000), {**self.made(cycles=5000), "way": "single"}]
        text = "\n".join(loops.summary(rows))
        self.assertIn("3 loops: error of II 9.1% on the median (wanted 5%), 1 beyond 12%", text)
        self.assertIn("gemm f16: -20.0%; bound by II 1000: unit TC", text)
        self.assertEqual(loops.summary([]), ["no loop was measured"])

    def test_sizes_follow_the_kernel_that_a_call_takes(self):
        asked = []

        def bench(_options, words):
            asked.append(words[-1])
            cycles = 700 + 900 * int(words[-1]) / 80
            return "GPU", {w: way(cycles / 2000) for w in loops.WAYS}, schedule("fmha_f16_d64_dynamic_128x80_4warps", 900, 2)
        options = loops.parse(["--library", "lib.so"])
        with unittest.mock.patch.object(loops, "schedule_of", lambda *_: schedule("fmha_f16_d64_3x64x128")), unittest.mock.patch.object(loops, "bench", bench):
            device, rows = loops.measure(options, loop_of("fmha 64"))
        self.assertEqual(asked, ["4096", "8192", "2560", "5120"])
        self.assertEqual((device, rows[0]["way"], rows[1]["way"]), ("GPU", *loops.WAYS))
        self.assertAlmostEqual(rows[0]["error"], 0)


@unittest.skipUnless(os.path.exists(LIBRARY) and os.path.exists(os.path.join(BUILD, "bin", "tj-bench")), "the library or its tools are not built")
class Tools(unittest.TestCase):
    """With the tools themselves, and a driver whose kernels write nothing."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.symlink(os.path.join(FAKES, "libnvrtc.so.1"), os.path.join(self.folder, "libnvrtc.so.13"))
        environment = {"LD_LIBRARY_PATH": self.folder + ":" + os.environ.get("LD_LIBRARY_PATH", ""), "FAKE_CUDA_RECORD": "0"}
        self.enterContext(unittest.mock.patch.dict(os.environ, environment))

    def run_script(self, *words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = loops.main(["--library", LIBRARY, *words])
        return code, out.getvalue(), err.getvalue()

    def test_loops_are_problems_that_the_tool_takes(self):
        written = os.path.join(self.folder, "loops.json")
        words = ["--driver", FAKES, "--rounds", "1", "--jobs", "0", "--cache-dir", os.path.join(self.folder, "cache"), "--json", written]
        for target, only in (("sm_90a", "fmha 64 causal"), ("sm_90a", "gemm e4m3"), ("sm_90a", "chunk"), ("sm_90", "heads")):
            code, out, _ = self.run_script("--target", target, "--only", only, *words)
            self.assertEqual(code, 1)
            self.assertIn("no loop was measured", out)
            with open(written, encoding="utf-8") as file:
                document = json.load(file)
            self.assertEqual(len(document["failures"]), sum(only in loop.title for loop in loops.loops_of(target)))
            for failure in document["failures"]:
                self.assertRegex(failure, "elements of [a-z_]+ were not written")  # it ran, and was timed

    def test_kernels_are_made_first_and_what_fails_is_told_later(self):
        asked = []

        def pair_of(options, loop):
            asked.append((options.rounds, loop.title))
            raise tuning.ToolError("why")
        with unittest.mock.patch.object(loops, "pair_of", pair_of):
            code, out, _ = self.run_script("--only", "gemm", "--jobs", "1")
        titles = ["gemm f16", "gemm bf16", "gemm e4m3"]
        self.assertEqual(asked, [(1, title) for title in titles] + [(10, title) for title in titles])
        self.assertEqual((code, out.count("not measured: gemm f16: why")), (1, 1))

    def test_the_list_needs_no_driver(self):
        code, out, _ = self.run_script("--list", "--target", "sm_90")
        self.assertEqual((code, len(out.splitlines())), (0, 11))

    def test_a_report_of_a_document(self):
        written = os.path.join(self.folder, "loops.json")
        row = loops.row_of(loop_of("gemm f16"), "replayed", [({"replayed": way(1.0)}, 1), ({"replayed": way(1.5)}, 2)], schedule("g", 950))
        with open(written, "w", encoding="utf-8") as file:
            json.dump({"device": "GPU", "target": "sm_90a", "rows": [row], "failures": ["x: why"]}, file)
        code, out, _ = self.run_script("--report", written)
        self.assertEqual(code, 0)
        self.assertIn("| gemm f16 | 950 | 1000 | -5.0% | `g` |", out)
        self.assertIn("not measured: x: why", out)

    def test_bad_words_are_refused(self):
        for words, said in ((["--rounds", "0"], "--rounds is 0; allowed: 1 and more"), (["--only", "gem5"], "--only is 'gem5'; no loop's name contains it")):
            err = io.StringIO()
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(err):
                loops.parse(["--library", LIBRARY, *words])
            self.assertIn(said, err.getvalue())
        self.assertEqual(self.run_script("--list", "--target", "sm_89x")[0], 2)


if __name__ == "__main__":
    skips.main()
