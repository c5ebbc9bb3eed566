"""Protects what tests/gpu/tune_drawn.py times: the products of compare.py with the same seed, of as many rows as asked for; and what its document says of
them."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock

ROOT = os.environ["TJ_TEST_REPO_DIR"]
sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
import drawing  # noqa: E402
import tune_drawn  # noqa: E402
import tuning  # noqa: E402

WORDS = ["--library", "lib.so", "--json", "out.json"]


def options(*words):
    return tune_drawn.parse([*WORDS, *words])


def row(number, taken, **times):
    """times: name=(measured, predicted)."""
    return {"number": number, "dtype": "f16", "title": f"problem {number}", "taken": taken, "kernels": [[name, *pair] for name, pair in times.items()]}


class Problems(unittest.TestCase):
    def test_those_of_the_draw_in_their_order(self):
        self.assertEqual(tune_drawn.problems_of(options("--seed", "7", "--count", "9")), drawing.draw("gemm", 7, 9))

    def test_rows_are_between_the_two_numbers(self):
        chosen = tune_drawn.problems_of(options("--seed", "7", "--count", "20", "--rows", "65", "450"))
        self.assertEqual(len(chosen), 20)
        self.assertTrue(all(65 <= problem["m"] <= 450 for problem in chosen))
        every = drawing.draw("gemm", 7, 2000)
        self.assertEqual(chosen, [problem for problem in every if 65 <= problem["m"] <= 450][:20])

    def test_slices_put_together_are_the_whole(self):
        words = ["--seed", "7", "--count", "11", "--rows", "1", "500"]
        parts = [tune_drawn.problems_of(options(*words, "--slice", f"{part}/3")) for part in (1, 2, 3)]
        self.assertEqual([len(part) for part in parts], [4, 4, 3])
        whole = tune_drawn.problems_of(options(*words))
        self.assertEqual(sorted(sum(parts, []), key=lambda problem: problem["number"]), whole)

    def test_bad_words_are_refused(self):
        for words in (["--count", "0"], ["--rows", "9", "8"], ["--rows", "0", "8"], ["--dtype", "f32"], ["--slice", "3/2"], ["--limit", "0"],
                      ["--rounds", "x"], ["--time-limit", "0"], ["--resume"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                options(*words)
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            tune_drawn.parse(["--json", "out.json"])


class Document(unittest.TestCase):
    def test_kernels_that_were_timed(self):
        problem = drawing.draw("gemm", 7, 1)[0]
        made = tune_drawn.row_of(problem, {"predicted": "64x64x128", "kernels": [{"name": "64x64x128", "measured_us": 3.5, "predicted_us": 3.1},
                                                                                  {"name": "16x64x128", "refused": "no room"}]})
        self.assertEqual(made["kernels"], [["64x64x128", 3.5, 3.1]])
        self.assertEqual(made["sizes"], [problem["m"], problem["n"], problem["k"]])
        self.assertEqual(made["title"], drawing.title(problem))
        self.assertEqual((made["taken"], made["number"]), ("64x64x128", 0))

    def test_a_line_names_what_is_taken_and_the_best(self):
        text = tune_drawn.line(row(0, "a", a=(11.0, 9.9), b=(10.0, 12.0)))
        self.assertEqual(text, "problem 0: takes a 11.0 us (predicted 9.9), best b 10.0 us (predicted 12.0), loss 10.0%")
        self.assertIn("takes c, not timed, best b 10.0 us", tune_drawn.line(row(0, "c", a=(11.0, 9.9), b=(10.0, 12.0))))

    def test_sums_leave_out_what_was_not_timed(self):
        rows = [row(0, "a", a=(12.0, 6.0), b=(10.0, 9.0)), row(1, "a", a=(5.0, 10.0)), row(2, "c", a=(5.0, 5.0))]
        text = "\n".join(tune_drawn.sums(rows))
        self.assertIn("2 problems: the choice loses 10.0% on the mean", text)
        self.assertIn("20.0% at worst (wanted 10%); 1 lose more than 10%", text)
        self.assertIn("1.000 on the geometric mean, 0.500 to 2.000", text)
        self.assertEqual(tune_drawn.sums([rows[2]]), ["no problem was timed"])


class Runs(unittest.TestCase):
    """With tj-warm's answers made up."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "out.json")
        self.calls = []

    def tune(self, library, cache_dir, dtype, shapes, rounds=None, options=()):
        self.calls.append((shapes[0], rounds, list(options)))
        return {"problems": [{"ok": True, "predicted": "a", "kernels": [{"name": "a", "measured_us": 2.0, "predicted_us": 1.0}]}]}

    def run_it(self, *words):
        out = io.StringIO()
        with unittest.mock.patch.object(tuning, "tune", self.tune), contextlib.redirect_stdout(out):
            self.assertEqual(tune_drawn.main(["--library", "lib.so", "--json", self.file, *words]), 0)
        return out.getvalue()

    def test_limit_and_rounds_are_words_of_the_tool(self):
        self.run_it("--seed", "7", "--count", "2", "--limit", "40", "--rounds", "5")
        self.assertEqual([call[1] for call in self.calls], [5, 5])
        self.assertEqual(self.calls[0][2][-2:], ["--tune-limit", "40"])
        self.calls.clear()
        self.run_it("--seed", "7", "--count", "1")
        self.assertEqual(self.calls[0][1], None)
        self.assertNotIn("--tune-limit", self.calls[0][2])

    def test_resuming_leaves_out_what_is_done_and_refuses_other_words(self):
        self.run_it("--seed", "7", "--count", "2", "--limit", "40")
        self.run_it("--seed", "7", "--count", "5", "--limit", "40", "--resume")
        self.assertEqual(len(self.calls), 5)
        with open(self.file, encoding="utf-8") as file:
            self.assertEqual([made["number"] for made in json.load(file)["problems"]], [0, 1, 2, 3, 4])
        with self.assertRaisesRegex(tuning.ToolError, "limit 40 .here 20."):
            self.run_it("--seed", "7", "--count", "5", "--limit", "20", "--resume")

    def test_a_report_puts_slices_together(self):
        other = os.path.join(self.folder.name, "other.json")
        self.run_it("--seed", "7", "--count", "5", "--slice", "1/2")
        os.rename(self.file, other)
        self.run_it("--seed", "7", "--count", "5", "--slice", "2/2")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(tune_drawn.main(["--report", other, self.file]), 0)
        self.assertIn("5 problems: the choice loses 0.0%", out.getvalue())
        with self.assertRaisesRegex(tuning.ToolError, "no document of this script"):
            tune_drawn.main(["--report", os.path.join(self.folder.name, "none.json")])

    def test_documents_of_other_rows_are_refused_by_what_they_lack(self):
        whole = row(0, "a", a=(11.0, 9.9))
        cases = [({key: value for key, value in whole.items() if key != lacks}, f"problem 1 has no '{lacks}'") for lacks in ("number", "taken")]
        cases += [({**whole, "kernels": [["a", 11.0]]}, "problem 1 has a kernel that is not its name, its time and its predicted time"),
                  ("text", "problem 1 has no 'number'")]
        for bad, said in cases:
            tune_drawn.write(self.file, {"problems": [whole, bad]})
            for words in (["--report", self.file], ["--library", "lib.so", "--json", self.file, "--resume", "--seed", "7", "--count", "1"]):
                with self.subTest(said=said, words=words), contextlib.redirect_stdout(io.StringIO()):
                    with self.assertRaisesRegex(tuning.ToolError, f"{self.file} is no document of this script: {said}"):
                        tune_drawn.main(words)


if __name__ == "__main__":
    unittest.main()
