"""Attention beside cuDNN and FlashAttention-2 as PyTorch runs them, and FlashAttention-3 where a library of it is given.

Decides which tensors a problem has and which calls are its candidates; speed.py times them. All candidates read the same tensors, in the
problem's layout: bshd is [B, S, H, D] in memory, bhsd [B, H, S, D].
"""
import random

import fa3_peer
import fmha_check
import gemm_speed
import timing
from fmha_check import Guarded, Metric, double

PEERS = ["cudnn", "fa2", "fa3"]
WHOLE = 1 << 30   # pairs of a query and a key over all heads up to which every row is checked; beyond, one row of each band
BAND = gemm_speed.BAND


def flops_of(problem):
    return fmha_check.flops(problem["batch"], problem["heads"], problem["seq_q"], problem["seq_k"], problem["head_dim"], problem["causal"])


class Work:
    """One attention on the GPU; see gemm_speed.Work."""

    def __init__(self, torch, runtime, binding, device, problem, options):
        self.torch, self.runtime, self.binding, self.device, self.problem = torch, runtime, binding, device, problem
        self.flops = flops_of(problem)
        self.calls = gemm_speed.calls_of(self.flops)
        self.code = {"f16": binding.F16, "bf16": binding.BF16}[problem["dtype"]]
        self.make(options.seed)
        self.candidates, self.refused, self.repeated = {"tilejit": self.ours}, {}, []
        for name, call in {**self.torch_calls(self.k, self.v), **self.fa3_call(options.fa3_library)}.items():
            self.enter(name, call)
        if problem["heads"] != problem["kv_heads"] and {"cudnn", "fa2"} & set(self.refused):
            self.repeat_heads()
        self.peers = [name for name in PEERS if name in self.candidates or name in self.refused]

    def enter(self, name, call):
        """Makes it a candidate; or says why it is none, and returns False."""
        try:
            call()
            self.torch.cuda.synchronize()
        except (RuntimeError, TypeError, fa3_peer.Fa3Error) as error:
            self.refused[name] = timing.first_line(error)
            return False
        self.candidates[name] = call
        return True

    def repeat_heads(self):
        """A backend that knows no groups gets K and V with each head as often as it is used; making these is no part of its time."""
        group = self.problem["heads"] // self.problem["kv_heads"]
        calls = self.torch_calls(*(t.repeat_interleave(group, 1) for t in (self.k, self.v)))
        for name in [name for name in calls if name in self.refused]:
            if self.enter(name, calls[name]):
                del self.refused[name]
                self.repeated.append(name)

    def make(self, seed):
        torch, p = self.torch, self.problem
        self.dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[p["dtype"]]
        generator = torch.Generator(device="cuda").manual_seed(seed % (1 << 31) + p["number"])

        def dense(heads, length):
            shape = (p["batch"], length, heads, p["head_dim"]) if p["layout"] == "bshd" else (p["batch"], heads, length, p["head_dim"])
            value = torch.randn(shape, generator=generator, device="cuda").to(self.dtype)
            return value.transpose(1, 2) if p["layout"] == "bshd" else value
        self.q, self.k, self.v = dense(p["heads"], p["seq_q"]), dense(p["kv_heads"], p["seq_k"]), dense(p["kv_heads"], p["seq_k"])
        strides, per_batch = fmha_check.layout_strides("s" if p["layout"] == "bshd" else "h", p["heads"], p["seq_q"], p["head_dim"], 0)
        self.o = Guarded(torch, self.dtype, list(self.q.shape), strides, per_batch * p["batch"])
        self.bound = [self.binding.tensor(t.data_ptr(), self.device, self.code, list(t.shape), list(t.stride())) for t in (self.q, self.k, self.v, self.o.view)]

    def ours(self):
        self.runtime.fmha(*self.bound, causal=self.problem["causal"], stream=self.torch.cuda.current_stream().cuda_stream)

    def torch_calls(self, k, v):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention
        p = self.problem
        grouped = {"enable_gqa": True} if k.shape[1] != p["heads"] else {}

        def of(backend):
            def call():
                with sdpa_kernel(backend):
                    return scaled_dot_product_attention(self.q, k, v, is_causal=p["causal"], **grouped)
            return call
        return {"cudnn": of(SDPBackend.CUDNN_ATTENTION), "fa2": of(SDPBackend.FLASH_ATTENTION)}

    def fa3_call(self, library):
        if library is None:
            return {}
        torch, p = self.torch, self.problem
        self.fa3_o = torch.empty_like(self.q)  # the same strides
        self.fa3_lse = torch.empty((p["batch"], p["heads"], p["seq_q"]), dtype=torch.float32, device="cuda")
        self.workspace = torch.zeros(fa3_peer.WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        arguments = library.arguments(self.q, self.k, self.v, self.fa3_o, self.fa3_lse, self.workspace, fa3_peer.WORKSPACE_BYTES, p["causal"], p["dtype"])
        return {"fa3": lambda: library.forward(arguments, torch.cuda.current_stream().cuda_stream)}

    def describe(self):
        report = self.runtime.prepare(self.device, dtype=self.code, head_dim=self.problem["head_dim"], causal=self.problem["causal"])
        return {"kernel": report.name.decode(), "repeated_heads": self.repeated}

    # ---- the check -----------------------------------------------------------------------------------------------------
    def check(self):
        """Runs once into poisoned memory; figures against f64, ours and FlashAttention-3's, which nobody else checks."""
        self.ours()
        self.torch.cuda.synchronize()
        p = self.problem
        self.first = self.o.view.clone()
        whole = p["batch"] * p["heads"] * p["seq_q"] * p["seq_k"] <= WHOLE
        rows = list(range(p["seq_q"])) if whole else gemm_speed.one_of_each_band(p["seq_q"], random.Random(p["number"]).random)
        (error, row_error), limit = self.errors_of(self.first, rows), fmha_check.LIMITS[p["dtype"]]
        unwritten, outside = self.o.unwritten(), self.o.written_outside()
        found = {"error": error, "limit": limit, "row_error": row_error, "unwritten": unwritten, "written_outside": outside, "whole": whole,
                 "ok": error <= limit and row_error <= gemm_speed.BLOCK_FACTOR * limit and unwritten == 0 and outside == 0}
        if "fa3" in self.candidates:
            found["error_fa3"] = self.errors_of(self.fa3_o, rows)[0]
            if not found["error_fa3"] <= limit:
                self.refused["fa3"] = f"its result is {found['error_fa3']:.1e} from f64"
                del self.candidates["fa3"]
        return found

    def errors_of(self, o, rows):
        """The errors of these rows of every head together, and of the worst row; as many heads at once as the reference has room for."""
        torch, p, metric, worst = self.torch, self.problem, Metric(), 0.0
        places, group = torch.tensor(rows, device="cuda"), p["heads"] // p["kv_heads"]
        chunk = max(1, fmha_check.MAX_SCORES // p["seq_k"])
        at_once = max(1, fmha_check.MAX_SCORES // (min(chunk, len(rows)) * p["seq_k"]))
        for b in range(p["batch"]):
            for h in range(0, p["heads"], at_once):
                heads = torch.arange(h, min(h + at_once, p["heads"]), device="cuda")
                keys, values = (double(torch, t[b][torch.div(heads, group, rounding_mode="floor")]) for t in (self.k, self.v))
                for begin in range(0, len(rows), chunk):
                    part = places[begin:begin + chunk]
                    hidden = (part + (p["seq_k"] - p["seq_q"] + 1))[:, None] if p["causal"] else None
                    wanted, _ = fmha_check.reference_rows(torch, double(torch, self.q[b][heads][:, part]), keys, values, p["head_dim"] ** -0.5, hidden)
                    ours = double(torch, o[b][heads][:, part])
                    metric.add(torch, ours, wanted)
                    worst = max(worst, gemm_speed.block_error(torch, ours.flatten(0, 1), wanted.flatten(0, 1)))
        return metric.error, worst

    def moved(self):
        return gemm_speed.moved(self.o, self.first)
