"""An installed tilejit for tests: what is built, put into a temporary folder, then moved to one with blanks in its name.

Invariant: nothing is left behind, and nothing of the build folder is found by programs that run with `clean`.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPO = Path(os.environ["TJ_TEST_REPO_DIR"])
sys.path.insert(0, str(REPO / "tests" / "support"))
import skips  # noqa: E402, F401

BUILD = Path(os.environ["TJ_TEST_BUILD_DIR"])


def run(*command, **settings):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout}")
    return done.stdout


def cached(name):
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


def version():
    return re.search(r"^project\(tilejit VERSION (\S+)", (REPO / "CMakeLists.txt").read_text(), re.M).group(1)


def elf_files(folder):
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            yield path


class Installed(unittest.TestCase):
    """`work` is the temporary folder, `prefix` the moved tree in it, `docs` its documents, `clean` an environment."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tilejit_package_")
        cls.work = Path(cls.folder.name)
        first = cls.work / "installed_here"
        for component in ("library", "tools", "samples"):
            run("cmake", "--install", BUILD, "--prefix", first, "--component", component)
        cls.prefix = cls.work / "moved" / "some where else"
        cls.prefix.parent.mkdir()
        shutil.move(first, cls.prefix)
        cls.docs = cls.prefix / "share/doc/tilejit"
        cls.clean = {k: v for k, v in os.environ.items() if k != "TJ_TARGET"}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
