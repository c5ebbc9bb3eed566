"""Protects sample 05_custom_gemm as a user runs it on the CPU model: odd sizes, what it prints, exit codes, mistakes named,
and that it still finds its files when the tree is moved."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
PROGRAM = os.path.join(BUILD, "samples", "05_custom_gemm")
FILES = os.path.join(BUILD, "share", "tilejit", "samples", "05_custom_gemm")


@unittest.skipUnless(os.path.exists(PROGRAM), "the samples are not built (TJ_SAMPLES)")
class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def run_sample(self, *words, program=PROGRAM):
        environment = {**os.environ, "TJ_TARGET": "model:sm_90a", "TJ_CACHE_DIR": os.path.join(self.folder.name, "cache"),
                       "LD_LIBRARY_PATH": os.path.join(BUILD, "lib") + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
        return subprocess.run([program, *words], capture_output=True, text=True, env=environment)

    def test_sizes(self):
        for m, n, k in ((300, 200, 136), (1, 1, 8), (129, 257, 64), (65, 3, 1000), (260, 514, 200)):
            done = self.run_sample("--m", str(m), "--n", str(n), "--k", str(k))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for part in ("model:sm_90a", "seed ", "II 1200 cycles (proven)", "bias_gelu.1", "rings: a x4 b x4", f"M {m}, N {n}, K {k}", f"{m} of {m} rows"):
                self.assertIn(part, done.stdout)
            self.assertIn("ok: against f64", done.stdout)
        self.assertIn("cache hit", done.stdout)

    def test_mistakes(self):
        for words, part in ((["--k", "12"], "multiple of 8"), (["--m", "0"], "--m"), (["--colour"], "--colour")):
            done = self.run_sample(*words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(part, done.stderr)

    def test_moved_and_without_its_files(self):
        moved = os.path.join(self.folder.name, "bin", "05_custom_gemm")
        os.makedirs(os.path.dirname(moved))
        shutil.copy2(PROGRAM, moved)
        lost = self.run_sample(program=moved)
        self.assertEqual(lost.returncode, 2, lost.stdout + lost.stderr)
        self.assertIn("share/tilejit/samples/05_custom_gemm", lost.stderr)
        shutil.copytree(FILES, os.path.join(self.folder.name, "share", "tilejit", "samples", "05_custom_gemm"))
        found = self.run_sample("--m", "8", "--n", "8", "--k", "8", program=moved)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)


if __name__ == "__main__":
    skips.main()
