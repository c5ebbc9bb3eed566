"""Protects programs in C that were built against a frozen copy of tilejit.h: one for each copy, which calls every function that the copy declares, runs
with today's library, on the CPU model."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
ROOT = Path(os.environ["TJ_TEST_REPO_DIR"])
sys.path.insert(0, str(ROOT / "tests" / "support"))
import compare  # noqa: E402
import freeze  # noqa: E402
import skips  # noqa: E402

LIBRARY = Path(os.environ["TJ_TEST_LIBRARY"])


@unittest.skipUnless(compare.compiler(), "no C compiler")
class Program(unittest.TestCase):
    def test_calls_every_function(self):
        for folder in freeze.frozen():
            self.assertEqual([], freeze.not_called(folder), folder.name)

    def test_runs(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TJ_TARGET")}
        environment["TJ_TARGET"] = "model:sm_90a"
        environment["TJ_TUNED"] = "on"  # misspelt: each runtime warns of it, and the log sink has a line
        for folder in freeze.frozen():
            with tempfile.TemporaryDirectory() as scratch:
                program = Path(scratch) / "program"
                subprocess.run([compare.compiler(), "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", folder, folder / "program.c", "-o", program,
                                LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"], check=True)
                done = subprocess.run([program, ROOT / "samples/05_custom_gemm"], env=environment, capture_output=True, text=True)
                self.assertEqual((0, "every call is as it was\n"), (done.returncode, done.stdout), f"{folder.name}: {done.stderr}")


if __name__ == "__main__":
    skips.main()
