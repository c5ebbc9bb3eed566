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

    def test_links(self):
        documents = [p for p in ROOT.glob("*.md")]
        for folder in ("include", "src", "cache", "kernel_templates", "tests", "samples"):
            documents += (ROOT / folder).rglob("*.md")
        for document in documents:
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
                if "://" not in target:
                    self.assertTrue((document.parent / target).exists(), f"{document.relative_to(ROOT)}: {target}")

    def test_facts(self):
        read = set()
        for source in (ROOT / "src").rglob("*.?pp"):
            read |= set(re.findall(r"""\bfact(?:_or)?\("([a-z0-9_]+)\"""", source.read_text()))
        self.assertGreater(len(read), 30)
        rows = {name for row in re.findall(r"^\| (`[^|]*) \|", (ROOT / "src/arch/README.md").read_text(), re.M) for name in re.findall(r"`(\w+)`", row)}
        self.assertEqual(sorted(read - rows), [])


if __name__ == "__main__":
    unittest.main()
