"""Protects the layout of the text: every C++ file is as the pinned clang-format leaves it, and no line of theirs grows.

tests/setup.sh installs that version; without it the test skips itself, as other versions break lines in other places.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("TJ_TEST_REPO_DIR", Path(__file__).resolve().parents[2]))
FOLDERS = ("include", "src", "cache", "kernel_templates", "tests", "samples")
SUFFIXES = {".cpp", ".hpp", ".h", ".cuh", ".c"}
SKIPPED = 77


def pinned_version():
    return re.search(r"^clang-format==(\S+)", (ROOT / ".cmake/clang-format-wheel.txt").read_text(), re.M).group(1)


def find_formatter():
    """The pinned version's program, or None."""
    own = ROOT / ".deps/clang-format/data/bin/clang-format"
    for program in (own, shutil.which("clang-format")):
        if program and Path(program).exists():
            said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            if f"version {pinned_version()}" in said:
                return str(program)
    return None


def sources():
    return sorted(str(path) for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)


class Format(unittest.TestCase):
    def test_sources(self):
        done = subprocess.run([find_formatter(), "--dry-run", "-Werror", *sources()], capture_output=True, text=True)
        places = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
        self.assertEqual([], [os.path.relpath(place, ROOT) for place in places],
                         f"run {find_formatter()} -i on these files")
        self.assertEqual(0, done.returncode, done.stderr)

    def test_other_text_is_noticed(self):
        program = [find_formatter(), "--dry-run", "-Werror", "--assume-filename=" + str(ROOT / "src/planted.cpp")]
        self.assertNotEqual(0, subprocess.run(program, input="int  x ;\n", capture_output=True, text=True).returncode)
        self.assertEqual(0, subprocess.run(program, input="int x;\n", capture_output=True, text=True).returncode)


if __name__ == "__main__":
    if find_formatter() is None:
        print(f"skipped: clang-format {pinned_version()} is not here; tests/setup.sh fetches it")
        sys.exit(SKIPPED)
    unittest.main()
