"""Protects what the tools' exit status promises: 0 is said only of what was also written, wherever the output goes."""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BIN = os.path.join(os.environ["TJ_TEST_BUILD_DIR"], "bin")
TRIAL = "--op copy_rows --target model:sm_90a --seeds 1 "
KERNEL = "--op copy_rows --target model:sm_90a "
SCHEDULE = "--op fmha --target sm_90a "


@unittest.skipUnless(os.path.exists(os.path.join(BIN, "tj-check")), "the tools are not built (TJ_TOOLS)")
class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.cache = f"--cache-dir '{cls.folder.name}' "
        # Each way of working that prints, of each tool.
        cls.commands = [("tj-check", words) for words in ("--help", "--version", TRIAL, TRIAL + "--json", TRIAL + "--list-sites", TRIAL + "--mutate")]
        cls.commands += [("tj-schedule", words) for words in ("--help", "--version", SCHEDULE, SCHEDULE + "--json", "--graph-example fa_hopper")]
        cls.commands += [("tj-bench", words) for words in ("--help", "--version", "--timeline --help", cls.cache + "--compile --rounds 1 " + KERNEL)]
        cls.commands += [("tj-warm", cls.cache + words) for words in ("--help", "--version", KERNEL, KERNEL + "--json", "--list", "--list --json", "--verify", "--verify --json")]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_tool(self, tool, words, output):
        return subprocess.run(["sh", "-c", f"exec '{BIN}/{tool}' {words} {output}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def refused(self, tool, words, output):
        done = self.run_tool(tool, words, output)
        self.assertEqual(done.returncode, 2, f"{tool} {words} {output}: {done.stdout}{done.stderr}")
        self.assertIn(f"{tool}: argument: standard output is '", done.stderr)
        if "full" in output:
            self.assertIn("'No space left on device'", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_help_says_what_exit_codes_mean(self):
        for tool, words in self.commands:
            if words.endswith("--help"):
                said = self.run_tool(tool, words, "").stdout
                for part in ("Exit codes: 0 ", " 1 ", " 2 bad use or an output that cannot be"):
                    self.assertIn(part, " ".join(said.split()), f"{tool} {words}")

    def test_a_full_disk(self):
        for tool, words in self.commands:
            self.refused(tool, words, "> /dev/full")

    def test_closed(self):
        for tool, words in self.commands:
            if "--mutate" not in words:
                self.refused(tool, words, ">&-")
        for tool, words in (("tj-check", TRIAL), ("tj-schedule", SCHEDULE), ("tj-warm", self.cache + KERNEL)):
            done = self.run_tool(tool, words, "2>&- <&-")
            self.assertEqual(done.returncode, 0, f"{tool} {words}: {done.stderr}")

    def test_a_limit_on_the_size_of_files(self):
        """What could not be written whole leaves a file of before as it was, and the limit is named."""
        kept, link = os.path.join(self.folder.name, "limited.svg"), os.path.join(self.folder.name, "link.svg")
        with open(kept, "w") as file:
            file.write("of before")
        os.chmod(kept, 0o640)
        os.symlink("limited.svg", link)
        for path in (kept, link, os.path.join(self.folder.name, "new.svg")):
            write = f"exec '{BIN}/tj-schedule' {SCHEDULE} --svg '{path}'"
            done = subprocess.run(["bash", "-c", f"ulimit -f 1; {write}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{path}': File too large; raise the limit on the size of files (ulimit -f)", done.stderr)
            with open(kept) as file:
                self.assertEqual(file.read(), "of before")
        subprocess.run(["bash", "-c", f"exec '{BIN}/tj-schedule' {SCHEDULE} --svg '{link}'"], stdout=subprocess.DEVNULL, check=True)
        with open(kept) as file:
            self.assertIn("<svg", file.read())
        self.assertTrue(os.path.islink(link))
        self.assertEqual(os.stat(kept).st_mode & 0o777, 0o640)

    def test_who_starts_a_tool_may_ignore_how_programs_end(self):
        with tempfile.TemporaryDirectory() as cache:  # what is not there yet is compiled, by a program that the tool waits for
            done = subprocess.run([f"{BIN}/tj-warm", "--cache-dir", cache, *KERNEL.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_pipe_that_nobody_reads(self):
        for tool, words in (("tj-check", TRIAL), ("tj-schedule", SCHEDULE), ("tj-warm", self.cache + KERNEL), ("tj-warm", self.cache + "--list")):
            ours, theirs = os.pipe()
            os.close(ours)
            done = subprocess.run(["sh", "-c", f"exec '{BIN}/{tool}' {words}"], stdout=theirs, stderr=subprocess.PIPE, text=True)
            os.close(theirs)
            self.assertEqual(done.returncode, 2, f"{tool} {words}: {done.stderr}")
            self.assertIn("standard output is '", done.stderr)

    def test_a_line_is_rewritten_only_where_the_terminal_can(self):
        for term, rewritten in (("xterm", True), ("dumb", False), ("", False)):
            ours, theirs = os.openpty()
            environment = {**os.environ, "TERM": term}
            done = subprocess.run(["sh", "-c", f"exec '{BIN}/tj-warm' {self.cache} {KERNEL}"], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=environment, text=True)
            os.close(theirs)
            printed = b""
            try:
                while chunk := os.read(ours, 4096):
                    printed += chunk
            except OSError:  # the other end is closed
                pass
            os.close(ours)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"1 kernels:", printed)
            self.assertEqual(b"\x1b[K" in printed, rewritten, f"TERM={term}: {printed}")


if __name__ == "__main__":
    skips.main()
