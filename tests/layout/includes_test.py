"""Protects builds by other standard libraries, and file by file: each file includes what it uses.

Looks at the repository, then at planted files.
"""
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import headers  # noqa: E402

ROOT = Path(os.environ.get("TJ_TEST_REPO_DIR", Path(__file__).resolve().parents[2]))

FILES = {
    "src/ops/planted.hpp": "#include <string>\nstruct PlantedType {\n  std::string name;\n};\n",
    "src/ops/reader.hpp": '#include "ops/planted.hpp"\nint count(const PlantedType&);\n',
}

# text of a file, what must be said about it
CASES = [
    ("#include <vector>\nstd::vector<int> v;\n", []),
    ("std::vector<int> v;\n", ["std::vector without <vector>"]),
    ("// std::vector<int>\nconst char* k = \"std::map<int, int>\";\n", []),
    ("#include <map>\nstd::pair<int, int> p;\n", []),
    ("int f() { return std::chrono::seconds(1).count(); }\n", ["std::chrono:: without <chrono>"]),
    ('#include "ops/reader.hpp"\nPlantedType a;\nstd::string b;\n', []),
    ("PlantedType a;\n", ["PlantedType without src/ops/planted.hpp"]),
]


class Includes(unittest.TestCase):
    maxDiff = None

    def test_repository(self):
        self.assertEqual([], list(headers.check_includes(ROOT)))

    def test_missing_headers_are_seen(self):
        for text, expected in CASES:
            with self.subTest(text=text), tempfile.TemporaryDirectory() as folder:
                for name, content in {**FILES, "src/case.cpp": text}.items():
                    path = Path(folder) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(content, encoding="utf-8")
                self.assertEqual([f"src/case.cpp: {each}" for each in expected], list(headers.check_includes(Path(folder))))

    def test_public_headers_guard_no_static(self):
        """A static object that is made at run time has a guard in the program. A child of fork() would wait for ever where another thread held it."""
        found = [f"{path.relative_to(ROOT)}:{number}" for path in sorted((ROOT / "include").rglob("*.h*"))
                 for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
                 if re.match(r"\s+static\s+(?!constexpr\b|constinit\b)[^;(]*[={]", line)]
        self.assertEqual([], found)


if __name__ == "__main__":
    unittest.main(verbosity=1)
