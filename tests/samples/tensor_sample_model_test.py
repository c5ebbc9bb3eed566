"""Protects that samples run on tensor memory as on any arch: TJ_TARGET=model:sm_100a, results against f64, roles and rings that are shown."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
SAMPLES = {name: os.path.join(BUILD, "samples", name) for name in ("00_hello", "01_fmha", "02_gemm_ladder", "03_chunk_o")}


@unittest.skipUnless(all(os.path.exists(path) for path in SAMPLES.values()), "the samples are not built (TJ_SAMPLES)")
class Samples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def run_sample(self, name, *words):
        environment = {**os.environ, "TJ_TARGET": "model:sm_100a", "TJ_CACHE_DIR": os.path.join(self.folder.name, "cache")}
        done = subprocess.run([SAMPLES[name], *words], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("model:sm_100a", done.stdout)
        return done.stdout

    def test_hello(self):
        self.assertIn("o[0] = 0x3c00", self.run_sample("00_hello"))

    def test_attention(self):
        shown = self.run_sample("01_fmha", "--causal", "--head-dim", "128", "--heads", "2", "--kv-heads", "1", "--seq-q", "140", "--seq-k", "150", "--seed", "3")
        for part in ("ok: against f64", "role mma (1 warp", "role compute2", "scores.0 x1"):
            self.assertIn(part, shown)

    def test_chunk_output(self):
        shown = self.run_sample("03_chunk_o", "--lengths", "100,0,65", "--seed", "3")
        for part in ("ok: 4 of 4 chunks listed; against f64", "role mma (1 warp", "role store"):
            self.assertIn(part, shown)

    def test_ladder(self):
        path = os.path.join(self.folder.name, "ladder.json")
        self.run_sample("02_gemm_ladder", "--target", "model:sm_100a", "--rungs", "v6,v7,v9", "--size", "100,300,136", "--json", path, "--seed", "7")
        with open(path, encoding="utf-8") as file:
            ladder = json.load(file)
        self.assertTrue(ladder["right"])
        rungs = {rung["rung"]: rung for rung in ladder["rungs"]}
        self.assertEqual([len(rungs[name]["roles"]) for name in ("v6", "v7")], [1, 4])  # copies, products, what reads sums and what stores
        self.assertEqual([rungs[name]["cluster"] for name in ("v7", "v9")], [1, 2])


if __name__ == "__main__":
    skips.main()
