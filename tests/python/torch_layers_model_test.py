"""Protects the check of layers of experts that runs on a GPU (tests/gpu/grouped_moe.py). Numbers beside a boundary of e4m3 may fall to either side of it,
and an element that is a step away, a scale or a product that is wrong is found."""
import os
import random
import sys
import unittest

import here
from with_torch import WHY, torch

if torch is not None:
    sys.path.insert(0, os.path.join(here.ROOT, "tests", "gpu"))
    import grouped_moe

BLOCK, LIMIT = 128, 3e-4


@unittest.skipIf(torch is None, WHY)
class Layers(unittest.TestCase):
    def numbers(self, rows=1, columns=1536):
        x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(5))
        return x, *torch.ops.tilejit.quantise(x)

    def test_random_layers(self):
        draw = random.Random(7302)
        for number in range(8):
            with self.subTest(number=number):
                self.assertEqual(grouped_moe.check_moe(draw, device="cpu", small=True), "")

    def test_either_side_of_a_boundary(self):
        x, q, scales = self.numbers()
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
        near = x.double() + 1e-4 * noise  # as far from x as a matrix unit's sums are
        moved, of = torch.ops.tilejit.quantise(near.float())
        values, others = (grouped_moe.blocks_in_f64(*each, 1) for each in ((q, scales), (moved, of)))
        self.assertGreater(float((values - others).norm() / values.norm()), 1e-3)  # such a token would differ
        self.assertEqual(grouped_moe.why_not_quantised("x", moved, of, x.double(), LIMIT), "")

    def test_a_step_away(self):
        x, q, scales = self.numbers()
        self.assertEqual(grouped_moe.why_not_quantised("x", q, scales, x.double(), LIMIT), "")
        exact = x / scales.repeat_interleave(BLOCK, 1)  # of large elements, those in the middle between two boundaries
        large = (q.float().abs() >= 192) & ((exact - q.float()).abs() < 0.005 * exact.abs())
        places = large.nonzero()[:, 1].tolist()
        self.assertGreater(len(places), 3)
        for place in places:
            moved = q.view(torch.uint8).clone()
            moved[0, place] ^= 1
            why = grouped_moe.why_not_quantised("x", moved.view(torch.float8_e4m3fn), scales, x.double(), LIMIT)
            self.assertIn("a row of x is beyond its rounding by", why)
        why = grouped_moe.why_not_quantised("x", q, scales * 1.01, x.double(), LIMIT)
        self.assertIn("a scale of x is wrong by", why)

    def test_a_product_that_is_wrong(self):
        """What the first product leaves is 1% too large: each layer of e4m3 that has a token says so."""
        call, draw, found = grouped_moe.tilejit.torch.fused_moe, random.Random(7302), []
        self.addCleanup(setattr, grouped_moe.tilejit.torch, "fused_moe", call)

        def wrong(*args, w1_scale=None, **options):
            return call(*args, w1_scale=None if w1_scale is None else 1.01 * w1_scale, **options)

        grouped_moe.tilejit.torch.fused_moe = wrong
        for _ in range(8):
            found.append(grouped_moe.check_moe(draw, device="cpu", small=True))
        narrow = [why for why in found if "float8" in why]
        self.assertGreater(len(narrow), 1)
        self.assertTrue(all("is wrong by" in why for why in narrow), narrow)


if __name__ == "__main__":
    unittest.main()
