"""Protects the operators of torch.ops.tilejit where nothing runs at first: opcheck, torch.compile without breaks, shapes for meta and fake tensors
beside those of the CPU model, transforms of torch.func."""
import unittest
import warnings

import here
from with_torch import WHY, torch

tilejit = here.tilejit


def normal(seed, *shape, dtype=None):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype or torch.float16)


def calls():
    """(operator, its tensors and arguments): each one is served."""
    q, k = normal(1, 1, 4, 33, 64), normal(2, 1, 2, 40, 64)
    turned = normal(3, 1, 33, 4, 64).transpose(1, 2)
    a, bias, c = normal(4, 33, 64), normal(5, 40), normal(6, 33, 40)
    ends = torch.tensor([0, 66, 70], dtype=torch.int32)
    rows, h = normal(7, 128, 1, 128, dtype=torch.bfloat16), normal(8, 2, 1, 128, 128, dtype=torch.bfloat16)
    return (("fmha", (q, k, k), dict(causal=True)), ("fmha", (turned, k, k), dict(scale=0.1)), ("fmha_lse", (q, k, k), {}),
            ("fmha_out", (q, k, k, torch.empty_like(q)), dict(lse=torch.empty(1, 4, 33))), ("gemm", (a, k[0, 0]), dict(bias=bias, activation="relu")),
            ("gemm", (a, k[0]), dict(dtype=torch.float32)), ("gemm", (a, k[0, 0]), dict(c=c, beta=0.5)),
            ("gemm", (a, k[0, 0]), dict(c=c.float(), beta=0.5, dtype=torch.float16)),
            ("gemm_out", (a, k[0, 0], c.clone()), dict(alpha=2.0)), ("chunk_indices", (ends,), dict(tokens=70)),
            ("chunk_indices_out", (ends, torch.empty(3, 2, dtype=torch.int32), torch.empty(1, dtype=torch.int32)), {}),
            ("chunk_o", (rows, rows, rows, h), dict(seq_length=64, g_cu=torch.zeros(128, 1))),
            ("chunk_o_out", (rows, rows, rows, h, torch.empty_like(rows)), dict(seq_length=128, scale=1.0)))


def wrong_calls():
    """(words of the error, operator, its tensors and arguments): each one is refused."""
    q, k = normal(1, 1, 4, 33, 64), normal(2, 1, 2, 40, 64)
    a, rows = normal(4, 33, 64), normal(7, 64, 1, 128, dtype=torch.bfloat16)
    needs = q.clone().requires_grad_()
    return (("k.rank is 3", "fmha", (q, k[0], k), {}), ("q.shape[3] (D) is 12", "fmha", (q[..., :12], k[..., :12], k[..., :12]), {}),
            ("k.dtype is bf16", "fmha", (q, k.bfloat16(), k), {}), ("q.dtype is f32", "fmha", (q.float(), k.float(), k.float()), {}),
            ("v.shape[2]", "fmha", (q, k, k[:, :, :9]), {}), ("H a multiple of Hkv", "fmha", (q[:, :3], k, k), {}),
            ("k.strides[3] (D) is 2", "fmha", (q, k.repeat(1, 1, 1, 2)[..., ::2], k), {}), ("k.shape[0]", "fmha", (q, k.repeat(2, 1, 1, 1), k), {}),
            ("k.shape[1]", "fmha", (q, k[:, :0], k[:, :0]), {}), ("scale is inf", "fmha", (q, k, k), dict(scale=float("inf"))),
            ("q requires grad", "fmha", (needs, k, k), {}), ("o.shape[2]", "fmha_out", (q, k, k, q[:, :, :9].clone()), {}),
            ("lse.dtype is f16", "fmha_out", (q, k, k, q.clone()), dict(lse=normal(9, 1, 4, 33))), ("a.rank is 1", "gemm", (a[0], a), {}),
            ("b.shape[1]", "gemm", (a, a[:, :8]), {}), ("c is absent", "gemm", (a, a), dict(beta=1.0)), ("bias.", "gemm", (a, a), dict(bias=a[0])),
            ("activation is 'tanh'", "gemm", (a, a), dict(activation="tanh")), ("scale_a is given", "gemm", (a, a), dict(scale_a=torch.ones(1))),
            ("a.shape[0]", "gemm_out", (a, a, a[:9].clone()), {}), ("cu_seqlens.dtype is f32", "chunk_indices", (torch.zeros(3),), dict(tokens=3)),
            ("tokens is -1", "chunk_indices", (torch.zeros(3, dtype=torch.int32),), dict(tokens=-1)),
            ("k.shape[0]", "chunk_o", (rows, rows[:9], rows, normal(8, 1, 1, 128, 128, dtype=torch.bfloat16)), dict(seq_length=64)),
            ("h.dtype is f16", "chunk_o", (rows, rows, rows, normal(8, 1, 1, 128, 128)), dict(seq_length=64)))


def on_meta(x):
    if not isinstance(x, torch.Tensor):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta", requires_grad=x.requires_grad)


@unittest.skipIf(WHY, WHY)
class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def test_opcheck(self):
        for name, tensors, options in calls():
            with self.subTest(name):
                torch.library.opcheck(getattr(torch.ops.tilejit, name).default, tensors, options)

    def test_shapes_without_memory(self):
        for name, tensors, options in calls():
            operator = getattr(torch.ops.tilejit, name)
            real = operator(*tensors, **options)
            meta = operator(*map(on_meta, tensors), **{key: on_meta(x) for key, x in options.items()})
            for one, other in zip(*((each if isinstance(each, tuple) else (each,)) for each in (real, meta))):
                if one is not None:
                    self.assertEqual((one.shape, one.stride(), one.dtype, other.device.type), (other.shape, other.stride(), other.dtype, "meta"), name)

    def test_refusals_without_memory(self):
        """Shapes alone are refused with the words of the library's own check."""
        for words, name, tensors, options in wrong_calls():
            operator = getattr(torch.ops.tilejit, name)
            for place in (lambda x: x, on_meta):
                with self.subTest(words, meta=place is on_meta), self.assertRaises(tilejit.Error) as caught:
                    operator(*map(place, tensors), **{key: place(x) for key, x in options.items()})
                self.assertIn(words, str(caught.exception))
                self.assertEqual(caught.exception.stage, "argument")
        q = normal(1, 1, 4, 33, 64)
        for given in ((q, q.to("meta"), q), (q.to("meta"), q, q)):
            with self.assertRaisesRegex(tilejit.Error, "k.device is"):
                torch.ops.tilejit.fmha(*given)

    def test_fake_tensors(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode() as mode:
            q = mode.from_tensor(normal(1, 1, 4, 33, 64))
            o, lse = torch.ops.tilejit.fmha_lse(q, q, q)
            self.assertEqual((o.shape, lse.shape, lse.dtype), (q.shape, (1, 4, 33), torch.float32))
            with self.assertRaisesRegex(tilejit.Error, "v.rank is 3"):
                torch.ops.tilejit.fmha(q, q, q[0])
            self.assertEqual(tilejit.torch.sdpa(q, q, q, model=True, fallback=False).shape, q.shape)
        with self.assertRaisesRegex(tilejit.Error, "q has no memory"):
            tilejit.fmha(q, q, q)

    def compiled(self, program, *given, backend="aot_eager", **options):
        """What a program gives without a break in its graph, and as it is."""
        wanted = program(*given)
        found = torch.compile(program, fullgraph=True, backend=backend, **options)(*given)
        self.assertTrue(torch.equal(found, wanted))
        self.assertEqual(found.stride(), wanted.stride())

    @staticmethod
    def program(q, k, a):
        o = torch.ops.tilejit.fmha(q * 2, k, k, causal=True)
        d = torch.zeros(a.shape[0], o.shape[2], dtype=a.dtype)
        torch.ops.tilejit.gemm_out(a, o[0, 0], d)
        room = torch.zeros(*o.shape[:3], 128, dtype=o.dtype)
        torch.ops.tilejit.fmha_out(o, k, k, room[..., 64:])
        return torch.ops.tilejit.gemm(d, d.sin(), activation="silu") + room.sum().to(d.dtype)

    def test_compile(self):
        q, k, a = normal(1, 1, 4, 40, 64), normal(2, 1, 2, 48, 64), normal(3, 32, 64)
        for backend in ("eager", "aot_eager"):
            self.compiled(self.program, q, k, a, backend=backend)
        self.compiled(lambda q, k: tilejit.torch.sdpa(q, k, k, is_causal=True, enable_gqa=True, model=True, fallback=False), q, k)
        self.compiled(lambda q, k: tilejit.torch.sdpa(k, q[:, :2], q[:, :2], is_causal=True, model=True, fallback=False), q, k)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.compiled(lambda q, k: tilejit.torch.sdpa(q, k, k, enable_gqa=True, model=True, fallback=False), q.float(), k.float())
            self.compiled(lambda q, k: torch.ops.tilejit.fmha(q, k, k), q.float(), k.float())

    def test_inductor(self):
        """The operators alone, for which inductor compiles nothing in C++."""
        q = normal(1, 1, 4, 40, 64).transpose(1, 2).contiguous().transpose(1, 2)
        self.compiled(lambda q: torch.ops.tilejit.fmha(q, q, q, causal=True), q, backend="inductor")

    def test_tags(self):
        """Inductor keeps the strides of what a kernel is given, and torch.compile knows that shapes can be believed."""
        strides = {getattr(torch.Tag, name, None) for name in ("needs_exact_strides", "needs_fixed_stride_order")}
        for name in ("fmha", "fmha_lse", "fmha_out", "gemm", "gemm_out", "chunk_indices", "chunk_o", "chunk_o_out"):
            tags = set(getattr(torch.ops.tilejit, name).default.tags)
            self.assertIn(torch.Tag.pt2_compliant_tag, tags)
            self.assertTrue(tags & strides, name)

    def test_any_lengths(self):
        """What was compiled for one serves all."""
        from torch._dynamo.testing import CompileCounterWithBackend
        backend, counts = CompileCounterWithBackend("aot_eager"), []
        compiled = torch.compile(self.any_length, fullgraph=True, backend=backend, dynamic=True)
        for rows in (33, 40, 70):
            q = normal(rows, 1, 2, rows, 64)
            self.assertTrue(torch.equal(compiled(q), self.any_length(q)))
            counts.append(backend.frame_count)
        self.assertGreater(counts[0], 0)
        self.assertEqual(counts, counts[:1] * 3)

    @staticmethod
    def any_length(q):
        o = tilejit.torch.sdpa(torch.ops.tilejit.fmha(q, q, q), q, q, is_causal=True, model=True, fallback=False)
        return torch.ops.tilejit.gemm(o[0], q[0, 0]) + 1

    def test_compiled_refusals_and_fallbacks(self):
        from tilejit import _torch_sdpa
        q = normal(1, 1, 4, 40, 64)
        with self.assertRaisesRegex(Exception, "v.rank is 3"):
            torch.compile(lambda q: torch.ops.tilejit.fmha(q, q, q[0]), fullgraph=True, backend="eager")(q)
        with self.assertRaisesRegex(Exception, "q requires grad, and tilejit has forward passes only"):
            torch.compile(lambda q: torch.ops.tilejit.fmha(q, q, q), fullgraph=True, backend="eager")(q.clone().requires_grad_())
        _torch_sdpa._warned.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.compiled(lambda q: tilejit.torch.sdpa(q, q, q), q)
        self.assertEqual(sum("query is on the CPU" in str(each.message) for each in caught), 1)

    def test_export(self):
        class Model(torch.nn.Module):
            def forward(self, q):
                return torch.ops.tilejit.fmha(q, q, q)
        q = normal(1, 1, 4, 40, 64)
        program = torch.export.export(Model(), (q,))
        self.assertIn("torch.ops.tilejit.fmha.default", program.graph_module.code)
        self.assertTrue(torch.equal(program.module()(q), Model()(q)))


@unittest.skipIf(WHY, WHY)
class Transforms(unittest.TestCase):
    """Of torch.func: vmap calls again and again; what differentiates is refused, as kernels would silently give no gradient."""

    def setUp(self):
        self.q = normal(1, 2, 1, 2, 33, 64)

    @staticmethod
    def total(q):
        return torch.ops.tilejit.fmha(q, q, q).float().sum()

    def test_vmap(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that this is slow
            found = torch.func.vmap(lambda q: torch.ops.tilejit.fmha(q, q, q, causal=True))(self.q)
        self.assertTrue(torch.equal(found, torch.stack([torch.ops.tilejit.fmha(q, q, q, causal=True) for q in self.q])))

    def test_differentiating(self):
        for call in (lambda q: torch.func.grad(self.total)(q), lambda q: torch.func.jvp(self.total, (q,), (q,)),
                     lambda q: torch.func.vmap(torch.func.grad(self.total))(q[None]),
                     lambda q: torch.func.grad(lambda q: torch.func.vmap(self.total)(q).sum())(q[None])):
            with self.assertRaisesRegex(tilejit.Error, "fmha: q (requires grad|has a tangent).*forward passes only"):
                call(self.q[0])
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(self.q[0], self.q[0])
            with self.assertRaisesRegex(tilejit.Error, "fmha: q has a tangent"):
                torch.ops.tilejit.fmha(dual, dual, dual)

    def test_constants_of_what_is_differentiated(self):
        o = self.total(self.q[0])
        self.assertEqual(float(torch.func.grad(lambda x: x * self.total(self.q[0]))(torch.tensor(1.0))), float(o))


if __name__ == "__main__":
    here.skips.main()
