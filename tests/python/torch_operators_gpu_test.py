"""Protects torch.ops.tilejit and tilejit.torch.sdpa on a GPU: values beside torch's in f64, torch's current stream, memory of torch's allocator alone.
Graphs of CUDA are replayed on other inputs. Programs are compiled by torch. Refusals leave nothing behind."""
import importlib.util
import threading
import unittest
import warnings

import here

tilejit = here.tilejit
torch, WHY = None, "no GPU"
if any(each.kind != "cpu" for each in tilejit.devices()):  # else torch's import is saved
    from with_torch import WHY, torch
    WHY = WHY or ("" if torch.cuda.is_available() else "torch has no GPU here")
TRITON = importlib.util.find_spec("triton") is not None


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.ops, self.torchs = torch.ops.tilejit, torch.nn.functional.scaled_dot_product_attention
        self.q, self.k, self.v = (torch.randn(2, 8, 300, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def wanted(self, causal=False):
        return self.torchs(self.q.double(), self.k.double(), self.v.double(), is_causal=causal)

    def close(self, found, wanted, limit=5e-3):
        self.assertEqual(found.shape, wanted.shape)
        self.assertLess(float((found.double() - wanted).norm() / wanted.norm()), limit)


@unittest.skipIf(WHY, WHY)
class Operators(Case):
    def test_attention(self):
        """Thrice, as the first calls of a shape take other ways than later ones."""
        for causal in (False, True):
            for _ in range(3):
                o, lse = self.ops.fmha_lse(self.q, self.k, self.v, causal=causal)
                self.close(o, self.wanted(causal))
                self.assertEqual((lse.shape, lse.dtype), ((2, 8, 300), torch.float32))
                self.assertTrue(torch.equal(self.ops.fmha(self.q, self.k, self.v, causal=causal), o))
                given = torch.full_like(self.q, float("nan"))
                self.ops.fmha_out(self.q, self.k, self.v, given, causal=causal)
                self.assertTrue(torch.equal(given, o))
        turned = self.q.transpose(1, 2).contiguous().transpose(1, 2)
        for _ in range(3):
            o = self.ops.fmha(turned, self.k, self.v)
            self.assertTrue(o.transpose(1, 2).is_contiguous())
            self.close(o, self.wanted())

    def test_products(self):
        for rows, columns, depth in ((500, 320, 256), (64, 64, 16384), (33, 40, 72)):  # the second in parts of K, with a workspace
            a, b = (torch.randn(size, depth, device="cuda", dtype=torch.float16) for size in (rows, columns))
            for _ in range(3):
                self.close(self.ops.gemm(a, b), a.double() @ b.double().T, 5e-4)
                d = torch.full((rows, columns), float("nan"), device="cuda", dtype=torch.float32)
                self.ops.gemm_out(a, b, d, alpha=0.5)
                self.close(d, 0.5 * a.double() @ b.double().T, 1e-4)
            odd = torch.randn(rows * depth + 1, device="cuda", dtype=torch.float16)[1:].view(rows, depth)
            self.close(self.ops.gemm(odd, b), odd.double() @ b.double().T, 5e-4)

    def test_chunks(self):
        ends = torch.tensor([0, 66, 70], dtype=torch.int32, device="cuda")
        rows, total = self.ops.chunk_indices(ends, tokens=70)
        self.assertEqual(rows[:int(total)].tolist(), [[0, 0], [0, 1], [1, 0]])

    def test_streams(self):
        """What is enqueued before and behind a call on torch's current stream comes before and behind it."""
        side, wanted, kept, zeros = torch.cuda.Stream(), self.wanted(), self.q.clone(), torch.zeros_like(self.q)
        for _ in range(3):
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                q = zeros.clone()
                torch.cuda._sleep(20_000_000)
                q.copy_(kept)
                twice = self.ops.fmha(q, self.k, self.v) * 2
            side.synchronize()
            self.close(twice / 2, wanted)

    def test_threads(self):
        found, wanted = [], self.wanted()

        def work():
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
                for _ in range(20):
                    o = self.ops.fmha(self.q, self.k, self.v)
                torch.cuda.current_stream().synchronize()
                found.append(o)
        torch.cuda.synchronize()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 4)
        for o in found:
            self.close(o, wanted)

    @unittest.skipUnless(not WHY and torch.cuda.device_count() > 1, "one GPU")
    def test_another_device(self):
        q, k, v = (each.to("cuda:1") for each in (self.q, self.k, self.v))
        for _ in range(3):
            o = self.ops.fmha(q, k, v)
            self.assertEqual((o.device, torch.cuda.current_device()), (q.device, 0))
            self.close(o.to("cuda:0"), self.wanted())
            with self.assertRaisesRegex(tilejit.Error, "k.device"):
                self.ops.fmha(q, self.k, v)

    def test_refusals(self):
        """Behind calls of the same shapes that were served, too."""
        for _ in range(3):
            self.ops.fmha(self.q, self.k, self.v)
            for words, call in (("requires grad", lambda: self.ops.fmha(self.q.clone().requires_grad_(), self.k, self.v)),
                                ("k.device|k is on", lambda: self.ops.fmha(self.q, self.k.cpu(), self.v)),
                                ("k.device", lambda: self.ops.fmha(self.q, self.k.to("meta"), self.v)),
                                ("v.rank is 3", lambda: self.ops.fmha(self.q, self.k, self.v[0])),
                                ("k.dtype", lambda: self.ops.fmha(self.q, self.k.half(), self.v)),
                                ("overlaps", lambda: self.ops.fmha_out(self.q, self.k, self.v, self.q)),
                                ("requires grad", lambda: self.ops.gemm(self.q[0, 0].clone().requires_grad_(), self.k[0, 0]))):
                with self.assertRaisesRegex(tilejit.Error, words):
                    call()
        with torch.no_grad():
            self.close(self.ops.fmha(self.q.clone().requires_grad_(), self.k, self.v), self.wanted())
        self.close(self.ops.fmha(self.q, self.k, self.v), self.wanted())

    def test_autocast(self):
        q, k, v = (each.float() for each in (self.q, self.k, self.v))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            for o in (self.ops.fmha(q, k, v), tilejit.torch.sdpa(q, k, v, fallback=False)):
                self.assertEqual(o.dtype, torch.bfloat16)
                self.close(o, self.wanted())


@unittest.skipIf(WHY, WHY)
class Graphs(Case):
    """While a graph is captured, a synchronisation or an allocation by the driver itself is an error: that the capture ends is a check of its own."""

    def program(self, a, b):
        o, lse = self.ops.fmha_lse(self.q, self.k, self.v, causal=True)
        d = self.ops.gemm(a, b)
        written = torch.zeros_like(d)
        self.ops.gemm_out(a, b, written)
        return o, lse, d, written, tilejit.torch.sdpa(self.q, self.k[:, :, :200], self.v[:, :, :200], is_causal=True, fallback=False)

    def test_replays(self):
        a, b = (torch.randn(64, 16384, device="cuda", dtype=torch.float16) for _ in range(2))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.program(a, b)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        free, reserved = torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = self.program(a, b)
        graph.replay()
        torch.cuda.synchronize()
        taken, torchs = free - torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved() - reserved
        self.assertLess(abs(taken - torchs), 32 << 20, f"{taken} bytes were taken, {torchs} of them by torch; the graph's own code is small")
        for _ in range(3):
            for each in (self.q, self.k, self.v, a, b):
                each.copy_(torch.randn_like(each))
            graph.replay()
            torch.cuda.synchronize()
            for one, other in zip(found, self.program(a, b)):
                self.assertTrue(torch.equal(one, other))
            self.close(found[0], self.wanted(True))
            self.close(found[2], a.double() @ b.double().T, 5e-4)

    def test_prepared(self):
        """prepare() alone makes a capture possible: no call went before."""
        q = torch.randn(1, 2, 64, 64, device="cuda", dtype=torch.float16)
        tilejit.prepare("fmha", q, q, q)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o = self.ops.fmha(q, q, q)
        graph.replay()
        torch.cuda.synchronize()
        self.close(o, self.torchs(q.double(), q.double(), q.double()), 1e-3)


@unittest.skipIf(WHY, WHY)
class Compiled(Case):
    def compiled(self, program, *given, **options):
        torch._dynamo.reset()
        wanted, compiled = program(*given), torch.compile(program, fullgraph=True, **options)
        for _ in range(4):  # "reduce-overhead" captures a graph at the second call
            found = compiled(*given)
            self.close(found, wanted.double(), 1e-2)
        self.assertEqual(found.stride(), wanted.stride())

    @staticmethod
    def program(q, k, v):
        turned = (q * 2).transpose(1, 2).contiguous().transpose(1, 2)
        o = tilejit.torch.sdpa(turned, k, v, is_causal=True, fallback=False)
        return torch.ops.tilejit.gemm(o[0], k[0, 0], activation="silu") + 1

    def test_compile(self):
        self.compiled(self.program, self.q, self.k, self.v, backend="aot_eager")

    @unittest.skipUnless(TRITON, "no triton, which inductor needs on a GPU")
    def test_inductor(self):
        self.compiled(self.program, self.q, self.k, self.v)
        self.compiled(self.program, self.q, self.k, self.v, mode="reduce-overhead")

    def test_opcheck(self):
        q = self.q[:1, :2, :70].contiguous()
        torch.library.opcheck(self.ops.fmha.default, (q, q, q), dict(causal=True))
        torch.library.opcheck(self.ops.gemm.default, (q[0, 0], q[0, 1]))


@unittest.skipIf(WHY, WHY)
class Sdpa(Case):
    def test_values(self):
        for causal in (False, True):
            self.close(tilejit.torch.sdpa(self.q, self.k, self.v, is_causal=causal, fallback=False), self.wanted(causal))
        for rows, keys in ((100, 300), (300, 100)):
            q, k, v = self.q[:, :, :rows], self.k[:, :, :keys], self.v[:, :, :keys]
            found = tilejit.torch.sdpa(q, k, v, is_causal=True, fallback=False)
            self.close(found, self.torchs(q.double(), k.double(), v.double(), is_causal=True))
        found = tilejit.torch.sdpa(self.q, self.k[:, :2], self.v[:, :2], enable_gqa=True, fallback=False)
        self.close(found, self.torchs(self.q.double(), *(each[:, :2].double().repeat_interleave(4, 1) for each in (self.k, self.v))))

    def test_gradients_are_torchs(self):
        inputs = [each.clone().requires_grad_() for each in (self.q, self.k, self.v)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tilejit.torch.sdpa(*inputs, is_causal=True).float().sum().backward()
        found = [each.grad.clone() for each in inputs]
        for each in inputs:
            each.grad = None
        self.torchs(*inputs, is_causal=True).float().sum().backward()
        for one, other in zip(found, inputs):
            self.close(one, other.grad.double(), 2e-2)


if __name__ == "__main__":
    here.skips.main()
