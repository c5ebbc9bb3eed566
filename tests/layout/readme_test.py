"""Protects the README: its example is the sample that is built and run, and every link leads to something. src/arch/README.md has every fact."""
import os
import re
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("TJ_TEST_REPO_DIR", Path(__file__).resolve().parents[2]))


class Readme(unittest.TestCase):
    def test_example_is_the_sample(self):
        example = re.search(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
        self.assertIsNotNone(example)
        self.assertEqual((ROOT / "samples/00_hello/main.cpp").read_text(), example.group(1))

    def documents(self):
        found = [p for p in ROOT.glob("*.md")]
        for folder in ("include", "src", "cache", "kernel_templates", "tests", "samples"):
            found += (ROOT / folder).rglob("*.md")
        return found

    def test_links(self):
        for document in self.documents():
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
                if "://" not in target:
                    self.assertTrue((document.parent / target).exists(), f"{document.relative_to(ROOT)}: {target}")

    def test_headings(self):
        """A document begins with its heading, and no line of it runs into a heading's mark: a formatter of C++ makes "#name" of "# name"."""
        for document in self.documents():
            text = re.sub(r"^```.*?^```|^ {4}.*?$", "", document.read_text(), flags=re.S | re.M)
            self.assertTrue(text.startswith("# "), document.relative_to(ROOT))
            self.assertEqual(re.findall(r"^#+[^#\s].*", text, re.M), [], document.relative_to(ROOT))

    def test_facts(self):
        read = set()
        for source in (ROOT / "src").rglob("*.?pp"):
            read |= set(re.findall(r"""\bfact(?:_or)?\("([a-z0-9_]+)\"""", source.read_text()))
        self.assertGreater(len(read), 30)
        rows = {name for row in re.findall(r"^\| (`[^|]*) \|", (ROOT / "src/arch/README.md").read_text(), re.M) for name in re.findall(r"`(\w+)`", row)}
        self.assertEqual(sorted(read - rows), [])


if __name__ == "__main__":
    unittest.main()
