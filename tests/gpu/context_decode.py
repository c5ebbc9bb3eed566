#!/usr/bin/env python3
"""Attention of a few queries over a cache in pages that several GPUs hold, beside one GPU that has all of it: random cases, then times.

    NCCL_NVLS_ENABLE=0 python3 -m torch.distributed.run --nproc-per-node 2 tests/gpu/context_decode.py --check 40 --times 1x131072,16x32768

Decides what is compared and how. A case draws types, heads, head dims, pages and each sequence's keys from the seed, the same on each rank; rank r has
pages r, r + P, ... of each sequence. All ranks must have equal bits, in each of two calls and in the replays of a CUDA graph, and agree with one GPU.
Times are medians of replayed graphs of 20 calls, the slowest rank's. Fewer GPUs than ranks, or no PyTorch: exit status 77; a wrong result is 1.
"""
import argparse
import random
import sys

from context_fmha import LIMITS, captured, check_all, distance, time_ms, worst_of
from context_ranks import open_ranks

CALLS = 20  # of a graph that is timed


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtilejit.so; the newest below build/ without it")
    parser.add_argument("--check", type=int, default=40, help="random cases")
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    parser.add_argument("--times", default="", help="sequences and keys of each that are timed: 1x131072,16x32768")
    parser.add_argument("--heads", default="32/8", help="of timed calls")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--transport", choices=("auto", "ipc", "nccl"), default="auto")
    return parser.parse_args()


class Cache:
    """Queries and pages that all ranks draw alike, and this rank's part of the lists."""

    def __init__(self, ranks, seed, keys, queries, heads, head_dim, page, dtype):
        torch = ranks.torch
        pages = [-(-count // page) for count in keys]
        most, every = max(1, *pages), max(1, sum(pages))
        self.q = ranks.normal(seed, sum(queries), heads[0], head_dim, dtype=dtype)
        self.k, self.v = (ranks.normal(seed + n, every, page, heads[1], head_dim, dtype=dtype) for n in (1, 2))
        order, table, first = torch.randperm(every, generator=torch.Generator().manual_seed(seed)), torch.zeros((len(keys), most), dtype=torch.int32), 0
        for sequence, count in enumerate(pages):
            table[sequence, :count], first = order[first:first + count], first + count
        own = table[:, ranks.rank::ranks.size]
        used = [sum(min(page, count - n * page) for n in range(ranks.rank, -(-count // page), ranks.size)) for count in keys]

        def listed(numbers):
            return torch.as_tensor(numbers, dtype=torch.int32).contiguous().cuda()

        begins = listed([sum(queries[:n]) for n in range(len(queries) + 1)])
        self.whole = {"cu_seqlens_q": begins, "block_table": listed(table), "seqused_k": listed(keys)}
        self.own = {"cu_seqlens_q": begins, "block_table": listed(own if own.shape[1] else table[:, :1]), "seqused_k": listed(used)}


def same_everywhere(ranks, tensor):
    """Has rank 0 the same bits?"""
    other = tensor.clone()
    ranks.torch.distributed.broadcast(other, 0)
    return ranks.torch.equal(other.view(ranks.torch.uint8), tensor.view(ranks.torch.uint8))


def check_decode(ranks, seed):
    """(what it was, its error as a part of the limit)"""
    torch, draw = ranks.torch, random.Random(seed)
    dtype, page, head_dim = draw.choice(("float16", "bfloat16")), draw.choice((16, 32, 64, 128)), draw.choice((64, 128, 128, 256))
    kv_heads, sequences = draw.choice((1, 2, 8)), draw.choice((1, 3, 17))
    heads, most = (kv_heads * draw.choice((1, 4, 8)), kv_heads), draw.choice((100, 2000, 20000))
    keys = [draw.choice((1, draw.randint(1, most), most)) for _ in range(sequences)]
    queries = [draw.choice((1, 1, 1, 4)) for _ in range(sequences)]
    text = f"decode keys {keys} queries {queries} H {heads[0]}/{heads[1]} D {head_dim} page {page} {dtype}"
    cache = Cache(ranks, seed, keys, queries, heads, head_dim, page, getattr(torch, dtype))
    options = {"return_lse": True, **({"sinks": ranks.normal(seed + 6, heads[0], dtype=torch.float32)} if draw.random() < 0.3 else {})}
    tensors = cache.q, cache.k, cache.v
    wanted, wanted_lse = ranks.agree(text, lambda: ranks.tilejit.fmha(*tensors, **cache.whole, **options))
    results = [ranks.call(text, "decode", tensors, **cache.own, **options) for _ in range(2)]
    graph = torch.cuda.CUDAGraph()

    def capture():
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            return ranks.group.decode(*tensors, **cache.own, **options)

    replayed = ranks.agree(text, capture)
    for _ in range(3):
        ranks.agree(text, graph.replay)
    torch.cuda.synchronize()
    (o, lse), same = results[0], all(torch.equal(a, b) for other in (results[1], replayed) for a, b in zip(results[0], other))
    same = same and same_everywhere(ranks, o) and same_everywhere(ranks, lse)
    graph.reset()
    return text, worst_of(same, distance(o, wanted) / LIMITS[dtype], float((lse - wanted_lse).abs().max()) / 2e-3)


def time_graph(ranks, text, work, rounds):
    """Milliseconds of one of the graph's calls."""
    torch, graph = ranks.torch, captured(ranks, text, work, CALLS)
    found = ranks.most(ranks.agree(text, lambda: time_ms(torch, graph.replay, rounds))) / CALLS
    torch.cuda.synchronize()
    graph.reset()
    return found


def time_decode(ranks, size, options):
    torch, (sequences, keys), heads = ranks.torch, map(int, size.split("x")), tuple(map(int, options.heads.split("/")))
    cache = Cache(ranks, 1, [keys] * sequences, [1] * sequences, heads, 128, 64, torch.float16)
    tensors, text = (cache.q, cache.k, cache.v), f"decode {sequences} x {keys} keys"
    ranks.call(text, "decode", tensors, **cache.own)
    own, one, together = (time_graph(ranks, text, work, options.rounds) for work in (
        lambda: ranks.tilejit.fmha(*tensors, **cache.own), lambda: ranks.tilejit.fmha(*tensors, **cache.whole),
        lambda: ranks.group.decode(*tensors, **cache.own)))
    ranks.say(f"{text} {options.heads} heads of 128 on {ranks.size}: one {1e3 * one:.1f} us, own keys alone {1e3 * own:.1f} us, together "
              f"{1e3 * together:.1f} us, exposed {1e3 * (together - own):.1f} us, {one / together:.2f} times one GPU's rate")


def main():
    options = options_of()
    ranks, seed = open_ranks(options)
    wrong = check_all(ranks, "decode", check_decode, options.check, seed)
    ranks.say(f"states travel by {ranks.group.description()}")
    for size in filter(None, options.times.split(",")):
        time_decode(ranks, size, options)
    ranks.group.check()
    ranks.torch.distributed.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
