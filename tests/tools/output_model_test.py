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
        new, leads_to_new = os.path.join(self.folder.name, "new.svg"), os.path.join(self.folder.name, "leads_to_new.svg")
        os.symlink("new.svg", leads_to_new)
        for path in (kept, link, new, leads_to_new):
            write = f"exec '{BIN}/tj-schedule' {SCHEDULE} --svg '{path}'"
            done = subprocess.run(["bash", "-c", f"ulimit -f 1; {write}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{path}': File too large; raise the limit on the size of files (ulimit -f)", done.stderr)
            with open(kept) as file:
                self.assertEqual(file.read(), "of before")
            self.assertFalse(os.path.exists(new), path)
        self.assertTrue(os.path.islink(leads_to_new))
        subprocess.run(["bash", "-c", f"exec '{BIN}/tj-schedule' {SCHEDULE} --svg '{link}'"], stdout=subprocess.DEVNULL, check=True)
        with open(kept) as file:
            self.assertIn("<svg", file.read())
        self.assertTrue(os.path.islink(link))
        self.assertEqual(os.stat(kept).st_mode & 0o777, 0o640)

    def test_what_a_tool_did_not_make_is_not_removed(self):
        """A device takes what fits and stays; so does a file of several names, which is written into."""
        for path in ("/dev/full", os.path.join(self.folder.name, "to_full")):
            if path != "/dev/full":
                os.symlink("/dev/full", path)
            done = self.run_tool("tj-schedule", SCHEDULE + f"--svg '{path}'", "")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("No space left on device", done.stderr)
            self.assertTrue(os.path.lexists(path))
        named, other = os.path.join(self.folder.name, "named"), os.path.join(self.folder.name, "other")
        with open(named, "w") as file:
            file.write("of before")
        os.link(named, other)
        done = self.run_tool("tj-schedule", SCHEDULE + f"--svg '{named}'", "")
        self.assertEqual(done.returncode, 0, done.stderr)
        limited = f"ulimit -f 1; exec '{BIN}/tj-schedule' {SCHEDULE} --svg '{named}'"
        self.assertEqual(subprocess.run(["bash", "-c", limited], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).returncode, 2)
        self.assertTrue(os.path.samefile(named, other))

    def test_a_secret_key_that_cannot_be_written_whole_is_not_left(self):
        path = os.path.join(self.folder.name, "cut.key")
        done = subprocess.run(["bash", "-c", f"ulimit -f 0; exec '{BIN}/tj-warm' --make-key '{path}'"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertFalse(os.path.exists(path))

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
