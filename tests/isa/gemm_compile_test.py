"""Protects matrix products on AMD as they are shipped: the library chooses a tile, schedules, compiles and launches, and the code object that a
device would get is executed instruction by instruction; what comes out is held against f64 on the same rounded inputs.

Exit status 77: no numpy, no clang with AMDGPU or no llvm-objdump of LLVM 19 or newer.
"""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from amd_problem import HIP0, Tensor, distance, normal, np, tj
from amd_device import Device

TOLERANCE = {tj.F16: 5e-4, tj.BF16: 4e-3, tj.F32: 1e-5}  # as of the tests on devices and on the model
# processor, type, type of d, M, N, K; a and b: memory order (None: K contiguous); alpha, beta, with bias
TURNED = (1, 0)
CASES = [
    ("gfx1100", tj.F16, tj.F16, (20, 70, 150), None, None, 1.0, 0.0, False),
    ("gfx1100", tj.BF16, tj.BF16, (64, 33, 40), TURNED, TURNED, 0.5, -0.5, True),
    ("gfx1201", tj.BF16, tj.F32, (17, 64, 130), None, TURNED, 0.75, 0.5, True),
    ("gfx90a", tj.F16, tj.F16, (40, 65, 70), TURNED, None, 1.0, 0.0, True),
]


class Products(unittest.TestCase):
    def run_case(self, device, runtime, case, seed):
        _, dtype, out, (m, n, k), a_order, b_order, alpha, beta, with_bias = case
        chance = np.random.default_rng(seed)
        a, b = normal(chance, dtype, (m, k), a_order), normal(chance, dtype, (n, k), b_order)
        c, bias, d = normal(chance, out, (m, n)), normal(chance, out, (n,)), Tensor(out, (m, n))
        device.memory, device.seed = [each.memory for each in (a, b, c, bias, d)], seed
        runtime.gemm(a.view, b.view, d.view, c=c.view if beta != 0 else None, bias=bias.view if with_bias else None, alpha=alpha, beta=beta)
        device.check()
        wanted = alpha * (a.values() @ b.values().T) + beta * c.values() + (bias.values() if with_bias else 0)
        self.assertLessEqual(distance(d.values(), wanted), TOLERANCE[out])
        self.assertTrue(d.untouched())

    def test_against_f64(self):
        device, library = Device(CASES[0][0]), tj.Library()
        for number, case in enumerate(CASES):
            device.processor = case[0]
            with self.subTest(case=case), tempfile.TemporaryDirectory() as cache, tj.Runtime(library, cache_dir=cache, hip_compiler="auto") as runtime:
                self.assertEqual(runtime.target_of(HIP0), case[0])
                before = device.launches
                self.run_case(device, runtime, case, number + 1)
                self.assertEqual(device.launches, before + 1)


if __name__ == "__main__":
    unittest.main()
