"""Protects tests/gpu/sanitize.sh: it runs programs that the build makes, and the test cases that it names are there.

A filter that matches nothing would end as clean. Programs and the sanitizer are stand-ins here that write down how they are called.
"""
import os
import re
import subprocess
import tempfile
import unittest
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(os.environ.get("TJ_TEST_REPO_DIR", Path(__file__).resolve().parents[2]))
PROGRAMS = ["tests/tests.gpu", "samples/01_fmha", "samples/03_chunk_o"]


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def named_cases(source):
    return re.findall(r'TEST_CASE\(\s*"([^"]*)"', source.read_text())


class Sanitize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in PROGRAMS:
            program(self.folder / name, f'printf "%s\\n" "{name}|$*" >> "{self.folder}/calls"\n')
        program(self.folder / "bin/nvidia-smi", "exit 0\n")
        # compute-sanitizer --tool <tool> --error-exitcode 9 <program> <argument>...
        program(self.folder / "bin/compute-sanitizer", 'shift 4\nexec "$@"\n')

    def run_script(self, *kinds):
        environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}")
        return subprocess.run(["bash", str(ROOT / "tests/gpu/sanitize.sh"), str(self.folder), *kinds], env=environment,
                              capture_output=True, text=True, timeout=60, check=False)

    def test_programs_and_cases_exist(self):
        result = self.run_script()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertNotIn("findings", result.stdout)
        calls = {tuple(line.split("|", 1)) for line in (self.folder / "calls").read_text().splitlines()}
        self.assertEqual({name for name, _ in calls}, set(PROGRAMS))
        filtered = [arguments for name, arguments in calls if name == "tests/tests.gpu"]
        self.assertEqual(len(filtered), 7)
        for arguments in filtered:
            source, case = re.fullmatch(r"--source-file=(\S+) --test-case=(.*)", arguments).groups()
            sources = [path for path in (ROOT / "tests/gpu").glob("*_test.cpp") if fnmatch(str(path), source)]
            self.assertEqual(len(sources), 1, source)
            self.assertTrue(any(fnmatch(name, case) for name in named_cases(sources[0])), arguments)

    def test_a_program_that_is_not_built_is_named(self):
        (self.folder / "tests/tests.gpu").unlink()
        result = self.run_script("gemm")
        self.assertEqual(result.returncode, 1)
        self.assertIn("tests/tests.gpu does not exist", result.stdout)


if __name__ == "__main__":
    unittest.main()
