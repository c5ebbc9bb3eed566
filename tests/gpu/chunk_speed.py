"""Chunk output beside a copy that moves as many bytes, a Triton kernel and plain PyTorch: what the candidates of a problem are, and its check.

The floor is memory, so what is in the cache would decide: every candidate, the copy too, goes round copies of the problem that are together
several times as large as L2, and finds its inputs cold. speed.py times them.
"""
import itertools
import math

import chunk_check
import chunk_peer
import chunk_reference
import gemm_speed
import timing
from chunk_reference import CHUNK, DIM
from fmha_check import Guarded, double

COLD_BYTES = 512 << 20                 # before anything is read again; L2 of an H200 has 60 MB
GRAPH_BYTES = 4e9                      # moved by the calls of one graph: a millisecond, beside which its start does not count
PEERS = ["copy", "triton", "torch"]
CHECKED = 256                          # chunks whose output is checked against f64, spread over all


def bytes_of(heads, lengths):
    """Read and written, each element once: q, k, v_new, g_cu and o of every token, h of every chunk."""
    tokens, chunks = sum(lengths), sum(-(-length // CHUNK) for length in lengths)
    return tokens * (2 * 2 * heads[0] * DIM + 2 * 2 * heads[1] * DIM + 4 * heads[1]) + chunks * 2 * heads[1] * DIM * DIM


def sets_of(size):
    """Copies of a problem that calls go round."""
    return max(1, math.ceil(COLD_BYTES / size))


def calls_of(size):
    """Calls in one graph: each copy of the problem as often as the others."""
    sets = sets_of(size)
    return sets * max(1, math.ceil(GRAPH_BYTES / (sets * size)))


# ---- on the GPU --------------------------------------------------------------------------------------------------------
class Inputs:
    """One copy of a problem: dense tensors, each form of the call on it."""

    def __init__(self, torch, binding, device, problem, generator):
        (heads, v_heads), lengths = problem["heads"], problem["lengths"]
        chunks, tokens = chunk_check.chunks_of(lengths), sum(lengths)
        normal = lambda *shape: torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)  # noqa: E731
        self.torch, self.chunks, self.scale, self.variable = torch, len(chunks), DIM ** -0.5, problem["form"] != "equal"
        self.q, self.k = (torch.nn.functional.normalize(normal(tokens, heads, DIM).float(), dim=-1).to(torch.bfloat16) for _ in range(2))
        self.v_new, self.h = normal(self.chunks * CHUNK, v_heads, DIM), normal(self.chunks, v_heads, DIM, DIM)
        gates = -0.1 * torch.rand((self.chunks, CHUNK, v_heads), generator=generator, device="cuda")
        rows = torch.tensor([c * CHUNK + i for c, chunk in enumerate(chunks) for i in range(chunk[3])], device="cuda")
        self.g_cu = torch.cumsum(gates, 1).reshape(-1, v_heads)[rows].contiguous()
        self.o = Guarded(torch, torch.bfloat16, [tokens, v_heads, DIM], [v_heads * DIM, DIM, 1], tokens * v_heads * DIM)
        self.triton_o, self.torch_o = (torch.full((tokens, v_heads, DIM), math.nan, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        half = (bytes_of(problem["heads"], lengths) // 2 + 255) // 256 * 256  # a copy of odd sizes may take half as long again
        self.source, self.target = (torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2))
        self.source.copy_(torch.randint(0, 256, (half,), generator=generator, device="cuda", dtype=torch.uint8))
        self.seq_length = lengths[0]
        bound = lambda t, code: binding.tensor(t.data_ptr(), device, code, list(t.shape))  # noqa: E731
        self.bound = [bound(t, binding.BF16) for t in (self.q, self.k, self.v_new, self.h, self.o.view)]
        self.more = {"g_cu": bound(self.g_cu, binding.F32)}
        if self.variable:
            ends = list(itertools.accumulate(lengths, initial=0))
            self.ends = torch.tensor(ends, dtype=torch.int32, device="cuda")
            self.indices, self.total = torch.full((self.chunks, 2), -1, dtype=torch.int32, device="cuda"), torch.full((1,), -1, dtype=torch.int32, device="cuda")
            self.lists = [bound(t, binding.I32) for t in (self.ends, self.indices, self.total)]
            self.more.update(zip(("cu_seqlens", "chunk_indices", "total_chunks"), self.lists))
        else:
            self.more["seq_length"] = self.seq_length

    def stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def list_chunks(self, runtime):
        runtime.chunk_indices(*self.lists, stream=self.stream())

    def tilejit(self, runtime):
        runtime.chunk_o(*self.bound, scale=self.scale, stream=self.stream(), **self.more)

    def triton(self, peer):
        lists = {"cu_seqlens": self.ends, "chunk_indices": self.indices} if self.variable else {}
        peer(self.q, self.k, self.v_new, self.h, self.g_cu, self.triton_o, self.scale, chunks=self.chunks, **lists)

    def plain(self, plain):
        plain(self.q, self.k, self.v_new, self.h, self.g_cu, self.torch_o, self.scale)

    def copy(self):
        self.target.copy_(self.source)

    def poison(self):
        self.o.buffer.fill_(self.o.poison)


def in_turn(functions):
    """One of them a call, round and round."""
    turns = itertools.cycle(functions)
    return lambda: next(turns)()


def difference(ours, theirs):
    return float((ours.float() - theirs.float()).norm() / theirs.float().norm())


class Work:
    """One problem on the GPU; see gemm_speed.Work. Bytes take the place of operations."""

    def __init__(self, torch, runtime, binding, device, problem, options):
        self.torch, self.runtime, self.binding, self.device, self.problem = torch, runtime, binding, device, problem
        generator = torch.Generator(device="cuda").manual_seed(options.seed % (1 << 31) + problem["number"])
        self.bytes = bytes_of(problem["heads"], problem["lengths"])
        self.calls = calls_of(self.bytes)
        self.inputs = [Inputs(torch, binding, device, problem, generator) for _ in range(sets_of(self.bytes))]
        plain = chunk_peer.Plain(torch, problem["lengths"])
        self.triton_peer = options.triton_peer
        forms = {"list": lambda one: one.list_chunks(runtime), "tilejit": lambda one: one.tilejit(runtime), "copy": lambda one: one.copy(),
                 "triton": lambda one: one.triton(options.triton_peer), "torch": lambda one: one.plain(plain)}
        self.candidates, self.refused = {}, {}
        if problem["form"] == "equal":
            del forms["list"]
        if options.triton_peer is None:
            del forms["triton"]
            self.refused["triton"] = options.no_triton
        for name, call in forms.items():
            try:
                for one in self.inputs:
                    call(one)
                torch.cuda.synchronize()
                self.candidates[name] = in_turn([lambda call=call, one=one: call(one) for one in self.inputs])
            except (binding.TilejitError, RuntimeError) as error:
                self.refused[name] = timing.first_line(error)
        self.peers = PEERS  # the list of chunks is timed beside them: it is no part of the output's time

    def describe(self):
        code, (heads, v_heads) = self.binding.BF16, self.problem["heads"]
        report = self.runtime.prepare(self.device, op=b"chunk_o", dtype=code, v_heads_per_head=v_heads // heads, equal_lengths=self.problem["form"] == "equal")
        chosen = {"triton_kernel": self.triton_peer.chosen()} if "triton" in self.candidates else {}
        return {"kernel": report.name.decode(), "bytes": self.bytes, "copies": len(self.inputs), **chosen}

    # ---- the check -----------------------------------------------------------------------------------------------------
    def check(self):
        """Runs once into poisoned memory; figures of chunks spread over the problem against f64, and of the whole against the peers."""
        torch, one, metric = self.torch, self.inputs[0], chunk_reference.Metric()
        one.poison()
        one.tilejit(self.runtime)
        torch.cuda.synchronize()
        self.first = one.o.view.clone()
        chunks = chunk_check.chunks_of(self.problem["lengths"])
        step = -(-len(chunks) // CHECKED)
        for c in sorted({*range(0, len(chunks), step), len(chunks) - 1}):
            _, _, token, rows = chunks[c]
            part = slice(token, token + rows)
            values = [double(torch, x) for x in (one.q[part], one.k[part], one.v_new[c * CHUNK:c * CHUNK + rows], one.h[c], one.g_cu[part])]
            metric.add(double(torch, self.first[part]), *chunk_reference.chunk_parts(torch, *values, one.scale))
        unwritten, outside = one.o.unwritten(), one.o.written_outside()
        far = {name: difference(self.first, result) for name, result in (("triton", one.triton_o), ("torch", one.torch_o)) if name in self.candidates}
        near = all(value <= 2 * chunk_check.LIMIT for value in far.values())  # each is as near to f64 as chunk_check.py wants
        return {"error": metric.error, "row_error": metric.row_error, "limit": chunk_check.LIMIT, "unwritten": unwritten, "written_outside": outside,
                "whole": step == 1, "difference": far,
                "ok": metric.error <= chunk_check.LIMIT and metric.row_error <= chunk_check.ROW_LIMIT and unwritten == 0 and outside == 0 and near}

    def moved(self):
        return gemm_speed.moved(self.inputs[0].o, self.first)


def find_peer(skip):
    """The Triton kernel, or None and why not."""
    if skip:
        return None, "left out"
    try:
        import triton
        return chunk_peer.Peer(triton), None
    except ImportError as error:
        return None, str(error)


def self_test():
    assert bytes_of((16, 32), [8192]) == 8192 * 41088 and bytes_of((16, 32), [4096] * 2) == 8192 * 41088 and bytes_of((1, 1), [1]) == 1028 + 32768
    for size in (33796, 8192 * 41088, 32768 * 82176):
        assert size * sets_of(size) >= COLD_BYTES and calls_of(size) % sets_of(size) == 0
    seen = []
    turn = in_turn([lambda: seen.append(1), lambda: seen.append(2)])
    turn(), turn(), turn()
    assert seen == [1, 2, 1]
