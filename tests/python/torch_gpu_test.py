"""Protects tensors of torch on a GPU: values beside torch's own, results and out=, layouts, torch's current stream, a CUDA graph, tensors that want
gradients, fake and meta ones."""
import unittest

import here

tilejit = here.tilejit
torch, WHY = None, "no GPU"
if any(each.kind != "cpu" for each in tilejit.devices()):  # else torch's import is saved
    from with_torch import WHY, torch
    WHY = WHY or ("" if torch.cuda.is_available() else "torch has no GPU here")


@unittest.skipIf(WHY, WHY)
class Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.q, self.k, self.v = (torch.randn(2, 8, 300, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def wanted(self, causal=False):
        return torch.nn.functional.scaled_dot_product_attention(self.q.double(), self.k.double(), self.v.double(), is_causal=causal)

    def close(self, found, wanted, limit=5e-3):
        self.assertEqual(found.shape, wanted.shape)
        self.assertLess(float((found.double() - wanted).norm() / wanted.norm()), limit)

    def test_attention(self):
        for causal in (False, True):
            o, lse = tilejit.fmha(self.q, self.k, self.v, causal=causal, return_lse=True)
            self.assertEqual((o.dtype, o.device, lse.dtype), (torch.bfloat16, self.q.device, torch.float32))
            self.close(o, self.wanted(causal))
        out = torch.full_like(self.q, float("nan"))
        self.assertIs(tilejit.fmha(self.q, self.k, self.v, out=out), out)
        self.close(out, self.wanted())
        turned = [each.transpose(1, 2).contiguous() for each in (self.q, self.k, self.v)]
        self.close(tilejit.fmha(*turned, layout="bshd").transpose(1, 2), self.wanted())

    def test_max_sms_leaves_room_for_another_kernel(self):
        count = torch.cuda.get_device_properties(0).multi_processor_count
        if count < 64:
            self.skipTest("few multiprocessors")
        a = torch.randn(16384, 16384, device="cuda", dtype=torch.float16)
        small = a[:128, :64].contiguous()
        d, wanted = torch.empty_like(a), tilejit.gemm(small, small)  # both kernels are made before
        tilejit.gemm(a, a, out=d, max_sms=count - 32)
        torch.cuda.synchronize()
        long, short = torch.cuda.Stream(), torch.cuda.Stream()
        for _ in range(4):
            tilejit.gemm(a, a, out=d, max_sms=count - 32, stream=long)
        found = torch.empty_like(wanted)
        tilejit.gemm(small, small, out=found, stream=short)  # its blocks want nearly all of an SM's shared memory
        short.synchronize()
        self.assertFalse(long.query(), "the short product waited for the long ones")
        self.assertTrue(torch.equal(found, wanted))
        long.synchronize()

    def test_sizes_of_0(self):
        """Empty tensors of torch have no address; a graph has nothing of a call without queries."""
        none, out = self.k[:, :, :0], torch.empty_like(self.q)
        tilejit.prepare("fmha", self.q, none, none)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tilejit.fmha(self.q, none, none, out=out)
            tilejit.fmha(none, self.k, self.v)
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        self.assertEqual(int(out.count_nonzero()), 0)
        self.assertEqual(int(tilejit.gemm(out[0, 0, :, :0], out[0, 0, :, :0]).count_nonzero()), 0)

    def test_products(self):
        a, b = torch.randn(500, 256, device="cuda", dtype=torch.float16), torch.randn(256, 320, device="cuda", dtype=torch.float16)
        self.close(tilejit.gemm(a, b.T), a.double() @ b.double(), 5e-4)
        self.close(tilejit.gemm(a, b.T, dtype="f32"), a.double() @ b.double(), 1e-5)

    def test_results_are_torch_s_own_memory(self):
        """Of known calls too: record_stream() does nothing to memory that torch got from elsewhere, and resize_() fails."""
        for _ in range(4):
            for o in (tilejit.fmha(self.q, self.k, self.v), *tilejit.fmha(self.q, self.k, self.v, return_lse=True)):
                self.assertTrue(o.untyped_storage().resizable())
                o.resize_(2 * o.numel())
        side = torch.cuda.Stream()
        o = tilejit.fmha(self.q, self.k, self.v)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)
        o.record_stream(side)
        place = o.data_ptr()
        del o
        self.assertNotEqual(torch.empty_like(self.q).data_ptr(), place)  # for the other stream still reads it

    def test_current_stream(self):
        """What is enqueued before and behind a call on torch's current stream comes before and behind it."""
        side, wanted = torch.cuda.Stream(), self.wanted()
        tilejit.prepare("fmha", self.q, self.k, self.v)
        kept, zeros = self.q.clone(), torch.zeros_like(self.q)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            q = zeros.clone()
            torch.cuda._sleep(20_000_000)
            q.copy_(kept)
            o = tilejit.fmha(q, self.k, self.v)
            twice = o * 2
        side.synchronize()
        self.close(twice / 2, wanted)

    def test_plan_and_capture(self):
        plan = tilejit.plan("fmha", self.q, self.k, self.v)
        o = torch.full_like(self.q, float("nan"))
        plan.run(self.q, self.k, self.v, o)
        self.close(o, self.wanted())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            inside = tilejit.fmha(self.q, self.k, self.v)
        self.q.copy_(torch.randn_like(self.q))
        graph.replay()
        torch.cuda.synchronize()
        self.close(inside, self.wanted())

    def test_refusals(self):
        with self.assertRaisesRegex(tilejit.Error, "requires grad"):
            tilejit.fmha(self.q.clone().requires_grad_(), self.k, self.v)
        with torch.no_grad():
            tilejit.fmha(self.q.clone().requires_grad_(), self.k, self.v)
        with self.assertRaisesRegex(tilejit.Error, "q is on meta"):
            tilejit.fmha(self.q.to("meta"), self.k, self.v)
        with self.assertRaisesRegex(tilejit.Error, "k"):
            tilejit.fmha(self.q, self.k.cpu(), self.v)
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode() as mode:
            with self.assertRaisesRegex(tilejit.Error, "no memory|memory"):
                tilejit.fmha(mode.from_tensor(self.q), mode.from_tensor(self.k), mode.from_tensor(self.v))


if __name__ == "__main__":
    here.skips.main()
