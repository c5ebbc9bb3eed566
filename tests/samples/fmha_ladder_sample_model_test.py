"""Protects sample 04_fmha_ladder as a user runs it on the CPU model: all steps right, what each changes, its three exports, exit codes, and
mistakes that are named and leave nothing behind."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
PROGRAM = os.path.join(BUILD, "samples", "04_fmha_ladder")
STEPS = ["basic", "exp2", "transposed_k", "latency", "occupancy", "division"]


@unittest.skipUnless(os.path.exists(PROGRAM), "the samples are not built (TJ_SAMPLES)")
class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def file(self, *name):
        return os.path.join(self.folder.name, *name)

    def run_sample(self, *words, target="model:sm_120a"):
        environment = {**os.environ, "TJ_CACHE_DIR": self.file("cache"), "TJ_TARGET": target}
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment)

    def test_all(self):
        done = self.run_sample("--seq-len", "100,192", "--output-dir", self.file("out"), "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(os.listdir(self.file("out"))), ["fmha_steps.json", "fmha_steps.log", "fmha_steps.md"])
        with open(self.file("out", "fmha_steps.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertTrue(report["right"])
        self.assertEqual([report[key] for key in ("target", "head_dim", "dtype", "causal", "seed")], ["model:sm_120a", 128, "f16", True, 7])
        self.assertEqual([(r["seq_len"], r["name"]) for r in report["results"]], [(s, name) for s in (100, 192) for name in STEPS + ["library"]])
        for result in report["results"]:
            self.assertTrue(result["right"])
            self.assertLessEqual(result["error"], result["limit"])
            self.assertLessEqual(result["error_vs_baseline"], result["limit"])
            self.assertEqual(result["rows_compared"], result["seq_len"])
            self.assertGreater(result["latency_ms"], 0)
        steps = {r["name"]: r for r in report["results"]}
        self.assertEqual([steps[name]["slots"]["v"] for name in STEPS], [1, 1, 1, 3, 1, 1])
        self.assertEqual([steps[name]["blocks_per_sm"] for name in STEPS], [1, 1, 1, 1, 2, 2])
        self.assertEqual([steps[name]["stages"] > 1 for name in STEPS[:4]], [False, False, False, True])
        self.assertTrue(any("blocks side by side on an SM: 1 -> 2" in change for change in steps["occupancy"]["key_changes"]))
        with open(self.file("out", "fmha_steps.log"), encoding="utf-8") as file:
            log = file.read()
        self.assertEqual(log.splitlines(), report["log"])
        self.assertIn(log, done.stdout)
        with open(self.file("out", "fmha_steps.md"), encoding="utf-8") as file:
            text = file.read()
        for number, name in enumerate(STEPS, 1):
            self.assertIn(f"| 192 | {number} | {name} |", text)
            self.assertIn(f"### Step {number}: {name}", text)

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

    def test_mistakes(self):
        with open(self.file("plain"), "w", encoding="utf-8") as file:
            file.write("kept")
        for words, part in ((["--steps", "7"], "'7'"), (["--seq-len", "64,x"], "'x'"), (["--seq-len", "100000"], "too much for the CPU model"), (["--dtype", "f32"], "fp16, f16, bf16"),
                            (["--causal", "maybe"], "true, false"), (["--head-dim", "80"], "128, 64"), (["--colour"], "--colour"), (["--target", "model:sm_90a"], "does not run on 'sm_90a'"),
                            (["--output-dir", self.file("plain", "below")], "cannot write into")):
            done = self.run_sample(*words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(part, done.stderr)
        with open(self.file("plain"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "kept")
        self.assertEqual(sorted(set(os.listdir(self.folder.name)) - {"cache"}), ["plain"])


if __name__ == "__main__":
    skips.main()
