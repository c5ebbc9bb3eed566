"""Peers of chunk output: a plain PyTorch formulation over padded chunks, and a Triton kernel in the usual form, one program for
each chunk, head and block of V, autotuned. Both for dense inputs as chunk_speed.py makes them: h [chunks, Hv, V, K], v_new padded per chunk.

Triton is imported where a kernel is asked for. Nothing of tilejit is used here.
"""
CHUNK, DIM = 64, 128
tl = None  # triton.language, once a kernel was made


# ---- PyTorch -----------------------------------------------------------------------------------------------------------
class Plain:
    """The formulas on whole tensors. What depends on lengths alone is made once, before anything is timed."""

    def __init__(self, torch, lengths, place="cuda"):
        self.torch = torch
        starts, rows = [], []
        first = 0
        for length in lengths:
            starts += range(first, first + length, CHUNK)
            rows += [min(CHUNK, length - begin) for begin in range(0, length, CHUNK)]
            first += length
        starts, rows = (torch.tensor(values, device=place) for values in (starts, rows))
        places = torch.arange(CHUNK, device=place)
        self.valid = places[None, :] < rows[:, None]                               # [n, 64]
        self.tokens = torch.where(self.valid, starts[:, None] + places[None, :], starts[:, None])
        self.dense = bool(self.valid.all())                                         # every chunk is full
        self.inside = None if self.dense else self.valid.flatten().nonzero().flatten()
        self.lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=place).tril()

    def gather(self, x):
        if self.dense:
            return x.view(self.tokens.shape[0], CHUNK, *x.shape[1:])
        return x[self.tokens]

    def __call__(self, q, k, v_new, h, g_cu, o, scale):
        torch, ratio = self.torch, v_new.shape[1] // q.shape[1]
        chunks = self.tokens.shape[0]
        heads = lambda x: self.gather(x).transpose(1, 2)  # noqa: E731  [n, H, 64, D]
        q, k, g = heads(q), heads(k), self.gather(g_cu).transpose(1, 2)              # g [n, Hv, 64]
        v = v_new.view(-1, CHUNK, *v_new.shape[1:])[:chunks].transpose(1, 2)
        if not self.dense:
            v = torch.where(self.valid[:, None, :, None], v, 0)
        difference = (g[:, :, :, None] - g[:, :, None, :]).masked_fill(~self.lower, float("-inf"))
        scores = torch.matmul(q, k.transpose(-1, -2)).repeat_interleave(ratio, 1)
        weights = (scores * difference.exp()).to(v.dtype)
        before = torch.matmul(q.repeat_interleave(ratio, 1), h[:chunks].transpose(-1, -2)) * g.exp()[..., None]
        result = ((before + torch.matmul(weights, v)) * scale).to(o.dtype).transpose(1, 2)
        if self.dense:
            o.view(result.shape).copy_(result)
        else:
            o[self.tokens.flatten()[self.inside]] = result.reshape(-1, *o.shape[1:])[self.inside]


# ---- Triton ------------------------------------------------------------------------------------------------------------
def configurations(triton):
    """The configurations that are autotuned: columns of V a program, warps, and the loop over K with its stages or without one.
    32 columns without a loop are
    left out: with 4 warps Triton 3.6 gives wrong results there (H200), and timing it ended in an illegal memory access."""
    return [triton.Config({"BV": columns, "BK": depth}, num_warps=warps, num_stages=stages)
            for columns in (32, 64, 128) for depth, stages in ((64, 2), (64, 3), (128, 1)) for warps in (2, 4, 8) if (columns, depth) != (32, 128)]


def make_kernel(triton, configs):
    """Numbers of heads and tokens are no constants, so that each configuration is compiled once with chunk_indices and once without."""
    global tl  # where the names in a kernel are looked up
    tl = triton.language

    @triton.jit(do_not_specialize=["tokens", "H", "HV"])
    def chunk_output(q, k, v_new, h, g_cu, o, cu_seqlens, chunk_indices, scale, tokens, H, HV, VARIABLE: tl.constexpr, SIZE: tl.constexpr, D: tl.constexpr,
                     BV: tl.constexpr, BK: tl.constexpr):
        block, chunk, head = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2)
        if VARIABLE:
            sequence = tl.load(chunk_indices + 2 * chunk)
            begin = tl.load(cu_seqlens + sequence) + tl.load(chunk_indices + 2 * chunk + 1) * SIZE
            rows = tl.minimum(tl.load(cu_seqlens + sequence + 1) - begin, SIZE)
        else:
            begin = (chunk * SIZE).to(tl.int32)
            rows = tl.minimum(tokens - begin, SIZE)
        place = tl.arange(0, SIZE)
        inside = place < rows
        token = (begin + place).to(tl.int64)
        columns, depth = block * BV + tl.arange(0, BV), tl.arange(0, BK)
        q += token[:, None] * (H * D) + (head // (HV // H)) * D
        k += token[None, :] * (H * D) + (head // (HV // H)) * D
        h += (chunk * HV + head) * (D * D) + columns[None, :] * D
        scores = tl.zeros([SIZE, SIZE], dtype=tl.float32)
        before = tl.zeros([SIZE, BV], dtype=tl.float32)
        for first in range(0, D, BK):
            q_part = tl.load(q + first + depth[None, :], mask=inside[:, None], other=0.0)
            k_part = tl.load(k + first + depth[:, None], mask=inside[None, :], other=0.0)
            h_part = tl.load(h + first + depth[:, None])
            scores = tl.dot(q_part, k_part, scores)
            before = tl.dot(q_part, h_part, before)
        gates = tl.load(g_cu + token * HV + head, mask=inside, other=0.0)
        seen = (place[:, None] >= place[None, :]) & inside[:, None] & inside[None, :]
        weights = tl.where(seen, scores * tl.exp(tl.where(seen, gates[:, None] - gates[None, :], 0.0)), 0.0)
        v = tl.load(v_new + ((chunk * SIZE + place)[:, None] * HV + head) * D + columns[None, :], mask=inside[:, None], other=0.0)
        result = (before * tl.exp(gates)[:, None] + tl.dot(weights.to(v.dtype), v)) * scale
        tl.store(o + (token[:, None] * HV + head) * D + columns[None, :], result.to(o.dtype.element_ty), mask=inside[:, None])

    if not configs:
        return chunk_output
    bench = lambda call, quantiles: triton.testing.do_bench(call, warmup=5, rep=25, quantiles=quantiles)  # noqa: E731
    return triton.autotune(configs=configs, key=["tokens", "H", "HV", "VARIABLE"], do_bench=bench)(chunk_output)


class Peer:
    """The Triton kernel on one problem. chunk_indices and cu_seqlens are None where all chunks are full and follow each other."""

    def __init__(self, triton, configs=None):
        self.triton = triton
        self.kernel = make_kernel(triton, configurations(triton) if configs is None else configs)

    def __call__(self, q, k, v_new, h, g_cu, o, scale, cu_seqlens=None, chunk_indices=None, chunks=None, **fixed):
        tokens, heads = q.shape[:2]
        v_heads = v_new.shape[1]
        chunks = chunks or -(-tokens // CHUNK)
        variable = chunk_indices is not None
        grid = lambda meta: (DIM // meta["BV"], chunks, v_heads)  # noqa: E731
        self.kernel[grid](q, k, v_new, h, g_cu, o, cu_seqlens if variable else q, chunk_indices if variable else q, scale, tokens,
                          H=heads, HV=v_heads, VARIABLE=variable, SIZE=CHUNK, D=DIM, **fixed)

    def chosen(self):
        """The configuration of the last call: "BV 64, BK 128, 4 warps, 3 stages"."""
        best = getattr(self.kernel, "best_config", None)
        return f"BV {best.kwargs['BV']}, BK {best.kwargs['BK']}, {best.num_warps} warps, {best.num_stages} stages" if best else ""
