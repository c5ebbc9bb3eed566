"""Protects lists that torch turns into those of a kernel: a number that is not allowed counts as the nearest, in 64 bits too, and TJ_CHECK=1 names it."""
import os
import unittest
import unittest.mock

import here
from with_torch import WHY, torch

tilejit = here.tilejit


@unittest.skipIf(WHY, WHY)
class Lists(unittest.TestCase):
    def test_ends_of_groups(self):
        a, b = torch.ones(300, 128).to(torch.float8_e4m3fn), torch.ones(3, 64, 128).to(torch.float8_e4m3fn)

        def call(*ends):
            d = torch.full((300, 64), -1.0)
            tilejit.torch.m_grouped_fp8_gemm_nt_contiguous((a, torch.ones(300, 1)), (b, torch.tensor([1.0, 2.0, 4.0]).view(3, 1, 1)), d,
                                                           torch.tensor(ends, dtype=torch.int32), use_psum_layout=True)
            return d

        for forged, like in (((130, 2 ** 31 - 1, 261), (130, 300, 300)), ((-7, 100, 261), (0, 100, 261)), ((-2 ** 31, 5, 300), (0, 5, 300))):
            d, wanted = call(*forged), call(*like)
            served = slice(0, like[0] or like[1])  # the first group's that has rows; those of a list that falls are of no one
            self.assertTrue(torch.equal(d[served], wanted[served]) and d[served].min() > 0, forged)
        with unittest.mock.patch.dict(os.environ, TJ_CHECK="1"):
            for good in ((130, 256, 261), (130, 130, 261), (300, 384, 384), (0, 0, 0)):
                call(*good)
            for forged, said in (((130, 2 ** 31 - 1, 261), r"m_indices\[1\] is 2147483647; allowed: 130 to 300"),
                                 ((9, 8, 261), r"m_indices\[1\] is 8; allowed: 9 to 300"),
                                 ((-7, 8, 261), r"m_indices\[0\] is -7; allowed: 0 to 300"), ((9, 9, 301), r"m_indices\[2\] is 301; allowed: 9 to 300")):
                with self.assertRaisesRegex(tilejit.Error, "m_grouped_fp8_gemm_nt_contiguous: " + said):
                    call(*forged)

    def test_bounds_of_64_bits(self):
        q = torch.randn(1, 10, 1, 64, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
        gate = torch.zeros(1, 10, 1)

        def rule(*ends):
            return tilejit.torch.fused_recurrent_gated_delta_rule(q, q, q, gate, gate.exp(), cu_seqlens=torch.tensor(ends))[0]

        def sums(*ends):
            return tilejit.torch.chunk_local_cumsum(gate + 1, 64, cu_seqlens=torch.tensor(ends))

        for call in (rule, sums):
            self.assertTrue(torch.equal(call(0, 2 ** 32 + 4), call(0, 10)))
            self.assertTrue(torch.equal(call(3 - 2 ** 40, 10), call(0, 10)))


if __name__ == "__main__":
    unittest.main()
