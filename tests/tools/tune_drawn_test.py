"""Protects what tests/gpu/tune_drawn.py times: the products of compare.py with the same seed, of as many rows as asked for; and what its document says of
them."""
import os
import sys
import unittest

ROOT = os.environ["TJ_TEST_REPO_DIR"]
sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
import drawing  # noqa: E402
import tune_drawn  # noqa: E402


def options(*words):
    return tune_drawn.parse(["--library", "lib.so", "--json", "out.json", *words])


class Problems(unittest.TestCase):
    def test_those_of_the_draw_in_their_order(self):
        self.assertEqual(tune_drawn.problems_of(options("--seed", "7", "--count", "9")), drawing.draw("gemm", 7, 9))

    def test_rows_are_between_the_two_numbers(self):
        chosen = tune_drawn.problems_of(options("--seed", "7", "--count", "20", "--rows", "65", "450"))
        self.assertEqual(len(chosen), 20)
        self.assertTrue(all(65 <= problem["m"] <= 450 for problem in chosen))
        every = drawing.draw("gemm", 7, 2000)
        self.assertEqual(chosen, [problem for problem in every if 65 <= problem["m"] <= 450][:20])

    def test_bad_words_are_refused(self):
        for words in (["--count", "0"], ["--rows", "9", "8"], ["--rows", "0", "8"], ["--dtype", "f32"]):
            with self.assertRaises(SystemExit):
                options(*words)


class Document(unittest.TestCase):
    def test_kernels_that_were_timed(self):
        problem = drawing.draw("gemm", 7, 1)[0]
        row = tune_drawn.row_of(problem, {"kernels": [{"name": "64x64x128", "measured_us": 3.5}, {"name": "16x64x128", "refused": "no room"}]})
        self.assertEqual(row["kernels"], [["64x64x128", 3.5]])
        self.assertEqual(row["sizes"], [problem["m"], problem["n"], problem["k"]])
        self.assertEqual(row["title"], drawing.title(problem))


if __name__ == "__main__":
    unittest.main()
