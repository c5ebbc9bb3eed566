"""Protects src/ops/DOCUMENTS.md: every row of the five source documents is there once, in order and with a state; the tests, files and words that it names
exist, and its commands are of programs and flags that there are. Those of tj-schedule run; the others would need a GPU, or time."""
import glob
import os
import re
import shlex
import subprocess
import sys
import unittest

REPO = os.environ["TJ_TEST_REPO_DIR"]
BUILD = os.environ["TJ_TEST_BUILD_DIR"]
sys.path.insert(0, os.path.join(REPO, "tests", "support"))
import skips  # noqa: E402

TABLE = os.path.join(REPO, "src", "ops", "DOCUMENTS.md")
ROWS = {"0": 18, "1": 24, "2": 25, "3": 19, "4": 23}
MORE = {"0.11": "abc"}  # rows behind that one: 0.11a, 0.11b, 0.11c
STATES = ("works", "partly: ", "missing: ", "refused: ")
MODES = ("--measure-bodies", "--calibrate")  # of tj-bench, with a help of their own
PROGRAMS = ("tj-schedule", "tj-warm", "tj-check", "tj-bench")
FOLDERS = ("tests/", "samples/", "src/", "include/", "kernel_templates/", "cache/", "README.md")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rows_of(text):
    """(row, capability, state, shown by) of each line of the tables."""
    return [tuple(cell.strip() for cell in line.strip().strip("|").split(" | ")) for line in text.splitlines() if re.match(r"\| \d+\.\d+[a-z]? \|", line)]


def mistakes_of(rows):
    found = []
    for row in rows:
        if len(row) != 4:
            found.append(f"{row[0]}: {len(row)} cells, not 4")
            continue
        number, _, state, shown = row
        if not state.startswith(STATES):
            found.append(f"{number}: state '{state}'")
        things = re.findall(r'`([^`]+)`(?: "([^"]+)")?', shown)
        if not things:
            found.append(f"{number}: nothing shows it")
        for thing, words in things + [(each, "") for each in re.findall(r"`(tj-[^`]+)`", state)]:
            if thing.startswith(FOLDERS):
                paths = glob.glob(os.path.join(REPO, thing))
                if not paths:
                    found.append(f"{number}: {thing} is not there")
                elif words and not any(words in re.sub(r'"\s*\n\s*"', "", read(path)) for path in paths):
                    found.append(f"{number}: {thing} has no '{words}'")
            elif thing.split()[0] not in PROGRAMS:
                found.append(f"{number}: {thing} is neither a file nor a command")
    return found


class Documents(unittest.TestCase):
    def test_every_row_once_in_order(self):
        wanted = [f"{d}.{i}{letter}" for d, count in ROWS.items() for i in range(1, count + 1) for letter in ("", *MORE.get(f"{d}.{i}", ""))]
        self.assertEqual([row[0] for row in rows_of(read(TABLE))], wanted)

    def test_what_shows_them_exists(self):
        self.assertEqual(mistakes_of(rows_of(read(TABLE))), [])

    def test_mistakes_are_seen(self):
        self.assertEqual(len(mistakes_of([("9.1", "x", "works", "`tests/absent_test.cpp`"), ("9.2", "x", "fine", "`README.md`"), ("9.3", "x", "works", "words"),
                                          ("9.4", "x", "works", '`README.md` "words that it lacks"'), ("9.5", "x", "works", "`rm -r`"), ("9.6", "x", "works")])), 6)

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "bin", "tj-schedule")), "the tools are not built (TJ_TOOLS)")
    def test_commands_run(self):
        commands = [each for row in rows_of(read(TABLE)) for each in re.findall(r"`(tj-[^`]+)`", row[2] + row[3])]
        self.assertGreater(len(commands), 8)
        for command in commands:
            program, *words = shlex.split(command)
            runs, mode = program == "tj-schedule", [word for word in words[:1] if word in MODES]
            done = subprocess.run([os.path.join(BUILD, "bin", program), *(words if runs else [*mode, "--help"])], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
            for word in words[len(mode):] if not runs else []:
                self.assertTrue(not word.startswith("--") or re.search(re.escape(word) + r"\b", done.stdout), f"{command}: no {word} in the help")


if __name__ == "__main__":
    skips.main()
