"""Protects sample 09_rmsnorm_gemm as a user runs it on the CPU model of each family: sizes at the edges of tiles, what it prints, exit codes, mistakes named,
and that its bodies stay short."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

REPO = os.environ["TJ_TEST_REPO_DIR"]
sys.path.insert(0, os.path.join(REPO, "tests", "support"))
import skips  # noqa: E402

PROGRAM = os.path.join(os.environ["TJ_TEST_BUILD_DIR"], "samples", "09_rmsnorm_gemm")


@unittest.skipUnless(os.path.exists(PROGRAM), "the samples are not built (TJ_SAMPLES)")
class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def run_sample(self, target, *words):
        environment = {**os.environ, "TJ_TARGET": target, "TJ_CACHE_DIR": os.path.join(self.folder.name, "cache")}
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment)

    def check(self, target, *parts, sizes=((130, 264, 72), (1, 8, 8))):
        for m, n, k in sizes:
            done = self.run_sample(target, "--m", str(m), "--n", str(n), "--k", str(k))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for part in (target, "seed ", "(proven)", f"M {m}, N {n}, K {k}", f"{m} of {m} rows", "ok: against f64", *parts):
                self.assertIn(part, done.stdout)

    def test_products_of_a_warpgroup(self):
        for size, tile, rings in (((130, 264, 72), "128 x 256 x 64, 4 of", "x x4 w x4"), ((100, 504, 72), "128 x 128 x 64, 4 of", "x x7 w x7"),
                                  ((64, 512, 72), "64 x 128 x 64, 4 of", "x x8 w x8"), ((1, 8, 8), "64 x 64 x 64, 1 of", "x x8 w x8")):
            self.check("model:sm_90a", "role load (1 warp", "squares.1", "rings: " + rings, "tile     " + tile, sizes=(size,))

    def test_trial_of_the_graph(self):
        """tj-check takes the graph's own trial, in each of its forms."""
        words = [os.path.join(os.environ["TJ_TEST_BUILD_DIR"], "bin", "tj-check"), "--graph", os.path.join(REPO, "samples", "09_rmsnorm_gemm", "sm90.json"), "--seeds", "2"]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TJ_CACHE_DIR": os.path.join(self.folder.name, "cache")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for form in ("wide", "middle", "low", "small"):
            self.assertIn(f"clean: sm90_{form} on model:sm_90a, trial edges", done.stdout)

    def test_products_of_a_warp(self):
        self.check("model:sm_80", "role load (4 warps", "squares.1", "rings: x x4 w x4")
        self.check("model:sm_120a", "rings: x x3 w x3", sizes=((65, 136, 200),))
        for target in ("model:sm_100", "model:sm_103", "model:sm_110"):
            self.check(target, sizes=((1, 8, 8),))

    def test_products_of_a_wave(self):
        self.check("model:gfx1100", "role compute0 (4 warps", "squares@", "rings: xw x2")
        for target in ("model:gfx1201", "model:gfx90a", "model:gfx950"):
            self.check(target, sizes=((65, 136, 200),))

    def test_mistakes(self):
        for words, part in ((["--k", "12"], "multiple of 8"), (["--n", "9"], "multiple of 8"), (["--m", "0"], "--m"), (["--colour"], "--colour"), (["more"], "more")):
            done = self.run_sample("model:sm_90a", *words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(part, done.stderr)
        done = self.run_sample("model:sm_100a")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no graph for 'sm_100a'; it has them for sm_90a, ", done.stderr)


class Bodies(unittest.TestCase):
    def test_short(self):
        """Lines of code of all that a family's unit includes of the sample."""
        folder = os.path.join(REPO, "samples", "09_rmsnorm_gemm")
        counts = {}
        for path in glob.glob(os.path.join(folder, "*.cuh")):
            with open(path, encoding="utf-8") as file:
                counts[os.path.basename(path)] = sum(not re.match(r"\s*(//.*)?$", line) for line in file)
        for own in (("sm90.cuh", "nvidia.cuh"), ("sm80.cuh", "nvidia.cuh"), ("amd.cuh",)):
            self.assertLess(sum(counts[name] for name in (*own, "rmsnorm_gemm_tiles.cuh")), 150, own)


if __name__ == "__main__":
    skips.main()
