"""Protects calls of sizes of 0 from Python, on the CPU model: what comes out without keys and over a K of 0, and that a call without results
needs no kernel."""
import unittest

import here

tilejit, numpy = here.tilejit, here.numpy


def normal(seed, *shape):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float16)


@unittest.skipUnless(numpy, here.NO_NUMPY)
class Empty(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runtime = tilejit.Runtime(target="model:sm_90a")

    def test_attention(self):
        q, none = normal(1, 1, 4, 70, 64), normal(2, 1, 2, 0, 64)
        o, lse = self.runtime.fmha(q, none, none, sinks=numpy.full(4, 0.5, numpy.float32), return_lse=True)
        self.assertEqual((float(abs(o).max()), float(lse.min()), float(lse.max())), (0, 0.5, 0.5))
        o, lse = self.runtime.fmha(q, none, none, return_lse=True)
        self.assertEqual((float(abs(o).max()), float(lse.max())), (0, -numpy.inf))
        for x, y in ((q[:, :, :0], none), (q[:0], none[:0])):
            self.assertEqual(self.runtime.fmha(x, y, y).shape, x.shape)
        plan = self.runtime.plan("fmha", tilejit.Spec((1, 4, 70, 64)), *[tilejit.Spec((1, 2, 0, 64))] * 2)
        given = numpy.full_like(q, numpy.nan)
        plan.run(q, none, none, given)
        self.assertEqual(float(abs(given).max()), 0)

    def test_products(self):
        a, bias = numpy.empty((5, 0), numpy.float16), numpy.linspace(-9, 9, 7, dtype=numpy.float32)
        d = self.runtime.gemm(a, numpy.empty((7, 0), numpy.float16), bias=bias, activation="relu")
        numpy.testing.assert_array_equal(d, numpy.maximum(bias, 0)[None].repeat(5, 0))
        self.assertEqual(self.runtime.gemm(normal(3, 0, 64), normal(4, 7, 64)).shape, (0, 7))
        self.assertEqual(self.runtime.prepare("gemm", normal(3, 0, 64), normal(4, 7, 64)).name, "")

    def test_recurrences(self):
        q = numpy.empty((0, 2, 64), numpy.float16)
        state = numpy.full((1, 2, 64, 64), 0.5, numpy.float32)
        given = numpy.full_like(state, numpy.nan)
        self.assertEqual(self.runtime.gated_delta_rule(q, q, q, initial_state=state, final_state=given).shape, q.shape)
        numpy.testing.assert_array_equal(given, state)
        self.assertEqual(self.runtime.chunk_cumsum(numpy.empty((0, 2), numpy.float32)).shape, (0, 2))
        h, v_new = self.runtime.chunk_states(q, q, q)
        self.assertEqual((h.shape, v_new.shape), ((0, 2, 64, 64), (0, 2, 64)))


if __name__ == "__main__":
    here.skips.main()
