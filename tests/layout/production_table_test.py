"""Protects the table "In production" of cache/README.md: each test that it names is there, and has the cases that stand behind its name."""
import glob
import os
import re
import unittest

REPO = os.environ["TJ_TEST_REPO_DIR"]
TABLE = os.path.join(REPO, "cache", "README.md")
TEST = re.compile(r"([a-z]+)\.([a-z0-9_]+)")
FEWEST_ROWS = 20


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rows_of(text):
    """(what happens, its cell of tests) of each row."""
    section = text.split("\n## In production\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in section.splitlines() if line.startswith("| ")]
    return [(row[0], row[-1]) for row in cells[1:]]


def cases_in(path):
    """Names of a file's cases: doctest's, put together where they take several lines, or those of unittest."""
    text = re.sub(r'"\s*\n\s*"', "", read(path))
    return re.findall(r"    def (test_\w+)\(", text) if path.endswith(".py") else re.findall(r'TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"', text)


def mistakes_of(what, cell):
    """A quoted case belongs to the test before it; with three dots at its end it is a beginning."""
    found, cases, of = [], None, None
    for code, quoted in re.findall(r'`([^`]+)`|"([^"]+)"', cell):
        test = TEST.fullmatch(code)
        if test:
            of = code
            paths = [path for end in ("cpp", "py") for path in glob.glob(os.path.join(REPO, "tests", test[1], f"{test[2]}_test.{end}"))]
            cases = [case for path in paths for case in cases_in(path)]
            if not cases:
                found.append(f"{what}: {code} is no test")
        elif quoted or code.startswith("test_"):
            wanted = (quoted or code).removesuffix("...").rstrip()
            begins = (quoted or code).endswith("...")
            if not any(case.startswith(wanted) if begins else case == wanted for case in cases or ()):
                found.append(f"{what}: {of} has no case '{quoted or code}'")
    return found if of else [f"{what}: no test holds it"]


class Production(unittest.TestCase):
    def test_each_row_names_tests_and_cases_that_there_are(self):
        rows = rows_of(read(TABLE))
        self.assertGreaterEqual(len(rows), FEWEST_ROWS)
        self.assertEqual([mistake for row in rows for mistake in mistakes_of(*row)], [])

    def test_mistakes_are_found(self):
        for cell, said in (("`cache.nothing`", "cache.nothing is no test"), ('`cache.fault`: "no such case ..."', "no such case ..."),
                           ("with `TJ_TEST_FULL=1`", "no test holds"), ("`runtime.ends_model`: `test_no_such_case`", "test_no_such_case")):
            self.assertEqual(len(mistakes_of("a row", cell)), 1, cell)
            self.assertIn(said, mistakes_of("a row", cell)[0])


if __name__ == "__main__":
    unittest.main()
