#!/usr/bin/env python3
"""Attention over a sequence that several GPUs hold, and products beside their collectives, each beside one GPU that has all of it: random cases,
CUDA graphs, then times.

    NCCL_NVLS_ENABLE=0 python3 -m torch.distributed.run --nproc-per-node 2 tests/gpu/context_fmha.py --check 60 --times 8192,32768,131072

Decides what is compared and how. A case of attention draws split, types, heads, groups, head dims, rows, masks from the seed, the same on each rank;
one of a product draws sizes, types, rows of each rank, addends. Each rank's result is compared with that of one GPU's call; each case runs twice and
must give equal bits; results hold NaN before. A call in a CUDA graph, whose inputs change between replays, must give the bits of the plain call.
Times are medians of single calls that all ranks begin together, each rank's slowest: "share" is one GPU's time divided by P times the ranks' time;
"exposed" is the time beyond one GPU's divided by P, and "loss" the same as a part of that. Timed products are split by N with gathered rows, by K with
scattered sums. Fewer GPUs than ranks, or no PyTorch: exit status 77; a wrong result, or an error on any rank, is 1.
"""
import argparse
import copy
import itertools
import random
import sys

from context_graphs import check_graphs
from context_ranks import check_never, check_sleepy, open_ranks

LIMITS = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-4}  # relative, of two results that are both rounded


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtilejit.so; the newest below build/ without it")
    parser.add_argument("--check", type=int, default=40, help="random cases of attention, and half as many of products")
    parser.add_argument("--graphs", type=int, default=1, help="checks of CUDA graphs, each by a new group; what differs is told")
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    parser.add_argument("--times", default="", help="rows of sequences that are timed, separated by commas")
    parser.add_argument("--heads", default="32/8", help="of timed calls")
    parser.add_argument("--product", default="8192x8192x8192", help="M, N and K of timed products, of all ranks together; timed with --times")
    parser.add_argument("--max-sms", type=int, default=0, help="of timed products; 0: all")
    parser.add_argument("--exchanges", default="auto", help="that are timed: keys,heads,auto")
    parser.add_argument("--full", action="store_true", help="timed calls are not causal")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--replays", action="store_true", help="times of replayed CUDA graphs, too: without the host's time before the first launch")
    parser.add_argument("--transport", choices=("auto", "ipc", "nccl"), default="auto", help="how keys and values travel; ipc: anything else is an error")
    parser.add_argument("--ways", default="", help="transports and orders that are timed: ipc:whole,ipc:own_first,nccl:auto; --transport's without")
    parser.add_argument("--sleepy", type=int, default=0, help="calls of which a rank comes late to some, and one that a rank does not come to at all")
    return parser.parse_args()


def rows_of(split, lengths, rank):
    rows, ranks = sum(lengths), len(lengths)
    if split == "contiguous":
        return list(range(sum(lengths[:rank]), sum(lengths[:rank + 1])))
    if split == "striped":
        return list(range(rank, rows, ranks))
    piece = rows // (2 * ranks)
    return [row for n in (rank, 2 * ranks - 1 - rank) for row in range(n * piece, (n + 1) * piece)]


def distance(found, wanted):
    """The norm of the difference, as a part of that of what is wanted."""
    found, wanted = found.double(), wanted.double()
    return float((found - wanted).norm() / wanted.norm().clamp_min(1e-30)) if found.numel() else 0.0


def draw_lengths(draw, ranks, most):
    """Rows of each rank, of some ranks none."""
    lengths = [draw.choice((0, draw.randint(1, most), most)) for _ in range(ranks.size)]
    return lengths if sum(lengths) else [most, *lengths[1:]]


def draw_masks(draw, ranks, seed, split, causal, heads, exchange):
    """(options of both calls, window on the left or None)"""
    masks, any_mask = {"softcap": 30.0} if draw.random() < 0.2 else {}, exchange == "heads"
    whole = split != "striped" or any_mask  # keys in stripes take no mask that counts rows, and no sinks
    window = draw.choice((0, 5, 300)) if (causal or any_mask) and whole and draw.random() < 0.4 else None
    if whole and (causal or any_mask) and draw.random() < 0.25:
        masks["alibi_slopes"] = ranks.normal(seed + 5, heads, dtype=ranks.torch.float32).abs() / 16
    if whole and draw.random() < 0.25:
        masks["sinks"] = ranks.normal(seed + 6, heads, dtype=ranks.torch.float32)
    return masks, window


def check_attention(ranks, seed):
    """(what it was, its error as a part of the limit)"""
    torch, draw = ranks.torch, random.Random(seed)
    split, causal, by_head = draw.choice(("contiguous", "zigzag", "striped")), draw.random() < 0.7, draw.random() < 0.3
    dtype, head_dim = draw.choice(("float16", "bfloat16")), draw.choice((64, 128, 128, 96, 256))
    value_dim = draw.choice((64, 128, 96, 192, 256)) if draw.random() < 0.3 else head_dim
    kv_heads, batch = draw.choice((1, 2, 4)), draw.choice((1, 1, 2))
    heads = kv_heads * draw.choice((1, 2, 4))
    suffice = heads % ranks.size == 0 and (kv_heads % ranks.size == 0 or ranks.size % kv_heads == 0)
    exchange = draw.choice(("auto", "keys", "heads", "heads")) if suffice else "auto"
    most = draw.choice((1, 63, 128, 700, 2048))
    lengths = draw_lengths(draw, ranks, most) if split == "contiguous" else [2 * draw.randint(1, most)] * ranks.size
    masks, window = draw_masks(draw, ranks, seed, split, causal, heads, exchange)
    text = (f"{split} {lengths} B {batch} H {heads}/{kv_heads} D {head_dim} Dv {value_dim} {dtype} {'causal' if causal else 'full'} window {window} "
            f"{' '.join(masks) or 'no masks'} {'BHSD' if by_head else 'BSHD'} {exchange}")
    kind = getattr(torch, dtype)
    shapes = (heads, head_dim), (kv_heads, head_dim), (kv_heads, value_dim)
    q, k, v = (ranks.normal(seed + n, batch, sum(lengths), *shape, dtype=kind) for n, shape in enumerate(shapes))
    options = {"causal": causal, "return_lse": True, **masks}
    wanted, lse = ranks.agree(text, lambda: ranks.tilejit.fmha(q, k, v, layout="bshd", window=(-1 if window is None else window, -1), **options))
    rows = torch.tensor(rows_of(split, lengths, ranks.rank), device=ranks.device, dtype=torch.int64)
    parts = [ranks.part(each, rows, by_head) for each in (q, k, v)]
    results = []
    for _ in range(2):
        out = ranks.nan((*parts[0].shape[:3], value_dim), kind), ranks.nan((batch, heads, len(rows)), torch.float32)
        results.append(ranks.call(text, "fmha", parts, split=split, lengths=lengths, window_left=window, layout="bhsd" if by_head else "bshd", out=out,
                                  exchange=exchange, **options))
    o, own_lse = results[0]
    same = torch.equal(o, results[1][0]) and torch.equal(own_lse, results[1][1])
    error = distance(o.transpose(1, 2) if by_head else o, wanted[:, rows])
    lse_error = float((own_lse - lse[:, :, rows]).abs().max()) if own_lse.numel() else 0.0
    return text, worst_of(same, error / LIMITS[dtype], lse_error / 2e-3)


def worst_of(same, *parts):
    """The largest; infinity where bits differ or one is NaN."""
    return max(parts) if same and all(part == part for part in parts) else float("inf")


def check_product(ranks, seed):
    """(what it was, its error as a part of the limit)"""
    torch, draw = ranks.torch, random.Random(seed)
    name, dtype = draw.choice(("all_gather_gemm", "gemm_reduce_scatter")), draw.choice(("float16", "bfloat16"))
    gathers, most = name == "all_gather_gemm", draw.choice((1, 63, 128, 700, 2048))
    lengths = draw_lengths(draw, ranks, most)
    if draw.random() < 0.3:
        lengths = [most] * ranks.size
    told = None if len(set(lengths)) == 1 and draw.random() < 0.7 else lengths  # None: all as this one's
    n, result = draw.choice((8 * draw.randint(1, 200), draw.randint(1, 1600))), draw.choice((dtype, dtype, "float32"))
    depths = [draw.choice((64, 8 * draw.randint(1, 100), draw.randint(1, 800))) for _ in range(ranks.size)]
    depth = depths[0] if gathers else sum(depths)
    options = {"activation": "relu"} if draw.random() < 0.4 else {}
    kind, result_kind = getattr(torch, dtype), getattr(torch, result)
    if draw.random() < 0.5:
        options["bias"] = ranks.normal(seed + 3, n, dtype=result_kind)
    text = (f"{name} {lengths}{'' if told else ', not told,'} N {n} K {depth if gathers else depths} {dtype} to {result} "
            f"{' '.join(options) or 'plain'}")
    # b of gathered rows is each rank's own, as parts of the columns are.
    a = ranks.normal(seed, sum(lengths), depth, dtype=kind)
    b = ranks.normal(seed + 1 + (4 + ranks.rank if gathers else 0), n, depth, dtype=kind)
    own = slice(sum(lengths[:ranks.rank]), sum(lengths[:ranks.rank + 1]))
    part = slice(sum(depths[:ranks.rank]), sum(depths[:ranks.rank + 1]))
    tensors = (a[own].contiguous(), b) if gathers else (a[:, part].contiguous(), b[:, part].contiguous())
    wanted = ranks.agree(text, lambda: ranks.tilejit.gemm(a, b, out=ranks.nan((sum(lengths), n), result_kind), **options))
    wanted = wanted if gathers else wanted[own]
    results = [ranks.call(text, name, tensors, lengths=told, out=ranks.nan(tuple(wanted.shape), result_kind), **options) for _ in range(2)]
    return text, worst_of(torch.equal(*results), distance(results[0], wanted) / LIMITS[result])


def time_ms(torch, work, rounds):
    times = []
    for _ in range(rounds + 3):
        torch.distributed.barrier()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times[3:])[rounds // 2]


def captured(ranks, text, work, calls=1):
    """A CUDA graph of so many calls of `work`, which is called once before; None on a rank without work."""
    torch, graph = ranks.torch, None if work is None else ranks.torch.cuda.CUDAGraph()

    def capture():
        if work is None:
            return
        work()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(calls):
                work()

    ranks.agree(text, capture)
    return graph


def time_call(ranks, text, options, name, tensors, **more):
    """Milliseconds of the slowest rank, for a call of the group."""
    ranks.call(text, name, tensors, **more)
    return ranks.most(ranks.agree(text, lambda: time_ms(ranks.torch, lambda: getattr(ranks.group, name)(*tensors, **more), options.rounds)))


def time_alone(ranks, text, options, work):
    return ranks.most(ranks.agree(text, lambda: time_ms(ranks.torch, work, options.rounds)))


def say_replays(ranks, text, options, work, part):
    """A line with the time of a replayed graph of `work`, whose part of one GPU's time is `part` ms."""
    if not options.replays:
        return
    torch, graph = ranks.torch, captured(ranks, text, work)
    together = ranks.most(ranks.agree(text, lambda: time_ms(torch, graph.replay, options.rounds)))
    torch.cuda.synchronize()
    graph.reset()
    ranks.say(f"{text}, replayed: together {together:.3f} ms, share {part / together:.3f}, exposed {together - part:.3f} ms")


def time_products(ranks, options):
    m, n, k = map(int, options.product.split("x"))
    text, torch = f"M {m} N {n} K {k}", ranks.torch
    if m % ranks.size or n % ranks.size or k % ranks.size:
        return ranks.say(f"--product is {options.product}: not timed; allowed: multiples of {ranks.size}, the ranks")
    a, b = (ranks.normal(seed, rows, k, dtype=torch.float16) for seed, rows in ((1, m), (2, n)))
    alone = time_alone(ranks, text, options, lambda: ranks.tilejit.gemm(a, b))
    rows, columns, depth = (slice(ranks.rank * size // ranks.size, (ranks.rank + 1) * size // ranks.size) for size in (m, n, k))
    for name, tensors in (("all_gather_gemm", (a[rows], b[columns])), ("gemm_reduce_scatter", (a[:, depth].contiguous(), b[:, depth].contiguous()))):
        together = time_call(ranks, f"{name} {text}", options, name, tensors, max_sms=options.max_sms)
        part = alone / ranks.size
        ranks.say(f"{name} {text} f16 on {ranks.size}, max_sms {options.max_sms}: one {alone:.3f} ms, together {together:.3f} ms, "
                  f"share {part / together:.3f}, exposed {together - part:.3f} ms, loss {100 * (together / part - 1):.1f}%")
        call = getattr(ranks.group, name)
        say_replays(ranks, f"{name} {text}", options, lambda: call(*tensors, max_sms=options.max_sms), part)


def time_rows(ranks, rows, options):
    """A line for each split and way; a call of one GPU is timed once."""
    torch, (heads, kv_heads) = ranks.torch, map(int, options.heads.split("/"))
    q, k, v = (ranks.normal(n, 1, rows, h, 128, dtype=torch.float16) for n, h in enumerate((heads, kv_heads, kv_heads)))
    causal = not options.full
    alone = time_alone(ranks, f"S {rows}", options, lambda: ranks.tilejit.fmha(q, k, v, causal=causal, layout="bshd"))
    for exchange, split, (way, group) in itertools.product(options.exchanges.split(","), ("zigzag", "contiguous", "striped"), options.groups.items()):
        ranks = copy.copy(ranks)
        ranks.group = group
        own = torch.tensor(rows_of(split, [rows // ranks.size] * ranks.size, ranks.rank), device=ranks.device)
        parts = [ranks.part(each, own, False) for each in (q, k, v)]
        how = {"causal": causal, "split": split, "layout": "bshd", "exchange": exchange}
        together = time_call(ranks, f"S {rows} {split}", options, "fmha", parts, **how)
        ranks.say(f"S {rows} {heads}/{kv_heads} {'causal' if causal else 'full'} {split} {exchange} {way} on {ranks.size}: one {alone:.3f} ms, "
                  f"together {together:.3f} ms, share {alone / ranks.size / together:.3f}, exposed {together - alone / ranks.size:.3f} ms")
        say_replays(ranks, f"S {rows} {split} {exchange} {way}", options, lambda: group.fmha(*parts, **how), alone / ranks.size)


def check_all(ranks, kind, check, count, seed):
    """The number of wrong cases."""
    wrong, worst = 0, 0.0
    for n in range(count):
        text, part = check(ranks, seed + 10 * n)
        part = ranks.most(part)
        worst = max(worst, part)
        if part > 1:
            wrong += 1
            ranks.say(f"WRONG ({part:.2f} of the limit): {text}")
    ranks.say(f"{kind}: {count} cases, {wrong} wrong, worst {worst:.2f} of the limit{f'; {text}' if count == 1 else ''}")
    return wrong


def main():
    options = options_of()
    ranks, seed = open_ranks(options)
    wrong = 0
    for kind, check, count in (("attention", check_attention, options.check), ("products", check_product, (options.check + 1) // 2),
                               ("CUDA graphs", check_graphs, options.graphs)):
        wrong += check_all(ranks, kind, check, count, seed)
    if options.sleepy:
        wrong += check_all(ranks, "sleepy ranks", check_sleepy, 1, options.sleepy)
        wrong += check_all(ranks, "lost ranks", check_never, 1, 0)
    ranks.say(f"keys and values travel by {ranks.group.description()}")
    if options.transport == "ipc" and ranks.group.description().startswith("messages"):
        wrong += 1
    options.groups = {f"by {options.transport}": ranks.group}
    if options.ways:
        options.groups = {way: ranks.made(*reversed(way.split(":"))) for way in options.ways.split(",")}
    if options.times:
        for rows in options.times.split(","):
            time_rows(ranks, int(rows), options)
        time_products(ranks, options)
    ranks.group.check()
    ranks.torch.distributed.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
