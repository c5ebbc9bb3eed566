"""Protects what a user sees of a variable that is wrong: its name, its value and what is allowed; of a misspelt one, the name that was meant."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips

BIN = os.path.join(os.environ["TJ_TEST_BUILD_DIR"], "bin")
WARM = ["tj-warm", "--op", "chunk_indices", "--target", "model:sm_90a"]


def run(words, **variables):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TJ_CACHE_DIR": folder, **variables}
        return subprocess.run([os.path.join(BIN, words[0]), *words[1:]], env=environment, capture_output=True, text=True)


class Variables(unittest.TestCase):
    def test_misspelt(self):
        done = run(WARM, TJ_CACHEDIR="/nowhere")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(1, done.stderr.count("TJ_CACHEDIR is set and means nothing to tilejit; did you mean 'TJ_CACHE_DIR'?"), done.stderr)
        self.assertEqual("", run(WARM, TJ_TEST_ANYTHING="1", TJ_TUNE="off").stderr)

    def test_misspelt_where_no_kernel_is_wanted(self):
        for words in (["tj-warm", "--list"], ["tj-warm", "--verify"], ["tj-schedule", "--graph-example", "simple_gemm"], ["tj-schedule", "--op", "gemm"],
                      ["tj-check", "--op", "copy_rows", "--list-sites"], ["tj-bench", "--compile", "--op", "chunk_indices", "--target", "model:sm_90a"]):
            with self.subTest(words=words):
                done = run(words, TJ_ON_MIS="error", TJ_CACHE_DI="/nowhere")
                self.assertEqual(0, done.returncode, done.stderr)
                for name in ("TJ_ON_MIS", "TJ_CACHE_DI"):
                    self.assertEqual(1, done.stderr.count(f"{name} is set and means nothing to tilejit; did you mean"), done.stderr)
                self.assertEqual("", run(words, TJ_ON_MIS="error", TJ_LOG_LEVEL="off").stderr)

    def test_target(self):
        for words in (["tj-warm", "--op", "gemm"], ["tj-check", "--op", "gemm"], ["tj-bench", "--compile", "--op", "gemm"],
                      ["tj-bench", "--op", "gemm"], ["tj-schedule", "--op", "gemm"]):
            with self.subTest(words=words):
                done = run(words, TJ_TARGET="sm_1")
                self.assertEqual(2, done.returncode)
                for part in ("TJ_TARGET: ", "'sm_1'", "sm_90a"):
                    self.assertIn(part, done.stderr)

    def test_others(self):
        for name, value, allowed in (("TJ_LOG_LEVEL", "loud", "warn"), ("TJ_TUNE", "yes", "on, off"), ("TJ_CACHE_MAX_SIZE", "4X", "multiples of 1024"),
                                     ("TJ_HIP_COMPILER", "gcc", "auto, hiprtc, clang"), ("TJ_WAIT_LIMIT", "-1", "seconds from 0"),
                                     ("TJ_COMPILE_LIMIT", "soon", "seconds from 0"), ("TJ_ON_MISS", "fail", "wait, error, quick"), ("TJ_PACK_COMPILER", "all", "any, own"), ("TJ_MODEL_SEED", "x", "a number from 0"),
                                     ("TJ_MODEL_DISABLE", "x:y", "number"), ("TJ_MODEL_WEAKEN", "?", "number"), ("TJ_DUMP_DIR", "~/x", "a whole path")):
            with self.subTest(name=name):
                done = run(WARM, **{name: value})
                self.assertNotEqual(0, done.returncode)
                for part in (name, f"'{value}'", allowed):
                    self.assertIn(part, done.stderr)


if __name__ == "__main__":
    skips.main()
