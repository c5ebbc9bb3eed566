"""Protects files that tools read: pipes count as files, and a tool that waits for one says so."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BIN = os.path.join(os.environ["TJ_TEST_BUILD_DIR"], "bin")
LINE = json.dumps({"kernel": "chunk_indices", "target": "sm_90a", "fields": {}})
GRAPH = {"machine": "hopper", "instructions": [{"name": "a", "cycles": 1, "fu": "TC"}]}


@unittest.skipUnless(os.path.exists(os.path.join(BIN, "tj-warm")), "the tools are not built (TJ_TOOLS)")
class Input(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.line, self.graph = os.path.join(self.folder, "line"), os.path.join(self.folder, "graph")
        for path, text in ((self.line, LINE), (self.graph, json.dumps(GRAPH))):
            with open(path, "w") as file:
                file.write(text)
        cache = os.path.join(self.folder, "cache")
        self.covers = f"{BIN}/tj-warm --cache-dir {cache} --covers "
        self.schedule = f"{BIN}/tj-schedule --graph "

    def said(self, command):
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True)

    def check(self, command, text, done):
        self.assertEqual((done.returncode, text in done.stdout, done.stderr), (1 if "--covers" in command else 0, True, ""), done)

    def test_a_pipe_with_a_writer_is_read_like_a_file(self):
        for command, path, text in ((self.covers, self.line, "missing: line 1: chunk_indices for sm_90a"), (self.schedule, self.graph, " for hopper")):
            for words in (path, f"<(cat {path})", f"/dev/stdin < {path}"):
                self.check(command, text, self.said(command + words))
            self.check(command, text, self.said(f"cat {path} | {command} /dev/stdin"))
            self.check(command, text, self.said(f"(sleep 0.2; cat {path}) | {command} /dev/stdin"))

    def test_a_pipe_without_a_writer_is_named_and_then_read(self):
        for number, (command, path, text) in enumerate(((self.covers, self.line, "missing: line 1: chunk_indices"), (self.schedule, self.graph, " for hopper"))):
            pipe = os.path.join(self.folder, f"pipe{number}")
            os.mkfifo(pipe)
            with subprocess.Popen([*command.split(), pipe], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
                self.assertIn(f": waiting for '{pipe}', into which nobody has written for 1 s\n", tool.stderr.readline())
                with open(path) as file:
                    whole = file.read()
                with open(pipe, "w") as writer:
                    writer.write(whole)
                drain = threading.Thread(target=tool.stderr.read)  # it may have said it once more
                drain.start()
                self.assertIn(text, tool.stdout.read())
                drain.join()

    def test_an_end_without_a_byte_is_an_end(self):
        for words in ("/dev/null", "/dev/stdin < /dev/null", "<(true)"):
            done = self.said(self.covers + words)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn("lists nothing", done.stderr)
        done = self.said(f"true | {self.covers} /dev/stdin")
        self.assertIn("lists nothing", done.stderr)

    def test_what_cannot_be_read_is_refused_with_the_reason(self):
        for command in (self.covers, self.schedule):
            for path, reason in ((self.folder, "Is a directory"), (os.path.join(self.folder, "none"), "No such file or directory")):
                done = self.said(command + path)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn(f": cannot read '{path}': {reason}; give ", done.stderr)


if __name__ == "__main__":
    skips.main()
