"""Protects the exit status of the samples: 0 is said only of what was also written."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

FOLDER = os.path.join(os.environ["TJ_TEST_BUILD_DIR"], "samples")
WITH_HELP = ("01_fmha", "02_gemm_ladder", "03_chunk_o", "04_fmha_ladder", "05_custom_gemm", "06_graphs", "09_rmsnorm_gemm")


@unittest.skipUnless(os.path.exists(os.path.join(FOLDER, "00_hello")), "the samples are not built (TJ_SAMPLES)")
class Output(unittest.TestCase):
    def run_sample(self, name, words, output):
        environment = {**os.environ, "TJ_TARGET": "model:sm_90a"}
        return subprocess.run(["sh", "-c", f"exec '{FOLDER}/{name}' {words} {output}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)

    def test_full_or_closed(self):
        for output in ("> /dev/full", ">&-"):
            for name in WITH_HELP:
                done = self.run_sample(name, "--help", output)
                self.assertEqual(done.returncode, 2, f"{name} {output}: {done.stderr}")
                self.assertIn(f"{name}: standard output cannot be written: ", done.stderr)
                self.assertIn("No space left on device; give" if "full" in output else "Bad file descriptor; give", done.stderr)
        for output in ("> /dev/full", ">&-"):  # the library opens files by then, and none of them takes the output's place
            self.assertNotEqual(self.run_sample("00_hello", "", output).returncode, 0, output)

    def test_all_is_well(self):
        for name in WITH_HELP:
            self.assertEqual(self.run_sample(name, "--help", "").returncode, 0)


if __name__ == "__main__":
    skips.main()
