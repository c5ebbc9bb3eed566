"""Protects the examples of the docstrings: each gives what it says, on the CPU model."""
import doctest
import importlib
import os
import unittest

import here

MODULES = ("", "._device", "._error", "._ops", "._runtime", "._tensors", ".custom", ".graph")


class Examples(unittest.TestCase):
    """An example for each public function stands in package_test.py's list; this runs them. One of them names a folder of the sources."""

    def setUp(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(here.ROOT)

    def run_examples(self, wanted):
        ran = 0
        for module in MODULES:
            for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module("tilejit" + module)):
                if test.examples and wanted(test.docstring):
                    report = []
                    result = doctest.DocTestRunner().run(test, out=report.append)
                    self.assertEqual(result.failed, 0, "".join(report))
                    ran += 1
        return ran

    @unittest.skipUnless(here.numpy, here.NO_NUMPY)
    def test_with_numpy(self):
        self.assertGreaterEqual(self.run_examples(lambda text: "numpy" in text and "ml_dtypes" not in text), 4)

    @unittest.skipUnless(here.numpy, here.NO_NUMPY)
    def test_document(self):
        path = os.path.join(here.ROOT, "src", "python", "README.md")
        failed, ran = doctest.testfile(path, module_relative=False)
        self.assertEqual(failed, 0)
        self.assertGreaterEqual(ran, 5)

    def test_alone(self):
        self.assertGreaterEqual(self.run_examples(lambda text: "numpy" not in text), 11)

    @unittest.skipUnless(here.numpy and here.ml_dtypes, here.NO_BF16)
    def test_with_bf16(self):
        self.assertEqual(self.run_examples(lambda text: "ml_dtypes" in text), 1)


if __name__ == "__main__":
    here.skips.main()
