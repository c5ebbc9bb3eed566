"""Protects tj-check over a user's own program: samples/05_custom_gemm, a graph and node bodies that are no op, is checked as a user would.

What a run reports comes through the file that TJ_MODEL_REPORT names; a program that fails by itself is a finding too.
"""
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
TOOL = os.path.join(BUILD, "bin", "tj-check")
PROGRAM = os.path.join(BUILD, "samples", "05_custom_gemm")
SIZES = ["--m", "130", "--n", "120", "--k", "328"]


def said(done):
    """What a tool complains of. On a busy machine it also says that a run takes long."""
    return "".join(line for line in done.stderr.splitlines(True) if "has not ended after" not in line)


@unittest.skipUnless(os.path.exists(PROGRAM) and os.path.exists(TOOL), "the samples or the tools are not built (TJ_SAMPLES, TJ_TOOLS)")
class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.environment = {**os.environ, "TJ_CACHE_DIR": os.path.join(cls.folder.name, "cache"),
                           "LD_LIBRARY_PATH": os.path.join(BUILD, "lib") + ":" + os.environ.get("LD_LIBRARY_PATH", "")}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, *words, program=(PROGRAM, *SIZES), before=None):
        return subprocess.run([TOOL, "--target", "model:sm_90a", *words, "--", *program], capture_output=True, text=True, env=self.environment, preexec_fn=before)

    def test_clean(self):
        done = self.check("--seeds", "3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("3 seeds from 1: clean", done.stdout)
        self.assertEqual(said(done), "")

    def test_a_site_off_is_found(self):
        listed = self.check("--list-sites")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        release = next(line.split("\t")[0] for line in listed.stdout.splitlines() if "release ring" in line)
        self.assertTrue(release.isdigit(), listed.stdout)
        broken = self.check("--seeds", "3", "--disable-site", release, "--json")
        self.assertEqual(broken.returncode, 1, broken.stdout + broken.stderr)
        finding = json.loads(broken.stdout)["cases"][0]["findings"][0]
        for field in ("kernel", "code", "message", "log", "first_seed", "seeds", "command"):
            self.assertIn(field, finding)
        self.assertIn(f"--disable-site {release} -- ", finding["command"])
        self.assertTrue(finding["log"])

    def test_the_seed_reaches_the_program(self):
        words = "test $TJ_MODEL_SEED = 5 || exit 3; exec " + " ".join([PROGRAM, *SIZES])
        self.assertEqual(self.check("--seed", "5", "--seeds", "1", program=("sh", "-c", words)).returncode, 0)
        other = self.check("--seed", "5", "--seeds", "2", program=("sh", "-c", words))
        self.assertEqual(other.returncode, 1, other.stdout)
        self.assertIn("ended with status 3, before it launched a kernel", other.stdout)

    def test_an_end_is_seen_though_the_parent_ignores_its_children(self):
        done = self.check("--seeds", "1", program=("sh", "-c", " ".join([PROGRAM, *SIZES]) + "; exit 3"), before=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("ended with status 3, and the model reported nothing", done.stdout)

    def test_bad_use(self):
        for program, part in ((("/nowhere",), "/nowhere"), (("true",), "launched no kernel on model:sm_90a")):
            done = self.check(program=program)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(part, done.stderr)

    def test_an_end_before_the_first_launch_is_found(self):
        for words in ((), ("--list-sites",)):
            done = self.check("--seeds", "2", *words, program=("sh", "-c", "echo node body: 3 is no type; exit 4"))
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("ended with status 4, before it launched a kernel", done.stdout)
            self.assertIn("node body: 3 is no type", done.stdout)
        self.assertEqual(self.check("--seeds", "1", program=("sh", "-c", "kill -SEGV $$")).returncode, 1)

    def test_a_line_that_was_cut_off_is_passed_over(self):
        """A program may end while it writes its report."""
        words = "printf '{\"kernel\": \"ha\\n{\"finding\"\\n' >> \"$TJ_MODEL_REPORT\"; exec " + " ".join([PROGRAM, *SIZES])
        done = self.check("--seeds", "1", program=("sh", "-c", words))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(said(done), "")

    def test_a_report_of_gigabytes_is_refused_unread(self):
        limited = resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY  # mutants are judged under such a limit
        for word in ("truncate -s 100M $TJ_MODEL_REPORT" if limited else "truncate -s 1T $TJ_MODEL_REPORT", "head -c 70000000 /dev/zero > $TJ_MODEL_REPORT"):
            done = self.check("--seeds", "1", program=("sh", "-c", word))
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("in the file that TJ_MODEL_REPORT names; allowed: at most 67108864", done.stderr)
        done = self.check("--seeds", "1", program=("sh", "-c", "mkfifo $TJ_MODEL_REPORT; exit 3"))  # nobody writes into it
        self.assertIn("ended with status 3", done.stdout)

    def test_a_site_that_no_kernel_has_is_refused(self):
        listed = self.check("--list-sites").stdout.splitlines()
        wait = next(line.split("\t")[0] for line in listed if line.split("\t")[1] == "wait")
        for flag, site, part in (("--disable-site", "999", f"with {len(listed)} sites"), ("--disable-site", "nosuch:5", "--disable-site is 'nosuch:5'; allowed"),
                                 ("--weaken-site", wait, "a site of kind 'wait'")):
            done = self.check("--seeds", "1", flag, site)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertIn(part, done.stderr)

    def test_the_library_names_a_site_that_its_kernels_have_not(self):
        for site, word in (("99999", "99999"), ("foo:1", "foo:1"), ("1", None)):
            environment = {**self.environment, "TJ_TARGET": "model:sm_90a", "TJ_MODEL_DISABLE": site}
            said = subprocess.run([PROGRAM, *SIZES], capture_output=True, text=True, env=environment).stderr
            self.assertEqual(word is not None, f"TJ_MODEL_DISABLE has '{word}', a site that no kernel has so far: " in said, said)

    def test_a_report_that_cannot_be_written_is_refused_by_name(self):
        environment = {**self.environment, "TJ_TARGET": "model:sm_90a", "TJ_MODEL_REPORT": "/nowhere/report"}
        done = subprocess.run([PROGRAM, *SIZES], capture_output=True, text=True, env=environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("TJ_MODEL_REPORT", done.stdout + done.stderr)


if __name__ == "__main__":
    skips.main()
