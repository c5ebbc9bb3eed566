"""Protects the ranges that tools of NVTX see: each step of making a kernel, each load and launch, with the kernel's name. Without a tool there
are none, and nothing is opened.

The tool is a library of the tests that writes down what it hears.
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPO = Path(os.environ["TJ_TEST_REPO_DIR"])
BUILD = Path(os.environ["TJ_TEST_BUILD_DIR"])
sys.path.insert(0, str(REPO / "tests" / "support"))
import skips  # noqa: E402

TOOL = BUILD / "tests" / "fakes" / "libnvtx.so.1"
FAKES = BUILD / "tests" / "fakes"
BENCH = BUILD / "bin" / "tj-bench"


@unittest.skipUnless(BENCH.exists(), "the tools are not built (TJ_TOOLS)")
@unittest.skipUnless(hasattr(ctypes.CDLL(str(TOOL)), "InitializeInjectionNvtx2"), "the build has no headers of NVTX")
class Ranges(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.symlink(FAKES / "libnvrtc.so.1", os.path.join(self.folder, "libnvrtc.so.13"))

    def heard(self, cache, **variables):
        """What the tool hears of one kernel that is got ready and called, on a driver that does nothing."""
        file = os.path.join(self.folder, "heard")
        if os.path.exists(file):
            os.remove(file)
        environment = {**os.environ, "LD_LIBRARY_PATH": self.folder + ":" + os.environ.get("LD_LIBRARY_PATH", ""), "FAKE_NVTX_FILE": file, **variables}
        done = subprocess.run([BENCH, "--dispatch", "--driver", FAKES, "--op", "chunk_indices", "--rounds", "1", "--cache-dir", cache],
                              capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return open(file).read().splitlines() if os.path.exists(file) else []

    def test_each_step_and_each_launch_is_a_range_with_the_kernels_name(self):
        cache = os.path.join(self.folder, "cache")
        lines = self.heard(cache, NVTX_INJECTION64_PATH=str(TOOL))
        depth, names = 0, []
        for line in lines:
            at, what, domain, *name = line.split(" ")
            self.assertEqual(domain, "tilejit")
            if what == "pop":
                depth -= 1
            else:
                names.append(" ".join(name))
            self.assertEqual(int(at), depth)
            depth += what == "push"
        self.assertEqual(depth, 0)
        for step in ("schedule", "codegen", "compile", "load", "launch"):
            self.assertIn(f"{step} chunk_indices", names)
        again = self.heard(cache, NVTX_INJECTION64_PATH=str(TOOL))
        self.assertFalse([line for line in again if "compile" in line], "a kernel from the disk is not compiled")
        self.assertTrue([line for line in again if "load chunk_indices" in line])

    def test_without_a_tool_nothing_is_heard(self):
        self.assertEqual(self.heard(os.path.join(self.folder, "cache")), [])
        self.assertEqual(self.heard(os.path.join(self.folder, "cache"), NVTX_INJECTION64_PATH="/none/libnvtx.so"), [])


if __name__ == "__main__":
    skips.main()
