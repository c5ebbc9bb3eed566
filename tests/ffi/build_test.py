"""Protects builds without a framework's header: the build says what is left out and how to get it, and the rest is built."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ["TJ_TEST_REPO_DIR"])
BUILD = Path(os.environ["TJ_TEST_BUILD_DIR"])
sys.path.insert(0, str(ROOT / "tests" / "support"))
import skips  # noqa: E402

HEADERS = {"TJ_TVM_FFI_INCLUDE_DIR": ("tvm-ffi", "tvm_functions.cpp"), "TJ_XLA_INCLUDE_DIR": ("JAX", "xla_handlers.cpp")}


@unittest.skipUnless(shutil.which("cmake") and shutil.which("ninja"), "no cmake or ninja")
class Build(unittest.TestCase):
    def test_without_headers(self):
        compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M).group(1)
        with tempfile.TemporaryDirectory(prefix="tilejit_no_header_") as folder:
            done = subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DTJ_TESTS=OFF", "-DTJ_SAMPLES=OFF", "-DTJ_TOOLS=OFF",
                                   f"-DCMAKE_CXX_COMPILER={compiler}", *(f"-D{variable}=OFF" for variable in HEADERS)], capture_output=True, text=True)
            self.assertEqual(0, done.returncode, done.stderr)
            rules = Path(folder, "build.ninja").read_text()
        self.assertIn("src/ffi/signature.cpp", rules)
        for variable, (framework, source) in HEADERS.items():
            self.assertRegex(done.stdout, rf"No functions for {framework}: \S+ was not found, so the library is built without \S+\..*\n?.*{variable}")
            self.assertNotIn("src/ffi/" + source, rules)


if __name__ == "__main__":
    skips.main()
