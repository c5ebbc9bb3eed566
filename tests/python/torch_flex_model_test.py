"""Protects tilejit.torch.flex_attention: texts mean what torch's functions mean, against f64 from the definition; functions of Python and what is
not served are refused by name; texts through tilejit.fmha() and the operators."""
import math
import unittest

import here
from with_torch import WHY, torch

tilejit = here.tilejit


def normal(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.float16)


def defined(q, k, v, score_mod=None, mask_mod=None, bias=None, scale=None):
    """(o, lse) in f64, with functions of tensors b, h, q, k in the place of texts."""
    q, k, v = q.double(), k.double(), v.double()
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * (scale or q.shape[3] ** -0.5)
    places = [torch.arange(size).reshape([-1 if axis == i else 1 for axis in range(4)]) for i, size in enumerate(scores.shape)]
    if bias is not None:
        scores = scores + bias.double()
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if mask_mod is not None:
        scores = scores.masked_fill(~mask_mod(*places), -math.inf)
    return torch.nan_to_num(torch.softmax(scores, 3)) @ v, torch.logsumexp(scores, 3)


@unittest.skipIf(WHY, WHY)
class Flex(unittest.TestCase):
    def setUp(self):
        self.call = tilejit.torch.flex_attention
        self.q, self.k, self.v = normal(1, 2, 4, 70, 64), normal(2, 2, 2, 150, 64), normal(3, 2, 2, 150, 64)

    def same(self, wanted, **options):
        o, lse = self.call(self.q, self.k, self.v, enable_gqa=True, return_lse=True, **options)
        o_wanted, lse_wanted = defined(self.q, self.k, self.v, **wanted)
        self.assertLessEqual(float((o - o_wanted).norm() / o_wanted.norm()), 6e-4)
        self.assertLessEqual(float((lse - lse_wanted).abs().nan_to_num().max()), 1e-3)

    def test_texts_mean_what_functions_mean(self):
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
        self.same({"mask_mod": lambda b, h, q, k: k <= q}, mask_mod="return k <= q;", key_range="k1 = q1;")
        self.same({"score_mod": lambda s, b, h, q, k: s + slopes[h] * (k - q)}, score_mod="return score + params.f32(h) * (k - q);", params=slopes)
        documents = torch.arange(150, dtype=torch.int32) // 40
        self.same({"mask_mod": lambda b, h, q, k: documents[q] == documents[k]}, mask_mod="return params.i32(q) == params.i32(k);",
                  params=documents)
        bias = normal(4, 2, 1, 70, 150)
        self.same({"bias": bias}, bias=bias)
        self.same({"bias": bias[:1].float()}, bias=bias[:1].float().expand(2, 4, 70, 150))

    def test_what_is_not_served_is_refused_by_name(self):
        q = self.q
        for options, said in (({"score_mod": lambda score, b, h, q, k: score}, "score_mod is a function of Python; allowed: None or device code"),
                              ({"mask_mod": lambda b, h, q, k: True}, "mask_mod is a function of Python"),
                              ({"block_mask": object()}, "block_mask is object; allowed: None, as mask_mod="),
                              ({"kernel_options": {}}, "kernel_options is dict"),
                              ({"mask_mod": "return k <= q"}, "mask_mod does not compile, line 1"),
                              ({"mask_mod": "return (k <= q;"}, "mask_mod has '(' in line 1")):
            with self.subTest(said), self.assertRaises(tilejit.Error) as caught:
                self.call(q, q, q, **options)
            self.assertIn(said, str(caught.exception))
        with self.assertRaisesRegex(tilejit.Error, "enable_gqa is False"):
            self.call(q, self.k, self.v)
        with self.assertRaisesRegex(tilejit.Error, "score_mod is .*allowed: device code as a text"):
            tilejit.fmha(q, q, q, score_mod=print)

    def test_texts_are_told_from_each_other(self):
        results = [tilejit.fmha(self.q, self.q, self.q, causal=True, score_mod=f"return score * {i};") for i in (1, 2, 1)]
        self.assertTrue(torch.equal(results[0], results[2]))
        self.assertFalse(torch.equal(results[0], results[1]))

    def test_compiled(self):
        def both(q, k, v):
            return self.call(q, k, v, mask_mod="return (q + k) % 3 != 0;", enable_gqa=True)
        compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(self.q, self.k, self.v), both(self.q, self.k, self.v)))


if __name__ == "__main__":
    unittest.main()
