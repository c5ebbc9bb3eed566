"""Protects the functions for tvm-ffi with torch's tensors: memory is read and written in place, and torch allocates results that nobody gave."""
import ctypes
import os
import sys
import unittest

ROOT = os.environ["TJ_TEST_REPO_DIR"]
LIBRARY = os.environ["TJ_TEST_LIBRARY"]
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
sys.path += [os.path.join(ROOT, ".deps", name) for name in ("tvm_ffi", "torch")]  # tests/setup.sh puts them there
import skips  # noqa: E402

try:
    import torch
    import tvm_ffi
except Exception:  # none, or one for another Python
    torch = None


@unittest.skipUnless(hasattr(ctypes.CDLL(LIBRARY), "__tvm_ffi_fmha"), "the build found no header of tvm-ffi")
@unittest.skipUnless(torch, "no torch or no tvm-ffi for this Python")
class Torch(unittest.TestCase):
    def test_attention(self):
        module = tvm_ffi.load_module(os.path.join(os.path.dirname(LIBRARY), "libtilejit.so"))
        q = torch.randn(1, 70, 2, 64, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(1)).transpose(1, 2)
        expected = torch.nn.functional.scaled_dot_product_attention(*[q.float()] * 3)
        o = torch.empty_like(q)
        self.assertIsNone(module.fmha(q, q, q, o))
        self.assertLess((expected - o).abs().max(), 3e-2)
        made = module.fmha(q, q, q)
        self.assertIsInstance(made, torch.Tensor)
        self.assertTrue(torch.equal(made, o))
        with self.assertRaisesRegex(ValueError, "tilejit: argument: fmha: v.rank is 3"):
            module.fmha(q, q, q[0])


if __name__ == "__main__":
    skips.main()
