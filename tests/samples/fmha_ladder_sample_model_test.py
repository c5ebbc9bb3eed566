"""Protects sample 04_fmha_ladder as a user runs it on the CPU model: all steps right, what each changes, its three exports, exit codes, steps that fail while
others go on, PyTorch's rows, and mistakes that are named and leave nothing behind."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
TORCH = os.path.join(os.environ["TJ_TEST_REPO_DIR"], ".deps", "torch")
PROGRAM = os.path.join(BUILD, "samples", "04_fmha_ladder")
TORCHS = ["PyTorch SDPA", "SDPA by cuDNN", "SDPA by FlashAttention"]
STEPS = ["basic", "exp2", "transposed_k", "latency", "occupancy", "division"]


@unittest.skipUnless(os.path.exists(PROGRAM), "the samples are not built (TJ_SAMPLES)")
class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def file(self, *name):
        return os.path.join(self.folder.name, *name)

    def run_sample(self, *words, target="model:sm_120a", **more):
        environment = {**os.environ, "TJ_CACHE_DIR": self.file("cache"), "TJ_TARGET": target, **more}
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment)

    def test_all(self):
        done = self.run_sample("--seq-len", "100,192", "--output-dir", self.file("out"), "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(os.listdir(self.file("out"))), ["fmha_tutorial_log.txt", "fmha_tutorial_results.json", "fmha_tutorial_results.md"])
        with open(self.file("out", "fmha_tutorial_results.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertTrue(report["right"])
        self.assertEqual([report[key] for key in ("target", "head_dim", "dtype", "causal", "seed")], ["model:sm_120a", 128, "f16", True, 7])
        self.assertEqual([(r["seq_len"], r["name"]) for r in report["results"]], [(s, name) for s in (100, 192) for name in STEPS + ["library"]])
        self.assertEqual([r["step"] for r in report["results"]][:7], [2, 3, 4, 5, 6, 7, 99])
        self.assertEqual(report["logs"], report["log"])
        self.assertEqual([(r["seq_len"], r["name"], r["step"]) for r in report["not_run"]], [(s, *row) for s in (100, 192) for row in zip(TORCHS, (0, 97, 98))])
        self.assertEqual({(r["ran"], r["correct"], r["not_run"]) for r in report["not_run"]}, {(False, None, "--torch on times PyTorch (auto: on a GPU alone)")})
        for result in report["results"]:
            self.assertEqual(result["correct"], result["right"])
            self.assertEqual(result["speedup_vs_baseline"], result["gain_vs_baseline"])
            self.assertTrue(result["right"])
            self.assertLessEqual(result["error"], result["limit"])
            self.assertLessEqual(result["error_vs_baseline"], result["limit"])
            self.assertEqual((result["rows_compared"], result["rows_total"]), (result["seq_len"],) * 2)
            self.assertEqual((result["elements_apart"], result["elements_apart_from_baseline"]), (0, 0))
            self.assertGreater(result["latency_ms"], 0)
        steps = {r["name"]: r for r in report["results"]}
        self.assertEqual([steps[name]["hints"] for name in STEPS[:3]], [{}] * 3)
        self.assertEqual(steps["latency"]["hints"], {"k": {"asked": 2, "given": 1, "met": False}, "v": {"asked": 4, "given": 2, "met": False}})
        self.assertTrue(any("the hint of 2 iterations for copies of k is dropped" in change for change in steps["occupancy"]["key_changes"]))
        self.assertEqual([steps[name]["slots"]["v"] for name in STEPS], [1, 1, 1, 3, 1, 1])
        self.assertEqual([steps[name]["blocks_per_sm"] for name in STEPS], [1, 1, 1, 1, 2, 2])
        self.assertEqual([steps[name]["stages"] > 1 for name in STEPS[:4]], [False, False, False, True])
        self.assertTrue(any("blocks side by side on an SM: 1 -> 2" in change for change in steps["occupancy"]["key_changes"]))
        with open(self.file("out", "fmha_tutorial_log.txt"), encoding="utf-8") as file:
            log = file.read()
        self.assertEqual(log.splitlines(), report["log"])
        self.assertIn(log, done.stdout)
        with open(self.file("out", "fmha_tutorial_results.md"), encoding="utf-8") as file:
            text = file.read()
        for number, name in enumerate(STEPS, 1):
            self.assertIn(f"| 192 | {number} | {name} |", text)
            self.assertIn(f"### Step {number + 1}: {name}", text)

    def test_some(self):
        done = self.run_sample("--steps", "3", "--seq-len", "70", "--head-dim", "64", "--dtype", "bf16", "--causal", "false", "--heads", "2", target="model:sm_80")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("model:sm_80 on cpu", done.stdout)
        self.assertIn("step 1: basic", done.stdout)
        self.assertIn("step 3: transposed_k", done.stdout)
        self.assertNotIn("step 2", done.stdout)
        usual = self.run_sample("--steps", "1", "--seq-len", "20", target="model:sm_90a")
        self.assertEqual(usual.returncode, 0, usual.stderr)
        self.assertIn("model:sm_120a in its place", usual.stdout)

    def test_on_amd(self):
        done = self.run_sample("--steps", "2,4,6", "--seq-len", "70", "--head-dim", "64", "--output-dir", self.file("out"), target="model:gfx1100")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.file("out", "fmha_tutorial_results.json"), encoding="utf-8") as file:
            results = {r["word"]: r for r in json.load(file)["results"]}
        self.assertEqual(list(results), ["1", "2", "4", "6"])
        self.assertEqual([results[word]["stages"] > 1 for word in results], [False, False, True, True])
        self.assertEqual([results["4"]["hints"][value]["given"] for value in "kv"], [1, 1])  # registers hold one block

    def test_a_step_that_fails(self):
        done = self.run_sample("--target", "model:sm_90a", "--seq-len", "40,64", "--output-dir", self.file("out"))
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("[ERROR] Step 3 failed: ", done.stdout)
        self.assertIn("04_fmha_ladder: step 3, sequence length 64: the step does not run on 'sm_90a', as step 1 says", done.stderr)
        self.assertEqual(done.stderr.count("; rungs are for archs"), 2)  # why, once a length
        with open(self.file("out", "fmha_tutorial_results.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertTrue(report["any_failed"])
        self.assertIs(report["right"], True)  # of the one that ran
        none = self.run_sample("--target", "model:sm_100a", "--steps", "1", "--seq-len", "40", "--output-dir", self.file("none"))
        self.assertEqual(none.returncode, 2, none.stdout + none.stderr)
        with open(self.file("none", "fmha_tutorial_results.json"), encoding="utf-8") as file:
            self.assertIsNone(json.load(file)["right"])  # nothing ran
        self.assertEqual([(r["name"], r["right"], r["gain_vs_baseline"]) for r in report["results"]], [("library", True, 1)] * 2)
        for result in report["not_run"]:
            if result["name"] not in TORCHS:
                self.assertIn("does not run on 'sm_90a'", result["failed"])
        with open(self.file("out", "fmha_tutorial_results.md"), encoding="utf-8") as file:
            self.assertIn("- sequence length 64: [ERROR] failed: ", file.read())

    def test_checks(self):
        without = self.run_sample("--steps", "1", "--seq-len", "20", "--no-correctness-check")
        self.assertEqual(without.returncode, 0, without.stderr)
        self.assertIn("not checked", without.stdout)
        asked = self.run_sample("--steps", "1", "--seq-len", "20", "--correctness-check")
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertIn("Right:       yes; against f64: ", asked.stdout)

    def test_torch_is_not_there(self):
        done = self.run_sample("--steps", "sdpa", "--seq-len", "20", "--torch", "on", "--python", self.file("no python"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("cannot be run; give --python", done.stdout)
        on = self.run_sample("--steps", "1", "--seq-len", "20", "--torch", "on", "--python", self.file("no python"))
        self.assertEqual(on.stdout.count("cannot be run; give --python"), 6, on.stdout)  # three rows, which --torch on adds, each told twice
        plain = self.run_sample("--steps", "sdpa,cudnn", "--seq-len", "20", "--torch", "on", "--python", sys.executable, PYTHONPATH=self.file("empty"))
        self.assertEqual(plain.returncode, 0, plain.stdout + plain.stderr)
        self.assertRegex(plain.stdout, "no torch: No module named 'torch'|SDPA by PyTorch|PyTorch [0-9]")

    @unittest.skipUnless(os.path.isdir(TORCH), "torch was not fetched into .deps (tests/run.sh --setup)")
    def test_torch(self):
        done = self.run_sample("--steps", "sdpa,cudnn,2", "--seq-len", "20,30", "--torch", "on", "--python", sys.executable, "--output-dir", self.file("out"), PYTHONPATH=TORCH)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.file("out", "fmha_tutorial_results.json"), encoding="utf-8") as file:
            report = json.load(file)
        results = report["results"]
        self.assertTrue(all(r["word"] == "cudnn" and r["not_run"] for r in report["not_run"]))  # which is of a GPU
        self.assertEqual([r["word"] for r in results if r["word"] != "cudnn"], ["sdpa", "1", "2"] * 2)
        for result in results:
            self.assertTrue(result["right"])
            self.assertGreater(result["rows_total"], 0)
            self.assertEqual(result["lse_error"] is None, result["word"] in ("sdpa", "cudnn"))
            self.assertGreater(result["latency_ms"], 0)
        self.assertIn("PyTorch ", results[0]["kernel"])
        self.assertEqual(results[0]["gain_vs_baseline"], 1)

    def test_mistakes(self):
        with open(self.file("plain"), "w", encoding="utf-8") as file:
            file.write("kept")
        for words, part in ((["--steps", "7"], "'7'"), (["--seq-len", "64,x"], "'x'"), (["--seq-len", "100000"], "too much for the CPU model"), (["--dtype", "f32"], "fp16, f16, bf16"),
                            (["--causal", "maybe"], "true, false"), (["--head-dim", "80"], "128, 64"), (["--colour"], "--colour"), (["--torch", "maybe"], "auto, on, off"),
                            (["--correctness-check", "--no-correctness-check"], "both given"), (["--target", "sm_4"], "sm_4"),
                            (["--output-dir", self.file("plain", "below")], "cannot write into")):
            done = self.run_sample(*words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(part, done.stderr)
        with open(self.file("plain"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "kept")
        self.assertEqual(sorted(set(os.listdir(self.folder.name)) - {"cache"}), ["plain"])


if __name__ == "__main__":
    skips.main()
