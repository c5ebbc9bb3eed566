"""Protects the yardstick of tests/gpu/compare.py where there is no GPU: its reference, its metric, its tables, and that
it says clearly what is missing."""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

ROOT = os.environ["TJ_TEST_REPO_DIR"]
SCRIPT = os.path.join(ROOT, "tests", "gpu", "compare.py")
# NumPy may belong to another interpreter than the one that runs the tests: the system's.
INTERPRETERS = [sys.executable, shutil.which("python3", path=os.defpath)]


def run(interpreter, *words):
    return subprocess.run([interpreter, "-B", SCRIPT, *words], capture_output=True, text=True)


class Compare(unittest.TestCase):
    def test_self_test(self):
        done = [run(interpreter, "--self-test") for interpreter in INTERPRETERS if interpreter]
        if all(d.returncode == 77 for d in done):
            self.skipTest("NumPy is not installed (Debian: python3-numpy)")
        for d in done:
            self.assertIn(d.returncode, (0, 77), d.stderr)

    def test_says_what_is_missing(self):
        # An isolated interpreter sees no PyTorch, whatever this machine has.
        done = subprocess.run([sys.executable, "-B", "-S", SCRIPT, "--library", os.environ["TJ_TEST_LIBRARY"]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("PyTorch is not installed", done.stderr)

    def test_bad_use(self):
        self.assertEqual(run(sys.executable, "--what", "nothing").returncode, 2)
        self.assertEqual(run(sys.executable, "--op", "fmha", "--tile", "128x256x64").returncode, 2)
        self.assertEqual(run(sys.executable, "--op", "gemm", "--tune", "--tile", "128x256x64").returncode, 2)
        for words in (["--dtype", "f16"], ["--chunk-heads", "16/33"], ["--chunk-tokens", "1000"]):
            self.assertEqual(run(sys.executable, "--op", "chunk_o", *words).returncode, 2, words)


class Predict(unittest.TestCase):
    def run_script(self, *words, **more):
        return subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tests", "gpu", "gemm_predict.py"), *words], capture_output=True, text=True, **more)

    def test_self_test(self):
        done = self.run_script("--self-test")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_bad_use(self):
        self.assertEqual(self.run_script().returncode, 2)
        done = self.run_script("--library", "/nowhere/lib/libtilejit.so")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/bin/tj-schedule is missing", done.stderr)


if __name__ == "__main__":
    skips.main()
