#!/usr/bin/env python3
"""The parts of products beside their collectives, each timed by itself: where the time of `gemm_reduce_scatter` and `all_gather_gemm` goes.

    NCCL_NVLS_ENABLE=0 python3 -m torch.distributed.run --nproc-per-node 2 tests/gpu/product_parts.py --product 8192x8192x8192 --timeline

Decides which parts there are and how each is timed: CUDA graphs of several calls, all ranks at once, medians, the slowest rank. Parts: launches of the
sizes that a call makes, to f16, to f32 and with an f32 addend; copies between two GPUs by engines, one way and both ways, alone and beside products;
a pass over sums; whole calls, by the number of pieces. K of `tiny` calls is 64 a rank: they have little but copies and the pass. A graph of one call has
the time that ranks begin apart; one of several has less of it. --timeline: what ran when in a replayed call, by the profiler of PyTorch. Two ranks. Fewer
GPUs than ranks, or no PyTorch: exit status 77.
"""
import argparse
import ctypes
import os
import sys

from context_fmha import captured, time_ms
from context_ranks import Ranks
from python_calls import open_package, skip

CALLS = 4  # of a part, in a graph
MB = 1 << 20


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Engines:
    """Buffers that both ranks write for each other, as the library's: CUDA IPC, copies by engines."""

    def __init__(self, ranks, size):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.own, self.other, handle = ctypes.c_uint64(), ctypes.c_uint64(), Handle()
        self._do("cuMemAlloc_v2", ctypes.byref(self.own), ctypes.c_size_t(size))
        self._do("cuIpcGetMemHandle", ctypes.byref(handle), self.own)
        handles = [None] * ranks.size
        ranks.torch.distributed.all_gather_object(handles, bytes(handle.bytes), group=ranks.host)
        theirs = Handle((ctypes.c_ubyte * 64)(*handles[1 - ranks.rank]))
        self._do("cuIpcOpenMemHandle_v2", ctypes.byref(self.other), theirs, ctypes.c_uint(1))

    def _do(self, name, *given):
        status = getattr(self.cuda, name)(*given)
        if status:
            raise RuntimeError(f"{name} failed with {status}")

    def push(self, tensor, pieces, streams):
        """The tensor's bytes to the other rank, in pieces that take the streams by turns."""
        size = tensor.numel() * tensor.element_size() // pieces
        for n in range(pieces):
            self._do("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(self.other.value + n * size), ctypes.c_uint64(tensor.data_ptr() + n * size),
                     ctypes.c_size_t(size), ctypes.c_void_p(streams[n % len(streams)].cuda_stream))


class Parts:
    def __init__(self, ranks, options, engines):
        self.ranks, self.options, self.engines, self.torch = ranks, options, engines, ranks.torch
        self.sides = [ranks.torch.cuda.Stream() for _ in range(2)]

    def beside(self, *works):
        """Each of the works in a stream of its own, the first in the current one."""
        torch, main = self.torch, self.torch.cuda.current_stream()
        for side in self.sides:
            side.wait_stream(main)
        works[0]()
        for work, side in zip(works[1:], self.sides):
            with torch.cuda.stream(side):
                work()
        for side in self.sides:
            main.wait_stream(side)

    def time(self, text, work, *, calls=CALLS, bytes_=0, flops=0, only=None):
        """A line: milliseconds of one of the graph's calls. only: the rank that works."""
        graph = captured(self.ranks, text, work if only in (None, self.ranks.rank) else None, calls)
        ms = self.ranks.most(self.ranks.agree(text, lambda: time_ms(self.torch, graph.replay if graph else (lambda: None), self.options.rounds))) / calls
        self.torch.cuda.synchronize()
        if graph:
            graph.reset()
        rate = f"{bytes_ / ms / 1e6:8.1f} GB/s" if bytes_ else f"{flops / ms / 1e9:8.1f} TFLOP/s" if flops else ""
        self.ranks.say(f"{text:72} {ms:8.4f} ms {rate}")

    def launches(self, a, b, d, count, c=None, streams=1):
        """A product in so many launches of its rows, which take one or two streams by turns."""
        rows, main = a.shape[0] // count, self.torch.cuda.current_stream()
        if streams > 1:
            self.sides[0].wait_stream(main)
        for n in range(count):
            part = slice(n * rows, (n + 1) * rows)
            more = {} if c is None else {"c": c[part], "beta": 1}
            with self.torch.cuda.stream(self.sides[0] if n % streams else main):
                self.ranks.tilejit.gemm(a[part], b, out=d[part], **more)
        if streams > 1:
            main.wait_stream(self.sides[0])


def time_copies(parts):
    torch, engines, streams = parts.torch, parts.engines, parts.sides

    def push(tensor, pieces=1, count=1):
        main = torch.cuda.current_stream()
        for each in streams[:count]:
            each.wait_stream(main)
        engines.push(tensor, pieces, streams[:count])
        for each in streams[:count]:
            main.wait_stream(each)

    for size in (8, 16, 32, 64, 128):
        tensor = torch.empty(size * MB, dtype=torch.uint8, device="cuda")
        for text, only in (("one way", 0), ("both ways", None)):
            parts.time(f"copies of {size} MB, {text}", lambda: push(tensor), bytes_=size * MB, only=only)
        if size >= 64:
            parts.time(f"copies of {size} MB, both ways, 4 pieces", lambda: push(tensor, 4), bytes_=size * MB)
            parts.time(f"copies of {size} MB, both ways, 4 pieces in 2 streams", lambda: push(tensor, 4, 2), bytes_=size * MB)


def time_scatter(parts, m, n, k):
    torch, ranks, engines = parts.torch, parts.ranks, parts.engines
    rows, depth, empty = m // 2, k // 2, torch.empty
    a, b = (ranks.normal(seed, size, depth, dtype=torch.float16) for seed, size in ((1, m), (2, n)))
    half, short, sums, more = a[:rows], empty((rows, n), dtype=torch.float16, device="cuda"), *(torch.zeros((rows, n), device="cuda") for _ in range(2))
    flops, moved = 2 * rows * n * depth, 4 * rows * n
    text = f"product {rows}x{n}x{depth} to"
    parts.time(f"{text} f16", lambda: parts.launches(half, b, short, 1), flops=flops)
    for count, streams in ((1, 1), (2, 1), (2, 2), (4, 1), (4, 2)):
        parts.time(f"{text} f32, {count} launches in {streams} streams", lambda: parts.launches(half, b, sums, count, streams=streams), flops=flops)
    for count in (1, 2, 4):
        parts.time(f"{text} f32 with an f32 addend, {count} launches", lambda: parts.launches(half, b, sums, count, more), flops=flops)
    parts.time(f"{text} f32, added in place, 1 launch", lambda: parts.launches(half, b, sums, 1, sums), flops=flops)
    copies = ("copies of the same bytes", lambda: engines.push(more, 4, [torch.cuda.current_stream()]))
    for name, work in (("f32", lambda: parts.launches(half, b, sums, 1)), ("f32 with an f32 addend", lambda: parts.launches(half, b, sums, 1, more))):
        parts.time(f"{text} {name}, {copies[0]} beside", lambda: parts.beside(work, copies[1]), flops=flops)
    parts.time("a pass by PyTorch, f32 to f16", lambda: short.copy_(sums), bytes_=6 * rows * n)
    del short, sums, more
    for pieces in ("auto", "1", "2", "4"):
        with ranks.variables(TJ_DIST_PIECES=pieces):
            group = ranks.agree("a group", lambda: ranks.made("auto"))
        for name, kind in (("f16", torch.float16), ("f32", torch.float32)):
            d = empty((rows, n), dtype=kind, device="cuda")
            for what, cut in (("", depth), (" tiny", min(depth, 64))):
                own = a[:, :cut].contiguous(), b[:, :cut].contiguous()
                call = (lambda: group.gemm_reduce_scatter(*own, out=d))
                for calls in (CALLS, 1) if pieces == "auto" else (CALLS,):
                    line = f"gemm_reduce_scatter{what} to {name}, pieces {pieces}, graphs of {calls}"
                    parts.time(line, call, calls=calls, flops=0 if what else 2 * flops)
                if parts.options.timeline and not what and pieces == "auto":
                    timeline(parts, f"gemm_reduce_scatter to {name}", call)
    ranks.say(f"sums travel as {moved / MB:.0f} MB each way, by {group.description()}")


def time_gather(parts, m, n, k):
    torch, ranks, engines = parts.torch, parts.ranks, parts.engines
    rows, columns = m // 2, n // 2
    a, b = (ranks.normal(seed, size, k, dtype=torch.float16) for seed, size in ((1, m), (2, columns)))
    d, own = torch.empty((m, columns), dtype=torch.float16, device="cuda"), a[:rows].contiguous()
    flops = 2 * rows * columns * k
    parts.time(f"product {m}x{columns}x{k} to f16", lambda: parts.launches(a, b, d, 1), flops=2 * flops)
    for count, streams in ((1, 1), (2, 1), (2, 2), (4, 1)):
        parts.time(f"product {rows}x{columns}x{k} to f16, {count} launches in {streams} streams",
                   lambda: parts.launches(own, b, d[:rows], count, streams=streams), flops=flops)
    work = (lambda: parts.launches(own, b, d[:rows], 1))
    parts.time(f"product {rows}x{columns}x{k} to f16, copies of {2 * rows * k / MB:.0f} MB beside",
               lambda: parts.beside(work, lambda: engines.push(own, 4, [torch.cuda.current_stream()])), flops=flops)
    for pieces in ("auto", "1", "4"):
        with ranks.variables(TJ_DIST_PIECES=pieces):
            group = ranks.agree("a group", lambda: ranks.made("auto"))
        call = (lambda: group.all_gather_gemm(own, b, out=d))
        for calls in (CALLS, 1) if pieces == "auto" else (CALLS,):
            parts.time(f"all_gather_gemm to f16, pieces {pieces}, graphs of {calls}", call, calls=calls, flops=2 * flops)
        if parts.options.timeline and pieces == "auto":
            timeline(parts, "all_gather_gemm", call)


def timeline(parts, text, work):
    """Kernels and copies of a replayed call on rank 0, in microseconds from the first on. A profiler that is not there is told."""
    torch = parts.torch
    graph = captured(parts.ranks, text, work)
    graph.replay()
    torch.cuda.synchronize()
    torch.distributed.barrier()
    torch.cuda.synchronize()
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            graph.replay()
            torch.cuda.synchronize()
        found = sorted((each.time_range.start, each.time_range.end, str(getattr(each, "device_resource_id", "?")), each.name)
                       for each in profile.events() if str(each.device_type).endswith("CUDA"))
    except Exception as error:  # whatever the profiler says; the other rank goes on
        found = []
        print(f"rank {parts.ranks.rank}: {text}: no timeline: {error}", flush=True)
    torch.distributed.barrier()
    torch.cuda.synchronize()
    graph.reset()
    parts.ranks.say(f"timeline of {text} on rank 0: begin, end, us; stream; what")
    for begin, end, stream, name in found:
        parts.ranks.say(f"  {begin - found[0][0]:9.1f} {end - found[0][0]:9.1f} {stream:>4} {name[:100]}")


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtilejit.so; the newest below build/ without it")
    parser.add_argument("--product", default="8192x8192x8192", help="M, N and K of all ranks together, multiples of 16")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=("copies", "scatter", "gather"), help="these parts alone")
    parser.add_argument("--timeline", action="store_true")
    return parser.parse_args()


def main():
    options = options_of()
    try:
        import torch
    except ImportError as error:
        skip(f"{error}; PyTorch is needed")
    if os.environ.get("WORLD_SIZE") != "2" or torch.cuda.device_count() < 2:
        skip("two GPUs are needed, and torch.distributed.run --nproc-per-node 2, which starts the ranks")
    m, n, k = map(int, options.product.split("x"))
    if m % 16 or n % 16 or k % 16:
        sys.exit(f"product_parts: --product is {options.product}; allowed: multiples of 16")
    tilejit = open_package(options.library)
    from tilejit import dist
    ranks = Ranks(torch, tilejit, dist, "auto")
    parts = Parts(ranks, options, ranks.agree("buffers", lambda: Engines(ranks, max(128 * MB, 4 * m // 2 * n, m * k))))
    for name, work in (("copies", time_copies), ("scatter", lambda of: time_scatter(of, m, n, k)), ("gather", lambda of: time_gather(of, m, n, k))):
        if options.only in (None, name):
            work(parts)
    ranks.group.check()
    torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
