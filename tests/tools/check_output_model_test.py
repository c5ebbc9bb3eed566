"""Protects what tj-check's exit status promises: 0 is said only of what was also written, wherever the output goes."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

TOOL = os.path.join(os.environ["TJ_TEST_BUILD_DIR"], "bin", "tj-check")
OP = "--op copy_rows --target model:sm_90a --seeds 1 "


@unittest.skipUnless(os.path.exists(TOOL), "the tools are not built (TJ_TOOLS)")
class Output(unittest.TestCase):
    def check(self, words, output):
        return subprocess.run(["sh", "-c", f"exec '{TOOL}' {words} {output}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def refused(self, words, output):
        done = self.check(words, output)
        self.assertEqual(done.returncode, 2, f"{words} {output}: {done.stdout}{done.stderr}")
        self.assertIn("tj-check: argument: standard output is '", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_a_full_disk(self):
        for words in ("--help", OP, OP + "--json", OP + "--list-sites", OP + "--mutate"):
            self.refused(words, "> /dev/full")

    def test_closed(self):
        self.refused(OP, ">&-")
        self.assertEqual(self.check(OP, "2>&- <&-").returncode, 0)

    def test_a_pipe_that_nobody_reads(self):
        ours, theirs = os.pipe()
        os.close(ours)
        done = subprocess.run([TOOL, *OP.split()], stdout=theirs, stderr=subprocess.PIPE, text=True)
        os.close(theirs)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("standard output is '", done.stderr)


if __name__ == "__main__":
    skips.main()
