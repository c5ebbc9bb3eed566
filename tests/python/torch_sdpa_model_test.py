"""Protects tilejit.torch.sdpa beside torch's own attention: what is served has torch's values, what is not falls back with one warning or raises, and
gradients are torch's."""
import functools
import unittest
import warnings
from unittest import mock

import here
from with_torch import WHY, torch

tilejit = here.tilejit


def normal(seed, *shape, dtype=None):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype or torch.float16)


@unittest.skipIf(WHY, WHY)
class Sdpa(unittest.TestCase):
    def setUp(self):
        from tilejit import _torch_sdpa
        self.inside, self.torchs = _torch_sdpa, torch.nn.functional.scaled_dot_product_attention
        self.sdpa = functools.partial(tilejit.torch.sdpa, model=True)
        _torch_sdpa._warned.clear()
        self.q, self.k, self.v = normal(1, 1, 4, 70, 64), normal(2, 1, 4, 100, 64), normal(3, 1, 4, 100, 64)

    def served(self, q, k, v, mask=None, **options):
        """By tilejit, with the values that torch has in f64."""
        o = self.sdpa(q, k, v, mask, fallback=False, **options)
        if options.pop("enable_gqa", False):  # which PyTorch 2.4 has not
            k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
        wanted = self.torchs(q.double(), k.double(), v.double(), mask, **options)
        self.assertEqual((o.shape, o.dtype), (wanted.shape, q.dtype))
        self.assertLessEqual(float((o - wanted).norm() / wanted.norm()), 6e-4 if q.dtype == torch.float16 else 5e-3)
        return o

    def left(self, part, *given, **options):
        """To torch: its values, one warning for two calls, and an error where that is wanted."""
        with mock.patch.object(self.inside, "_serve", side_effect=self.inside._serve) as serve, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = []
            for call in (self.sdpa, self.sdpa, self.torchs):
                torch.manual_seed(1)
                found.append(call(*given, **{name: x for name, x in options.items() if name != "model" or call is self.sdpa}))
        said = [str(each.message) for each in caught if "tilejit.torch.sdpa leaves this call" in str(each.message)]
        self.assertEqual(len(said), 1, said)
        self.assertIn(part, said[0])
        for mine in found[:2]:
            self.assertEqual((mine.shape, mine.dtype, mine.device), (found[2].shape, found[2].dtype, found[2].device))
            self.assertTrue(mine.is_meta or torch.equal(mine, found[2]))
        with self.assertRaises(tilejit.Error) as error:
            self.sdpa(*given, **options, fallback=False)
        self.assertIn(part, str(error.exception))
        return serve.call_count

    def test_lengths_and_masks(self):
        """is_causal is upper left in torch, and fmha's lower right: they differ where the lengths do."""
        q, k, v = self.q, self.k, self.v
        for causal in (False, True):
            self.served(q, k[:, :, :70], v[:, :, :70], is_causal=causal)
            self.served(q, k, v, is_causal=causal)
            self.served(k, q, q, is_causal=causal)
        self.served(q, k, v, scale=0.3)
        self.served(q[:, :, :1], k, v, is_causal=True)
        from torch.nn.attention.bias import causal_lower_right, causal_upper_left
        lower = self.sdpa(q, k, v, causal_lower_right(70, 100), fallback=False)
        self.assertTrue(torch.equal(lower, torch.ops.tilejit.fmha(q, k, v, causal=True)))
        upper = self.sdpa(q, k, v, causal_upper_left(70, 100), fallback=False)
        self.assertTrue(torch.equal(upper, self.sdpa(q, k, v, is_causal=True, fallback=False)))
        self.assertFalse(torch.equal(upper, lower))

    def test_heads_and_layouts(self):
        q, k, v = self.q, self.k, self.v
        self.served(q, k[:, :2], v[:, :2], enable_gqa=True)
        self.served(q, k[:, :1], v[:, :1])  # torch broadcasts a single head
        self.served(q[0], k[0], v[0], is_causal=True)
        turned = normal(4, 1, 65, 2, 64, dtype=torch.bfloat16).transpose(1, 2)
        o = self.served(turned, turned, turned)
        self.assertTrue(o.transpose(1, 2).is_contiguous())
        packed = normal(5, 1, 65, 3, 2, 64).permute(2, 0, 3, 1, 4)
        self.served(*packed)
        wide = normal(6, 1, 2, 64, 128)
        self.served(wide, wide, wide)

    def test_what_is_left_to_torch(self):
        q, k, v = self.q, self.k, self.v
        same = k[:, :, :70]
        self.left("attn_mask is given", q, k, v, torch.ones(70, 100).tril().bool())
        self.left("dropout_p is 0.5", q, same, same, dropout_p=0.5)
        self.left("the last dimensions are 36, 36 and 36", q[..., :36].clone(), same[..., :36].clone(), same[..., :36].clone())
        self.left("query is torch.float32", q.float(), k.float(), v.float())
        self.left("key (2, 4, 100, 64)", q, k.repeat(2, 1, 1, 1), v.repeat(2, 1, 1, 1))
        self.left("key has the strides (25600, 0, 64, 1)", q, k[:1, :1].expand(1, 4, 100, 64), v)
        self.left("query has 5 dimensions", q[None], k[None], v[None])
        self.left("query is on the CPU", q, same, same, model=False)
        self.left("query is on meta", q.to("meta"), same.to("meta"), same.to("meta"))
        from torch.nn.attention.bias import causal_lower_right
        self.inside._warned.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mask = causal_lower_right(100, 70)
        with self.assertRaisesRegex(tilejit.Error, "each row has a key"):
            self.sdpa(k, q, q, mask, fallback=False)

    def test_empty(self):
        """Of what has no element, torch's shapes; without keys zeros, as torch gives."""
        none, heads = self.q[:, :, :0], self.q[:, :0]
        for q, k in ((none, none), (none, self.k), (self.q[:0], self.k[:0]), (self.q, none)):
            found, wanted = self.sdpa(q, k, k, fallback=False), self.torchs(q, k, k)
            self.assertEqual((found.shape, found.dtype), (wanted.shape, wanted.dtype))
            self.assertTrue(torch.equal(found, wanted))
        self.left("and heads", heads, heads, heads)

    def unserved(self, part, *given, **options):
        with self.assertRaisesRegex(tilejit.Error, "^argument: sdpa: .*" + part):
            self.sdpa(*given, **options, fallback=False)

    def test_what_is_not_served(self):
        q, k, v = self.q, self.k, self.v
        self.unserved("key is on meta; served: one device", q, k.to("meta"), v)
        self.unserved("key is torch.bfloat16", q, k.bfloat16(), v)
        from torch.nn.attention.bias import causal_upper_left
        self.unserved("attn_mask is for 60 x 100 scores, of which there are 70 x 100", q, k, v, causal_upper_left(60, 100))
        self.unserved("attn_mask is given", q, k, v, causal_upper_left(70, 100), is_causal=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nested = torch.nested.nested_tensor([q[0], q[0]])
        self.unserved("query is nested", nested, nested, nested)
        with torch.autograd.forward_ad.dual_level():
            self.unserved("forward-mode differentiation", q, k, v)

    def test_strides_that_nobody_takes(self):
        """A dimension of one element may have any stride."""
        wide = normal(8, 4 * 140 * 64)
        self.served(*[wide.as_strided((1, 4, 70, 64), (3, 140 * 64, 128, 1))] * 3)

    def test_gradients_are_torchs(self):
        inputs = [each[:, :, :70].clone().requires_grad_() for each in (self.q, self.k, self.v)]
        self.left("query requires grad", *inputs, is_causal=True)
        self.sdpa(*inputs, is_causal=True).float().sum().backward()
        found = [each.grad.clone() for each in inputs]
        for each in inputs:
            each.grad = None
        self.torchs(*inputs, is_causal=True).float().sum().backward()
        for one, other in zip(found, inputs):
            self.assertTrue(torch.equal(one, other.grad))
        with torch.no_grad():
            self.assertFalse(self.served(*inputs, is_causal=True).requires_grad)

    def test_transforms(self):
        q = self.q[:, :, :64]
        batch = torch.stack([q, q + 1])
        for transform in (torch.func.vmap, lambda f: torch.func.grad(lambda x: f(x).float().sum())):
            self.inside._warned.clear()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found, wanted = (transform(lambda x: f(x, x, x))(batch) for f in (self.sdpa, self.torchs))
            self.assertTrue(any("inside of a transform of torch.func" in str(each.message) for each in caught))
            self.assertTrue(torch.equal(found, wanted))

    def test_classes_of_their_own(self):
        """A class that takes over torch's functions gets the call, as with torch's own."""
        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, arguments=(), options=None):
                return "its own"
        q = self.q.as_subclass(Own)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(self.sdpa(q, q, q), "its own")
        self.assertIn("of the type Own", str(caught[0].message))
        parameter = torch.nn.Parameter(self.q, requires_grad=False)
        self.served(parameter, parameter, parameter)

    def test_autocast(self):
        q, k, v = (each.float() for each in (self.q, self.k, self.v))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o = self.sdpa(q, k, v, is_causal=True, fallback=False)
        self.assertEqual(o.dtype, torch.bfloat16)
        wanted = self.torchs(*(each.bfloat16().double() for each in (q, k, v)), is_causal=True)
        self.assertLessEqual(float((o - wanted).norm() / wanted.norm()), 5e-3)
        with torch.autocast("cpu", dtype=torch.bfloat16), self.assertRaisesRegex(tilejit.Error, "key is torch.float64"):  # which autocast leaves
            self.sdpa(q, k.double(), v.double(), fallback=False)

    def test_what_only_the_library_sees(self):
        """An address that it refuses is left to torch; a damaged installation is not."""
        odd = normal(7, 4 * 70 * 64 + 8)[1:4 * 70 * 64 + 1].view(1, 4, 70, 64)
        self.assertEqual(self.left("16 bytes", odd, odd, odd), 2)
        with self.assertRaisesRegex(tilejit.Error, "^argument: fmha: q.data is"):  # in the library's own words
            self.sdpa(odd, odd, odd, fallback=False)
        broken = tilejit.Error("no compiler", "compile", "not_found")
        with mock.patch.object(self.inside, "_serve", side_effect=broken), self.assertRaises(tilejit.Error) as caught:
            self.sdpa(self.q, self.q, self.q)
        self.assertIs(caught.exception, broken)

    def test_gpus_without_kernels(self):
        from tilejit import _runtime
        device = torch.device("cuda", 99)
        with mock.patch.dict(self.inside._targets, clear=True):
            with mock.patch.object(_runtime.Runtime, "target_of", side_effect=tilejit.Error("sm_70 is not served", "target")) as asked:
                self.assertEqual([self.inside._no_target(device) for _ in range(2)], ["sm_70 is not served"] * 2)
                self.assertEqual(asked.call_count, 1)
            with mock.patch.dict(self.inside._targets, clear=True), \
                    mock.patch.object(_runtime.Runtime, "target_of", side_effect=tilejit.Error("no memory", "load", "out_of_memory")) as asked:
                for _ in range(2):
                    with self.assertRaisesRegex(tilejit.Error, "no memory"):
                        self.inside._no_target(device)
                self.assertEqual(asked.call_count, 2)  # it may pass
            self.inside._targets[device] = None
            compiled = torch.compile(lambda x: x + (1 if self.inside._no_target(torch.device("cuda", 99)) is None else 2), fullgraph=True, backend="eager")
            self.assertEqual(float(compiled(torch.zeros(()))), 1)

    def test_in_the_place_of_torchs(self):
        """A program may put sdpa where models look for torch's; what is not served still finds torch's."""
        with mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", self.sdpa), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            o = torch.nn.functional.scaled_dot_product_attention(self.q, self.q, self.q)
            wide = torch.nn.functional.scaled_dot_product_attention(self.q.float(), self.q.float(), self.q.float())
        self.assertTrue(torch.equal(o, torch.ops.tilejit.fmha(self.q, self.q, self.q)))
        self.assertTrue(torch.equal(wide, self.torchs(self.q.float(), self.q.float(), self.q.float())))

    def test_what_torch_refuses(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for given in ((self.q, self.k.double(), self.v), (1, 2, 3), (self.q, self.k[..., :32], self.v),
                          (self.q, self.k, None), (self.q, self.k[:, :2], self.v[:, :2])):
                with self.assertRaises((RuntimeError, TypeError, ValueError)) as theirs:
                    self.torchs(*given)
                with self.assertRaises(type(theirs.exception)):
                    self.sdpa(*given)


if __name__ == "__main__":
    here.skips.main()
