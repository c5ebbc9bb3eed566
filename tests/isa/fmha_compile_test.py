"""Protects attention on AMD as it is shipped: the library schedules, compiles and launches, and the code object that a device would get is
executed instruction by instruction; what comes out is held against f64 on the same rounded inputs.

Exit status 77: no numpy, no clang with AMDGPU or no llvm-objdump of LLVM 19 or newer.
"""
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "tests/c_api")]
SKIPPED = 77

try:
    import numpy as np
except ImportError:
    print("skipped: no numpy")
    sys.exit(SKIPPED)

import amd_code
import binding as tj

TOLERANCE = {tj.F16: 6e-4, tj.BF16: 5e-3}  # as of the tests on devices and on the model
LSE_TOLERANCE = 1e-3
# processor, type, head dim, causal, batch, query heads, key heads, queries, keys
CASES = [
    ("gfx1100", tj.F16, 64, True, 1, 2, 1, 33, 70),
    ("gfx1100", tj.BF16, 128, False, 1, 1, 1, 17, 65),
    ("gfx1201", tj.F16, 128, False, 1, 1, 1, 16, 65),
    ("gfx1201", tj.BF16, 64, True, 1, 1, 1, 40, 66),
    ("gfx90a", tj.F16, 64, True, 1, 1, 1, 40, 66),
    ("gfx942", tj.BF16, 128, False, 1, 1, 1, 16, 65),
]


def rounded(values, dtype):
    """16-bit words, and the values that they stand for."""
    if dtype == tj.F16:
        half = values.astype(np.float16)
        return half.view(np.uint16), half.astype(np.float64)
    bits = values.astype(np.float32).view(np.uint32)
    words = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return words, read(words, dtype)


def read(words, dtype):
    if dtype == tj.F16:
        return words.view(np.float16).astype(np.float64)
    return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def reference(q, k, v, causal):
    group, scale = q.shape[1] // k.shape[1], 1 / np.sqrt(q.shape[3])
    k, v = (np.repeat(each, group, axis=1) for each in (k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    if causal:
        seen = np.arange(k.shape[2])[None, :] <= np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhqk,bhkd->bhqd", weights / total, v), (top + np.log(total))[..., 0]


def aligned(shape, dtype):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    space = np.zeros(size + 256, dtype=np.uint8)
    begin = -space.ctypes.data % 256
    return space[begin:begin + size].view(dtype).reshape(shape)


class Attention(unittest.TestCase):
    def run_case(self, library, device, runtime, case, seed):
        _, dtype, head_dim, causal, batch, heads, key_heads, queries, keys = case
        chance = np.random.default_rng(seed)
        shapes = [(batch, heads, queries, head_dim), (batch, key_heads, keys, head_dim), (batch, key_heads, keys, head_dim)]
        words, exact = zip(*(rounded(chance.standard_normal(shape), dtype) for shape in shapes))
        arrays = [aligned(each.shape, np.uint16) for each in words]
        for array, each in zip(arrays, words):
            array[:] = each
        o, lse = aligned(shapes[0], np.uint16), aligned(shapes[0][:3], np.float32)
        o[:], lse[:] = 0x7fff, np.nan
        views = [tj.tensor(each.ctypes.data, tj.Device(tj.HIP, 0), dtype, list(each.shape)) for each in [*arrays, o]]
        views.append(tj.tensor(lse.ctypes.data, tj.Device(tj.HIP, 0), tj.F32, list(lse.shape)))
        device.memory, device.seed = [(each.ctypes.data, each.nbytes) for each in [*arrays, o, lse]], seed
        runtime.fmha(*views[:4], lse=views[4], causal=causal)
        device.check()
        wanted, wanted_lse = reference(*exact, causal)
        got = read(o, dtype)
        self.assertLessEqual(np.linalg.norm(got - wanted) / np.linalg.norm(wanted), TOLERANCE[dtype])
        self.assertLessEqual(np.abs(lse - wanted_lse).max(), LSE_TOLERANCE)

    def test_against_f64(self):
        from amd_device import Device
        device, library = Device(CASES[0][0]), None
        for number, case in enumerate(CASES):
            device.processor = case[0]
            library = library or tj.Library()
            with self.subTest(case=case), tempfile.TemporaryDirectory() as cache:
                with tj.Runtime(library, cache_dir=cache, hip_compiler="clang") as runtime:
                    self.assertEqual(runtime.target_of(tj.Device(tj.HIP, 0)), case[0])
                    before = device.launches
                    self.run_case(library, device, runtime, case, number + 1)
                    self.assertEqual(device.launches, before + 1)


if __name__ == "__main__":
    if amd_code.tool("clang") is None or amd_code.tool("llvm-objdump") is None:
        print("skipped: no clang or no llvm-objdump of LLVM 19 or newer; install clang-19, lld-19 and llvm-19")
        sys.exit(SKIPPED)
    unittest.main()
