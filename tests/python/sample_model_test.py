"""Protects samples/07_python as its user runs it: all schedules are proven, its kernels' results are right, its files are written, and the parameters
of its loops reach them."""
import os
import subprocess
import sys
import tempfile
import unittest

import here

SAMPLE = os.path.join(here.ROOT, "samples", "07_python", "main.py")


def run(*words):
    env = dict(os.environ, PYTHONPATH=os.path.join(here.ROOT, "src", "python"), LD_LIBRARY_PATH=os.path.dirname(os.environ["TJ_TEST_LIBRARY"]))
    return subprocess.run([sys.executable, "-B", SAMPLE, *words], capture_output=True, text=True, env=env)


@unittest.skipUnless(here.numpy, here.NO_NUMPY)
class Sample(unittest.TestCase):
    def test_all(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("--output-dir", folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(os.listdir(folder)), 20)
            with open(os.path.join(folder, "fa_hopper.svg"), encoding="utf-8") as file:
                self.assertIn("<svg", file.read())
        for part in ("fa_hopper on hopper (normalised): II 4", "fa_blackwell on blackwell (normalised): II 2", "attention on model:sm_90a", "check    ok"):
            self.assertIn(part, done.stdout)

    def test_parameters(self):
        done = run("--graph", "simple_gemm", "--machine", "blackwell", "--load-cycles", "2", "--compute-cycles", "5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("simple_gemm on blackwell (normalised): II 5", done.stdout)
        self.assertNotIn("fa_hopper", done.stdout)
        done = run("--graph", "fa_hopper", "--gemm-cycles", "1", "--exp-cycles", "2", "--sub-tiles", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("role compute1, 4 warps: O.1 at 6, S.1 at 3, P.1 at 4", done.stdout)
        done = run("--machine", "toaster")
        self.assertEqual(done.returncode, 1)
        self.assertIn("07_python: graph: ", done.stderr)


if __name__ == "__main__":
    here.skips.main()
