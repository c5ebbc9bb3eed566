"""Protects programs in C that were built against a frozen copy of tilejit.h: today's header breaks none of its declarations, the library exports all
of its functions, under the soname of the last break, and what is new in the header has a new minor version."""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
ROOT = Path(os.environ["TJ_TEST_REPO_DIR"])
sys.path.insert(0, str(ROOT / "tests" / "support"))
import compare  # noqa: E402
import freeze  # noqa: E402
import skips  # noqa: E402
from header import Header  # noqa: E402

TODAY = ROOT / "include/tilejit/tilejit.h"
LIBRARY = os.environ["TJ_TEST_LIBRARY"]


def shown(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@unittest.skipUnless(compare.compiler(), "no C compiler")
class Frozen(unittest.TestCase):
    def test_there_is_one(self):
        self.assertTrue(freeze.frozen(), "python3 tests/abi/freeze.py makes one")

    def test_nothing_is_broken(self):
        for folder in freeze.frozen():
            self.assertEqual([], compare.breaks(folder / "tilejit.h", TODAY), folder.name)

    def test_all_is_exported(self):
        exported = set(re.findall(r" T (tj_\w+)$", shown("nm", "-D", "--defined-only", LIBRARY), re.M))
        for folder in freeze.frozen():
            self.assertEqual(set(), set(Header(folder / "tilejit.h").functions) - exported, folder.name)

    def test_soname_is_the_oldest_copy_s(self):
        major, minor, _ = freeze.frozen()[0].name.split(".")
        self.assertIn(f"soname: [libtilejit.so.{major}.{minor}]", shown("readelf", "-dW", LIBRARY))

    def test_what_is_new_has_a_new_version(self):
        folder = freeze.FOLDER / freeze.current_version()
        if folder in freeze.frozen():
            self.assertEqual([], compare.breaks(TODAY, folder / "tilejit.h"), f"{TODAY.name} declares more than the copy of this version. Raise the minor version "
                             "in CMakeLists.txt and run tests/abi/freeze.py; or, if this version is not released, run it with --replace")


if __name__ == "__main__":
    skips.main()
