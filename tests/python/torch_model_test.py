"""Protects the operators of torch.ops.tilejit on the CPU model: values, results' memory, results that the caller gives, plans that are kept, threads,
autocast, and refusals that name the argument."""
import contextlib
import doctest
import inspect
import os
import re
import threading
import unittest
from unittest import mock

import here
from with_torch import WHY, torch

tilejit = here.tilejit


def normal(seed, *shape, dtype=None):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype or torch.float16)


def exact(q, k, v, causal=False, scale=None):
    """Attention in f64; the last query sees the last key."""
    q, k, v = q.double(), *(each.double().repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    mask = torch.ones(q.shape[2], k.shape[2]).tril(k.shape[2] - q.shape[2]).bool() if causal else None
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


class Case(unittest.TestCase):
    def close(self, found, wanted, limit=6e-4):
        self.assertEqual(found.shape, wanted.shape)
        self.assertLessEqual(float((found.double() - wanted).norm() / wanted.norm()), limit)

    def same(self, found, wanted):
        self.assertTrue(torch.equal(found, wanted))

    def refused(self, *parts, call, stage="argument"):
        with self.assertRaises(tilejit.Error) as caught:
            call()
        self.assertEqual(caught.exception.stage, stage)
        for part in parts:
            self.assertIn(part, str(caught.exception))


@unittest.skipIf(WHY, WHY)
class Operators(Case):
    def setUp(self):
        self.ops = torch.ops.tilejit
        self.q, self.k, self.v = normal(1, 1, 4, 70, 64), normal(2, 1, 2, 100, 64), normal(3, 1, 2, 100, 64)

    def test_attention(self):
        q, k, v = self.q, self.k, self.v
        for causal, scale in ((False, None), (True, 0.2)):
            o = self.ops.fmha(q, k, v, causal=causal, scale=scale)
            self.assertEqual((o.dtype, o.device, o.requires_grad), (q.dtype, q.device, False))
            self.close(o, exact(q, k, v, causal, scale))
            self.same(o, tilejit.fmha(q, k, v, causal=causal, scale=scale))
            other, lse = self.ops.fmha_lse(q, k, v, causal=causal, scale=scale)
            self.same(other, o)
            self.same(lse, tilejit.fmha(q, k, v, causal=causal, scale=scale, return_lse=True)[1])
            given, given_lse = torch.full_like(o, float("nan")), torch.full_like(lse, float("nan"))
            self.assertIsNone(self.ops.fmha_out(q, k, v, given, causal=causal, scale=scale))
            self.same(given, o)
            given.fill_(float("nan"))
            self.ops.fmha_out(q, k, v, out=given, lse=given_lse, causal=causal, scale=scale)
            self.same(given, o)
            self.same(given_lse, lse)

    def test_memory_of_results(self):
        """The result's dimensions lie in memory in the order of q's, so that what follows needs no copy."""
        turned = normal(4, 1, 65, 2, 64).transpose(1, 2)
        packed = normal(5, 1, 65, 3, 2, 64).permute(2, 0, 3, 1, 4)
        for q, k, v in ((turned, turned, turned), packed):
            o = self.ops.fmha(q, k, v)
            self.assertTrue(o.transpose(1, 2).is_contiguous())
            self.close(o, exact(q, k, v))
        room = torch.full((1, 4, 70, 128), float("nan"), dtype=torch.float16)
        self.ops.fmha_out(self.q, self.k, self.v, room[..., 64:])
        self.close(room[..., 64:], exact(self.q, self.k, self.v))
        self.assertTrue(room[..., :64].isnan().all())

    def test_products(self):
        a, b, c, bias = normal(6, 65, 72), normal(7, 72, 40), normal(8, 65, 40), normal(9, 40)
        product = a.double() @ b.double()
        self.close(self.ops.gemm(a, b.T), product)
        wanted = (0.5 * product - 2 * c.double() + bias.double()).relu()
        options = dict(c=c, bias=bias, alpha=0.5, beta=-2.0, activation="relu")
        d = self.ops.gemm(a, b.T, **options)
        self.close(d, wanted)
        given = torch.full_like(d, float("nan"))
        self.ops.gemm_out(a, b.T, given, **options)
        self.same(given, d)
        self.assertEqual(self.ops.gemm(a, b.T, dtype=torch.float32).dtype, torch.float32)
        batch = normal(10, 3, 65, 72)
        self.close(self.ops.gemm(batch, b.T), batch.double() @ b.double())
        for _ in range(2):  # in the place of c, and apart, with one plan
            kept, apart = c.clone(), torch.empty_like(c)
            self.ops.gemm_out(a, b.T, kept, c=kept, beta=1.0)
            self.close(kept, product + c.double())
            self.ops.gemm_out(a, b.T, apart, c=c, beta=1.0)
            self.same(apart, kept)
        e = normal(11, 64, 64).to(torch.float8_e4m3fn)
        d = self.ops.gemm(e, e, scale_a=torch.tensor([0.5]))
        self.assertEqual(d.dtype, torch.float32)
        self.close(d, 0.5 * e.double() @ e.double().T, 3e-4)

    def test_chunks(self):
        ends = torch.tensor([0, 66, 70], dtype=torch.int32)
        rows, total = self.ops.chunk_indices(ends, tokens=70)
        self.assertEqual(rows[:int(total)].tolist(), [[0, 0], [0, 1], [1, 0]])
        given = torch.zeros_like(rows), torch.zeros_like(total)
        self.ops.chunk_indices_out(ends, *given)
        self.same(given[0][:3], rows[:3])
        q, v = normal(12, 70, 1, 128, dtype=torch.bfloat16), normal(13, 192, 2, 128, dtype=torch.bfloat16)
        h, g = normal(14, 3, 2, 128, 128, dtype=torch.bfloat16), -normal(15, 70, 2, dtype=torch.float32).abs().cumsum(0)
        options = dict(g_cu=g, cu_seqlens=ends, chunk_indices=rows, total_chunks=total, scale=0.1)
        o = self.ops.chunk_o(q, q, v, h, **options)
        self.same(o, tilejit.chunk_o(q, q, v, h, **options))
        given = torch.full_like(o, float("nan"))
        self.ops.chunk_o_out(q, q, v, h, given, num_stages=1, evict_first=True, max_sms=1, **options)
        self.same(given, o)
        self.same(self.ops.chunk_o(q, q, v, h, num_stages=1, **options), o)
        self.refused("num_stages is 9", call=lambda: self.ops.chunk_o(q, q, v, h, num_stages=9, **options))
        self.refused("tokens is -1", call=lambda: self.ops.chunk_indices(ends, tokens=-1))

    def test_written_results_are_known_to_autograd(self):
        """A backward pass that needs a tensor's old elements must not take the new ones."""
        o, weight = torch.randn_like(self.q), torch.ones(64, dtype=torch.float16, requires_grad=True)
        product = (o * weight).sum()
        with torch.no_grad():
            self.ops.fmha_out(self.q, self.k, self.v, o)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            product.backward()

    def test_overlap(self):
        """It is refused behind a call of the same shapes that was served, whose plan looks at shapes alone."""
        q = self.q.clone()
        self.ops.fmha_out(q, q, q, torch.empty_like(q))
        self.refused("o at", "overlaps q", call=lambda: self.ops.fmha_out(q, q, q, q))
        both = torch.zeros(2, *q.shape, dtype=q.dtype)
        self.ops.fmha_out(both[0], both[0], both[0], both[1])  # in one storage, and apart
        self.same(both[1], self.ops.fmha(both[0], both[0], both[0]))
        self.refused("o.strides[2] (Sq) is 0", call=lambda: self.ops.fmha_out(q, q, q, q[:, :, :1].clone().expand(q.shape)))

    def test_kept_plans(self):
        """A second call makes no plan; other strides and alignments make their own, and their number has a bound."""
        from tilejit import _ops, _torch_run

        class OnAnother(torch.Tensor):
            def get_device(self):
                return 7
        a, wide = normal(16, 64, 64), normal(17, 64, 80)
        with mock.patch.object(_torch_run, "_plans", {}), mock.patch.object(_torch_run, "MOST_PLANS", 4), \
                mock.patch.object(_ops, "plan", wraps=_ops.plan) as made:
            for count, operand in ((1, a), (1, a.clone()), (2, wide[:, :64]), (3, wide[:, 3:67]), (3, a)):
                self.close(self.ops.gemm(operand, a), operand.double() @ a.double().T)
                self.assertEqual(made.call_count, count)
            self.ops.gemm(a.as_subclass(OnAnother), a)
            self.assertEqual(made.call_count, 4)
            for rows in range(1, 9):
                self.close(self.ops.gemm(a[:rows], a), a[:rows].double() @ a.double().T)
                self.assertLessEqual(len(_torch_run._plans), 4)

    def test_zeros_of_both_signs(self):
        """They make other plans: zeros of results have their sign."""
        a, bias = normal(16, 64, 64), torch.full((64,), -0.0, dtype=torch.float16)
        row, h = torch.ones(64, 1, 128, dtype=torch.bfloat16), torch.zeros(1, 1, 128, 128, dtype=torch.bfloat16)
        for zero in (0.0, -0.0):
            self.same(self.ops.gemm(a.abs(), a.abs(), bias=bias, alpha=zero).signbit(), torch.full((64, 64), str(zero) == "-0.0"))
            self.same(self.ops.chunk_o(row, row, row, h, seq_length=64, scale=zero).signbit(), torch.full((64, 1, 128), str(zero) == "-0.0"))

    def test_plans_that_are_not_current(self):
        """Behind tilejit.tune() a product gets a new plan, of the kernel that was measured."""
        from tilejit import _ops, _plan, _torch_run
        a = normal(16, 64, 64)
        with mock.patch.object(_torch_run, "_plans", {}), mock.patch.object(_ops, "plan", wraps=_ops.plan) as made:
            self.ops.gemm(a, a)
            with mock.patch.object(_plan.Plan, "current", False):
                d = self.ops.gemm(a, a)
            self.assertEqual((made.call_count, len(_torch_run._plans)), (2, 1))
            self.same(self.ops.gemm(a, a), d)
            self.assertEqual(made.call_count, 2)

    def test_short_way(self):
        """What a GPU's tensors take where torch offers the exchange API: the package's own functions get all arguments, and write the same."""
        from tilejit import _torch_run
        ends, row = torch.tensor([0, 66, 70], dtype=torch.int32), normal(12, 70, 1, 128, dtype=torch.bfloat16)
        rows, total = self.ops.chunk_indices(ends, tokens=70)
        v, h = normal(13, 192, 1, 128, dtype=torch.bfloat16), normal(14, 3, 1, 128, 128, dtype=torch.bfloat16)

        class OnGpu(torch.Tensor):
            is_cuda = True
        for op, options, given, results in (
                ("fmha", (True, 0.2, -1, -1, False, 0.0, None, None, None), (self.q, self.k, self.v, *[None] * 8), (torch.empty_like(self.q), None)),
                ("fmha", (False, None, -1, -1, False, 0.0, None, None, None), (self.q, self.k, self.v, *[None] * 8),
                 (torch.empty_like(self.q), torch.empty(1, 4, 70))),
                ("chunk_indices", (), (ends,), (torch.zeros(3, 2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))),
                ("chunk_o", (0, 0.1, True, 0, 0, False), (row, row, v, h, -torch.ones(70, 1).cumsum(0), ends, rows, total), (torch.empty_like(row),))):
            _torch_run.run(op, options, (*given, *results), True)
            others = [None if x is None else torch.zeros_like(x) for x in results]
            with mock.patch.object(_torch_run, "api_of", return_value=1), mock.patch.object(_torch_run, "_run_plan", side_effect=AssertionError):
                _torch_run.run(op, options, (given[0].as_subclass(OnGpu), *given[1:], *others), True)
            for one, other in zip(results, others):
                if one is not None:
                    self.same(one[:3], other[:3]) if op == "chunk_indices" else self.same(one, other)

    def test_counters_begin_at_zero(self):
        """A plan whose blocks draw their tiles never counts in memory that holds something else."""
        from tilejit import _torch_run
        q, k = normal(15, 2, 100, 65, 64), normal(16, 2, 100, 1, 64)  # as many tiles as heads: more than the multiprocessors of sm_90a
        empty = torch.empty

        def poisoned(*shape, **options):
            made = empty(*shape, **options)
            return made.fill_(255) if made.dtype is torch.uint8 else made
        with mock.patch.object(torch, "empty", poisoned):
            found = torch.empty_like(q)
            _torch_run.run("fmha", (True, None, -1, -1, True, 0.0, None, None, None), (q, k, k, *[None] * 8, found, None), True)
        self.assertTrue(next(plan for key, (plan, _) in _torch_run._plans.items() if key[1:3] == (True, None) and key[10] == q.shape).workspace_zeroed)
        self.same(found, k.expand_as(q))  # the value of the one key

    def test_grad(self):
        """Each tensor of each operator that requires grad is refused by name; without gradients all is served."""
        needs = self.q.clone().requires_grad_()
        for call in (lambda: self.ops.fmha(needs, self.k, self.v), lambda: self.ops.fmha_lse(needs, self.k, self.v)):
            self.refused("fmha: q requires grad", "forward passes only", "torch.no_grad()", "q.detach()", call=call)
            with torch.no_grad():
                call()
            with torch.inference_mode():
                call()
        self.refused("v requires grad", call=lambda: self.ops.fmha(self.q, self.k, self.v.clone().requires_grad_()))
        self.refused("o requires grad", call=lambda: self.ops.fmha_out(self.q, self.k, self.v, needs))
        bias = torch.ones(70, dtype=torch.float16, requires_grad=True)
        self.refused("gemm: bias requires grad", call=lambda: self.ops.gemm(self.q[0, 0], self.q[0, 0], bias=bias))
        self.ops.fmha(needs.detach(), self.k, self.v)
        h = torch.zeros(1, 1, 128, 128, dtype=torch.bfloat16, requires_grad=True)
        row = torch.zeros(64, 1, 128, dtype=torch.bfloat16)
        self.refused("chunk_o: h requires grad", call=lambda: self.ops.chunk_o(row, row, row, h, seq_length=64))

    def test_inference_mode(self):
        with torch.inference_mode():
            q = self.q.clone()
            o = torch.empty_like(q)
            self.ops.fmha_out(q, self.k, self.v, o)
            self.same(o, self.ops.fmha(q, self.k, self.v))

    def test_autocast(self):
        wide = [each.float() for each in (self.q, self.k, self.v)]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o = self.ops.fmha(*wide)
            d = self.ops.gemm(wide[0][0, 0], wide[1][0, 0], bias=torch.ones(100))
            e = self.ops.gemm(*[wide[0][0, 0].to(torch.float8_e4m3fn)] * 2, bias=torch.ones(70))  # as with torch's products, all stays
        self.assertEqual((o.dtype, d.dtype, e.dtype), (torch.bfloat16, torch.bfloat16, torch.float32))
        self.close(o, exact(*wide), 1e-2)
        self.close(d, wide[0][0, 0].double() @ wide[1][0, 0].double().T + 1, 1e-2)
        self.refused("q.dtype is f32", call=lambda: self.ops.fmha(*wide))

    def test_sizes_of_0(self):
        """torch gives tensors without elements no address."""
        q, k = self.q, self.k[:, :, :0]
        self.assertEqual(torch.empty(0).data_ptr(), 0)
        o, lse = self.ops.fmha_lse(q, k, k)
        self.assertEqual((float(o.abs().max()), float(lse.max())), (0, -float("inf")))
        for x, y in ((q[:, :, :0], self.k), (q[:0], self.k[:0])):
            self.assertEqual(self.ops.fmha(x, y, y).shape, x.shape)
        a, b = torch.empty(5, 0, dtype=torch.float16), torch.empty(7, 0, dtype=torch.float16)
        self.assertTrue(torch.equal(self.ops.gemm(a, b, bias=torch.full((7,), 2.0, dtype=torch.float16)), torch.full((5, 7), 2.0, dtype=torch.float16)))
        self.assertEqual(self.ops.gemm(a.new_empty(0, 64), a.new_ones(7, 64)).shape, (0, 7))

    def test_refusals(self):
        q, k, v, f = self.q, self.k, self.v, self.ops.fmha
        self.refused("v.rank is 3", call=lambda: f(q, k, v[0]))
        self.refused("q has 3 dimensions", call=lambda: f(q[0], k, v))
        self.refused("q has 6 dimensions", call=lambda: f(q[None, None], k, v))
        self.refused("k has the type torch.float64", call=lambda: f(q, k.double(), v))
        self.refused("k.dtype is bf16", call=lambda: f(q, k.bfloat16(), v))
        self.refused("D", "63", call=lambda: f(q[..., :63], k[..., :63], v[..., :63]))
        self.refused("q.shape[1] (H) is 3", call=lambda: f(q[:, :3], k, v))
        self.refused("k.strides[2]", "broadcast", call=lambda: f(q, k[:, :, :1].expand(k.shape), v))
        self.refused("k.strides[3] (D) is 2", call=lambda: f(q, normal(4, 1, 2, 100, 128)[..., ::2], v))
        self.refused("q.data is", "16 bytes", call=lambda: f(normal(4, 1, 4, 70, 72).reshape(-1)[1:17921].view(q.shape), k, v))
        self.refused("k.shape[1] (Hkv) is 0", call=lambda: f(q, k[:, :0], v[:, :0]))
        self.refused("scale is nan", call=lambda: f(q, k, v, scale=float("nan")))
        self.refused("o.shape[2]", call=lambda: self.ops.fmha_out(q, k, v, q[:, :, :9].clone()))
        self.refused("activation is 'tanh'", call=lambda: self.ops.gemm(q[0, 0], q[0, 0], activation="tanh"))
        self.refused("a.rank is 1", call=lambda: self.ops.gemm(q[0, 0, 0], q[0, 0]))
        self.refused("b.shape[1] (K) is 64", call=lambda: self.ops.gemm(q[0, 0, :, :8], q[0, 0]))
        self.refused("c is absent", call=lambda: self.ops.gemm(q[0, 0], q[0, 0], beta=1.0))
        self.refused("q.rank is 2", call=lambda: self.ops.chunk_o(q[0, 0], q[0, 0], q[0], q))

    def test_what_torch_refuses(self):
        q, f = self.q, self.ops.fmha
        for call in (lambda: f(1, q, q), lambda: f(q, q), lambda: f(q, q, q, casual=True), lambda: f(q, q, None), lambda: f(None, q, q),
                     lambda: f(q.numpy(), q, q)):
            with self.assertRaises((RuntimeError, TypeError, tilejit.Error)):
                call()
        with contextlib.suppress(ImportError):
            nested = torch.nested.nested_tensor([q[0], q[0]])
            with self.assertRaisesRegex((NotImplementedError, RuntimeError), "tilejit::fmha"):
                f(nested, nested, nested)
        with self.assertRaisesRegex((NotImplementedError, RuntimeError), "tilejit::fmha.*Sparse"):
            f(q.to_sparse(), q, q)

    def test_threads(self):
        wanted, found = self.ops.fmha(self.q, self.k, self.v), []

        def work(number):
            rows = 60 + number
            wanted_part = exact(self.q[:, :, :rows], self.k, self.v)
            for _ in range(3):
                try:
                    self.ops.fmha(self.q, self.k, self.v[0])
                except tilejit.Error as error:
                    o, part = self.ops.fmha(self.q, self.k, self.v), self.ops.fmha(self.q[:, :, :rows], self.k, self.v)
                    found.append((torch.equal(o, wanted), float((part - wanted_part).norm() / wanted_part.norm()), error.message))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 18)
        for right, distance, message in found:
            self.assertTrue(right)
            self.assertLess(distance, 6e-4)
            self.assertIn("v.rank is 3", message)


@unittest.skipIf(WHY, WHY)
class Texts(Case):
    def test_examples(self):
        """The docstrings' examples give what they say."""
        import tilejit._torch_sdpa
        ran = 0
        for module in (tilejit.torch, tilejit._torch_sdpa):
            for test in doctest.DocTestFinder(exclude_empty=True).find(module):
                report = []
                self.assertEqual(doctest.DocTestRunner().run(test, out=report.append).failed, 0, "".join(report))
                ran += bool(test.examples)
        self.assertEqual(ran, 2)

    def test_document(self):
        """The README's program runs as it stands there."""
        with open(os.path.join(here.ROOT, "src", "python", "README.md"), encoding="utf-8") as file:
            programs = [text for text in re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL) if "tilejit.torch" in text]
        self.assertEqual(len(programs), 1)
        exec(compile(programs[0], "README.md", "exec"), {})

    def test_versions(self):
        for version in ("2.3.1", "1.13.1+cu117"):
            with self.assertRaisesRegex(ImportError, f"2.4 or later, and here is {re.escape(version)}"):
                tilejit.torch._check_version(version)
        for version in ("2.4.0", "2.10.0a0+git1", "3.0.1"):
            tilejit.torch._check_version(version)

    def test_names(self):
        for name in tilejit.torch.__all__:
            found = getattr(tilejit.torch, name)
            self.assertIn(">>> ", found.__doc__)
            for each in inspect.signature(found).parameters.values():
                self.assertIsNot(each.annotation, inspect.Parameter.empty, f"{name}: {each.name}")
        for name in ("fmha", "fmha_lse", "fmha_out", "gemm", "gemm_out", "chunk_indices", "chunk_indices_out", "chunk_o", "chunk_o_out"):
            self.assertTrue(hasattr(torch.ops.tilejit, name), name)
            self.assertIn(name, tilejit.torch.__doc__)


if __name__ == "__main__":
    here.skips.main()
