"""Protects tilejit.ladder: rungs by name and number compute what the op computes, prepare() names the kernel of the tools' --rung, mistakes are named."""
import unittest

import here

np = here.numpy
tilejit = here.tilejit
ladder = tilejit.ladder


@unittest.skipUnless(here.numpy, here.NO_NUMPY)
class Ladder(unittest.TestCase):
    def refused(self, part, call, *arguments, **named):
        with self.assertRaises(tilejit.Error) as caught:
            call(*arguments, **named)
        self.assertIn(part, str(caught.exception))

    @classmethod
    def setUpClass(cls):
        cls.sm90 = tilejit.Runtime(target="model:sm_90a")
        cls.sm80 = tilejit.Runtime(target="model:sm_80")

    def test_products(self):
        random = np.random.default_rng(5)
        a, b = random.standard_normal((70, 64)).astype(np.float16), random.standard_normal((40, 64)).astype(np.float16)
        wanted = a.astype(np.float64) @ b.astype(np.float64).T
        for rung in ("v1", 4, "v10", "none"):
            d = np.full((70, 40), np.nan, np.float32)
            self.assertIs(ladder.run("gemm", rung, a, b, out=d, runtime=self.sm90), d)
            self.assertLess(np.abs(d - wanted).max(), 1e-3, rung)

    def test_attention(self):
        q = np.random.default_rng(6).standard_normal((1, 1, 70, 64)).astype(np.float16)
        o, lse = ladder.run("fmha", "basic", q, q, q, causal=True, return_lse=True, runtime=self.sm80)
        wanted, wanted_lse = tilejit.fmha(q, q, q, causal=True, return_lse=True, runtime=self.sm80)
        self.assertLess(np.abs(o.astype(np.float32) - wanted).max(), 2e-3)
        self.assertLess(np.abs(lse - wanted_lse).max(), 1e-3)

    def test_names(self):
        """A rung's kernel is that of the flag."""
        a = tilejit.Spec((64, 64), "f16", "cpu")
        for rung, name in enumerate(ladder.rungs("gemm")[:9], 1):
            self.assertTrue(ladder.prepare("gemm", name, a, a, runtime=self.sm90).name.endswith("_v" + str(rung)))
        q = tilejit.Spec((1, 1, 64, 64), "f16", "cpu")
        for name in ladder.rungs("fmha")[:1]:
            self.assertIn(name, ladder.prepare("fmha", name, q, q, q, runtime=self.sm80).name)

    def test_mistakes(self):
        a = np.ones((64, 64), np.float16)
        self.refused("op is 'chunk_o'; allowed: fmha, gemm", ladder.run, "chunk_o", 1, a, a)
        self.refused("rung is 'v11'; allowed: none, v1, v2, ", ladder.run, "gemm", "v11", a, a)
        self.refused("rung is True", ladder.run, "gemm", True, a, a)
        self.refused("rung is 7; allowed: none, basic, ", ladder.prepare, "fmha", 7, a, a, a)
        self.refused("rung is v1 and M is 129", ladder.run, "gemm", 1, np.ones((129, 64), np.float16), a, runtime=self.sm90)
        self.refused("rung is v10; allowed on sm_80: 0 (none)", ladder.run, "gemm", "v10", a, a, runtime=self.sm80)


if __name__ == "__main__":
    here.skips.main()
