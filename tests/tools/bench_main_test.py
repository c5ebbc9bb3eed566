"""Protects the process around tj-bench: it counts what a call allocates, which no test inside of another process can see.

The driver is the fake one, which keeps a log: that alone takes memory for each call.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
TOOL = os.path.join(BUILD, "bin", "tj-bench")
FAKES = os.path.join(BUILD, "tests", "fakes")


@unittest.skipUnless(os.path.exists(TOOL), "the tools are not built (TJ_TOOLS)")
class Allocations(unittest.TestCase):
    def test_those_of_one_call_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.join(FAKES, "libnvrtc.so.1"), os.path.join(folder, "libnvrtc.so.13"))
            written = os.path.join(folder, "written.json")
            environment = {**os.environ, "LD_LIBRARY_PATH": folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
            done = subprocess.run([TOOL, "--dispatch", "--driver", os.path.join(FAKES, "libcuda.so.1"), "--op", "chunk_indices", "--rounds", "1",
                                   "--cache-dir", os.path.join(folder, "cache"), "--json", written], capture_output=True, text=True, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(written) as file:
                problem = json.load(file)["problems"][0]
        for name in ("allocations", "plan_allocations"):
            self.assertIn(problem[name], range(1, 100), name)


if __name__ == "__main__":
    skips.main()
