"""Protects how tools name documents: by their place in the sources, and whole where an installed copy lies beside the tool's folder."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

TOOL = Path(os.environ["TJ_TEST_BUILD_DIR"]) / "bin" / "tj-schedule"
NAME = "src/graph/README.md"


@unittest.skipUnless(TOOL.exists(), "the tools are not built (TJ_TOOLS)")
class InstalledDocuments(unittest.TestCase):
    def test_a_document_beside_the_tool_is_named_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            (root / "bin").mkdir()
            tool = shutil.copy(TOOL, root / "bin")
            document = root / "share" / "doc" / "tilejit" / NAME
            self.assertIn(f"({NAME})", self.help_of(tool))
            document.mkdir(parents=True)  # a folder is no document
            self.assertNotIn(str(document), self.help_of(tool))
            document.rmdir()
            document.write_text("text")
            self.assertIn(str(document), self.help_of(tool))

    @staticmethod
    def help_of(tool):
        done = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True)
        return " ".join(done.stdout.split())


if __name__ == "__main__":
    skips.main()
