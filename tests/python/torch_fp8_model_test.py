"""Protects tilejit.torch.fp8_gemm_nt: it has the values of its definition, by f64, whatever the order of scales, and refuses what is not served by name."""
import unittest

import here
from with_torch import WHY, torch

tilejit = here.tilejit


def problem(m, n, k, rows=128, by_m=True):
    """a, b with their scales, and the product in f64. rows: of b that one scale serves; by_m: scales of a are contiguous in M."""
    generator = torch.Generator().manual_seed(m + n + k)
    blocks = -(-k // 128)
    narrow = lambda *shape: torch.randn(shape, generator=generator).to(torch.float8_e4m3fn)  # noqa: E731
    positive = lambda *shape: torch.rand(shape, generator=generator) + 0.5  # noqa: E731
    a, b, of_b = narrow(m, k), narrow(n, k), positive(-(-n // rows), blocks)
    of_a = positive(blocks, m).t() if by_m else positive(m, blocks)
    spread = lambda scale, each: scale.double().repeat_interleave(each, 0).repeat_interleave(128, 1)  # noqa: E731
    wanted = (a.double() * spread(of_a, 1)[:, :k]) @ (b.double() * spread(of_b, rows)[:n, :k]).t()
    return (a, of_a), (b, of_b), wanted


@unittest.skipIf(torch is None, WHY)
class Fp8GemmNt(unittest.TestCase):
    def setUp(self):
        import tilejit.torch
        self.call = tilejit.torch.fp8_gemm_nt

    def agrees(self, found, wanted):
        error = float((found.double() - wanted).norm() / wanted.norm())
        self.assertLess(error, 4e-3)

    def test_blocks_and_rows_of_b_in_both_orders_of_a(self):
        for rows, by_m in ((128, True), (128, False), (1, True)):
            with self.subTest(rows=rows, by_m=by_m):
                a, b, wanted = problem(36, 136, 272, rows, by_m)
                d = torch.full((36, 136), float("nan"), dtype=torch.bfloat16)
                self.assertIsNone(self.call(a, b, d, recipe=(1, rows, 128)))
                self.agrees(d, wanted)

    def test_adds_c_which_may_be_d(self):
        a, b, wanted = problem(36, 136, 272)
        d = torch.ones(36, 136)
        self.call(a, b, d, d)
        self.agrees(d, wanted + 1)

    def test_refuses_by_name(self):
        a, b, _ = problem(36, 136, 272)
        d = torch.empty(36, 136, dtype=torch.bfloat16)
        for parts, arguments, more in (
                (("a is a Tensor", "a pair"), (a[0], b, d), {}),
                (("scale_b.dtype is i32", "allowed: f32, as scale_a.dtype"), (a, (b[0], b[1].int()), d), {}),
                (("recipe is (1, 1, 64)", "(1, 128, 128)"), (a, b, d), {"recipe": (1, 1, 64)}),
                (("recipe_a is (1, 32)", "(1, 128)"), (a, b, d), {"recipe_a": (1, 32)}),
                (("recipe_b is (1, 32)", "(1, 128), (128, 128)"), (a, b, d), {"recipe_b": (1, 32)}),
                (("recipe is given with recipe_a",), (a, b, d), {"recipe": (1, 1, 128), "recipe_a": (1, 128)}),
                (("scales of b have 2 rows", "allowed: 136"), (a, b, d), {"recipe_b": (1, 128)}),
                (("a has the type torch.float8_e5m2",), ((a[0].to(torch.float8_e5m2), a[1]), b, d), {}),
                (("b has the type torch.float8_e5m2",), (a, (b[0].to(torch.float8_e5m2), b[1]), d), {}),
                (("scales of b have 2 rows", "allowed: 136 for N 136"), (a, b, d), {"recipe": (1, 1, 128)}),
                (("scale_a.shape",), ((a[0], a[1][:, :1]), b, d), {})):
            with self.subTest(parts=parts), self.assertRaises(tilejit.Error) as caught:
                self.call(*arguments, **more)
            for part in parts:
                self.assertIn(part, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
