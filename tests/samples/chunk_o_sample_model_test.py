"""Protects sample 03_chunk_o as a user runs it on the CPU model: odd lengths and head ratios, what it prints, exit codes, mistakes named."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
PROGRAM = os.path.join(BUILD, "samples", "03_chunk_o")


@unittest.skipUnless(os.path.exists(PROGRAM), "the samples are not built (TJ_SAMPLES)")
class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def run_sample(self, *words, target="model:sm_90a"):
        environment = {**os.environ, "TJ_TARGET": target, "TJ_CACHE_DIR": os.path.join(self.folder.name, "cache"),
                       "LD_LIBRARY_PATH": os.path.join(BUILD, "lib") + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment)

    def test_lengths(self):
        for words, parts in ((["--seed", "7"], ["T 260 in 5 sequences, H 1, Hv 2", "seed 7", "ok: 7 of 7 chunks listed", "520 of 520 rows"]),
                             (["--lengths", "0,63,0,0,64,2,200"], ["T 329 in 7 sequences", "7 of 7 chunks", "cache hit"]),
                             (["--lengths", "70", "--num-stages", "1", "--max-sms", "1", "--evict-first"], ["2 of 2 chunks", "140 of 140 rows"]),
                             (["--lengths", "1", "--heads", "2", "--v-heads", "6"], ["H 2, Hv 6", "1 of 1 chunks", "6 of 6 rows"])):
            done = self.run_sample(*words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for part in ["model:sm_90a", "chunk_indices for", "II ", "GB/s", "ok: ", "against f64", *parts]:
                self.assertIn(part, done.stdout)

    def test_other_families(self):
        for arch in ("sm_80", "sm_90", "sm_120a", "gfx90a", "gfx942", "gfx1100", "gfx1201"):
            done = self.run_sample("--lengths", "65,0,64", "--seed", "7", target="model:" + arch)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for part in [f"model:{arch}", "ok: 3 of 3 chunks listed", "258 of 258 rows", "against f64"]:
                self.assertIn(part, done.stdout)

    def test_mistakes(self):
        for words, part in ((["--lengths", "5,x"], "5,x"), (["--lengths", "0,0"], "at least one"), (["--lengths", "-1"], "'-1'"), (["--lengths", ""], "--lengths needs a value"),
                            (["--lengths", "5000000"], "4194304"), (["--heads", "2", "--v-heads", "3"], "multiples of --heads, 2"), (["--colour"], "--colour"), (["--num-stages", "9"], "num_stages is 9")):
            done = self.run_sample(*words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(part, done.stderr)

    def test_help(self):
        done = self.run_sample("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--lengths", done.stdout)


if __name__ == "__main__":
    skips.main()
