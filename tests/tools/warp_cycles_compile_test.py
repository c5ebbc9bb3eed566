"""Protects the kernels of tests/gpu/warp_cycles.py where there is no GPU: they compile, each holds what it is to measure, and no lane waits
for others where those never come: one that does so hangs the GPU."""
import os
import random
import re
import sys
import tempfile
import unittest

ROOT = os.environ["TJ_TEST_REPO_DIR"]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
import skips  # noqa: E402
import cuda_driver  # noqa: E402
import mma_rate  # noqa: E402
import warp_cycles  # noqa: E402


class WarpCycles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.nvrtc = cuda_driver.load_library(cuda_driver.NVRTC_NAMES, "NVRTC")
        except SystemExit as missing:
            raise unittest.SkipTest(str(missing))

    def assembler(self, text, arch):
        return cuda_driver.compile_kernel(self.nvrtc, text, arch, "PTX").decode()

    def test_no_lane_waits_alone(self):
        # The index of a warp is a shuffle of all its lanes. It stands once, before anything that lanes do apart; as one more below
        # `if (lane_index() == 0)` it kept that lane from the barrier that the others waited at.
        for name, text in warp_cycles.kernels("sm80_tma", False):
            ptx = self.assembler(text, "sm_90")
            self.assertLessEqual(len(re.findall(r"\bshfl\.", ptx)), 1, name)
            self.assertLess(ptx.find("shfl."), ptx.find("bar.sync"), name)

    def test_rates_hold_products_alone(self):
        case = mma_rate.CASES[0]
        for arch, primitives in (("sm_80", "sm80"), ("sm_90", "sm80_tma")):
            ptx = self.assembler(mma_rate.kernel_text(primitives, case), arch)
            first, last = ptx.find("mma.sync"), ptx.rfind("mma.sync")
            self.assertGreater(first, 0)
            self.assertGreaterEqual(ptx.count("mma.sync"), case.rows * case.columns)
            self.assertFalse(re.search(r"\b(ld|st|cp)\.", ptx[first:last]), "a product's operands come from registers")

    def test_binaries_are_kept(self):
        name, text = warp_cycles.kernels("sm80", True)[0]
        with tempfile.TemporaryDirectory() as folder:
            made = cuda_driver.Binaries(folder).get(name, text, "sm_80")
            self.assertEqual(len(os.listdir(folder)), 1)
            again = cuda_driver.Binaries(folder)
            self.assertEqual(again.get(name, text, "sm_80"), made)
            self.assertIsNone(again.nvrtc, "a run with binaries needs no NVRTC")
            again.get(name, text + "// another text", "sm_80")
            self.assertEqual(len(os.listdir(folder)), 2)

    def test_operands_are_random(self):
        for dtype in ("f16", "bf16"):
            content = memoryview(mma_rate.operands(dtype, random.Random(1), 4096)).cast("H")
            self.assertEqual(len(content), 8192)
            self.assertGreater(len(set(content)), 1000)
            self.assertTrue(0.4 < sum(word >> 15 for word in content) / len(content) < 0.6, dtype)


if __name__ == "__main__":
    skips.main()
