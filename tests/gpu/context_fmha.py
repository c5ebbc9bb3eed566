#!/usr/bin/env python3
"""Attention over a sequence that several GPUs hold, beside one GPU that has all of it: random cases, then times.

    NCCL_NVLS_ENABLE=0 python3 -m torch.distributed.run --nproc-per-node 2 tests/gpu/context_fmha.py --check 60 --times 8192,32768,131072

Decides what is compared and how. A case draws split, types, heads, groups, head dim, rows, masks from the seed, the same on each rank. Each rank's rows
are compared with those of one GPU's call; each case runs twice and must give equal bits; results hold NaN before. Times are medians of single calls
that all ranks begin together, each rank's slowest: "share" is one GPU's time divided by P times the ranks' time; "exposed" is the time beyond one
GPU's divided by P. Fewer GPUs than ranks, or no PyTorch: exit status 77; a wrong result is 1.
"""
import argparse
import os
import random
import sys

from python_calls import open_package, skip

LIMITS = {"float16": 2e-3, "bfloat16": 1.6e-2}  # relative, of two results that are both rounded


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtilejit.so; the newest below build/ without it")
    parser.add_argument("--check", type=int, default=40, help="random cases")
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    parser.add_argument("--times", default="", help="rows of sequences that are timed, separated by commas")
    parser.add_argument("--heads", default="32/8", help="of timed calls")
    parser.add_argument("--full", action="store_true", help="timed calls are not causal")
    parser.add_argument("--rounds", type=int, default=20)
    return parser.parse_args()


def rows_of(split, lengths, rank):
    rows, ranks = sum(lengths), len(lengths)
    if split == "contiguous":
        return list(range(sum(lengths[:rank]), sum(lengths[:rank + 1])))
    if split == "striped":
        return list(range(rank, rows, ranks))
    piece = rows // (2 * ranks)
    return [row for n in (rank, 2 * ranks - 1 - rank) for row in range(n * piece, (n + 1) * piece)]


class Ranks:
    """What every rank of the run has."""

    def __init__(self, torch, tilejit, dist):
        self.torch, self.tilejit = torch, tilejit
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", self.rank)))
        torch.distributed.init_process_group("nccl")
        self.group = dist.Group.of_torch()

    def most(self, value):
        number = self.torch.tensor(float(value), dtype=self.torch.float64, device="cuda")
        self.torch.distributed.all_reduce(number, self.torch.distributed.ReduceOp.MAX)
        return number.item()

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def normal(self, seed, *shape, dtype):
        generator = self.torch.Generator(device="cuda").manual_seed(seed)
        return self.torch.randn(shape, generator=generator, device="cuda", dtype=self.torch.float32).to(dtype)

    def part(self, whole, rows, by_head):
        own = whole[:, rows]
        return own.transpose(1, 2).contiguous() if by_head else own.contiguous()


def check_case(ranks, seed):
    """(what it was, its error as a part of the limit)"""
    torch, draw = ranks.torch, random.Random(seed)
    split, causal, by_head = draw.choice(("contiguous", "zigzag", "striped")), draw.random() < 0.7, draw.random() < 0.3
    dtype, head_dim = draw.choice(("float16", "bfloat16")), draw.choice((64, 128, 128, 96, 256))
    kv_heads, batch = draw.choice((1, 2, 4)), draw.choice((1, 1, 2))
    heads = kv_heads * draw.choice((1, 2, 4))
    most = draw.choice((1, 63, 128, 700, 2048))
    lengths = [2 * draw.randint(1, most)] * ranks.size
    if split == "contiguous":
        lengths = [draw.choice((0, draw.randint(1, most), most)) for _ in range(ranks.size)]
    if not sum(lengths):
        lengths[0] = most
    masks = {"softcap": 30.0} if draw.random() < 0.2 else {}
    window = draw.choice((0, 5, 300)) if causal and split != "striped" and draw.random() < 0.4 else None
    text = (f"{split} {lengths} B {batch} H {heads}/{kv_heads} D {head_dim} {dtype} {'causal' if causal else 'full'} window {window} {masks} "
            f"{'BHSD' if by_head else 'BSHD'}")
    kind = getattr(torch, dtype)
    q, k, v = (ranks.normal(seed + n, batch, sum(lengths), h, head_dim, dtype=kind) for n, h in enumerate((heads, kv_heads, kv_heads)))
    options = {"causal": causal, **masks}
    wanted, lse = ranks.tilejit.fmha(q, k, v, layout="bshd", window=(-1 if window is None else window, -1), return_lse=True, **options)
    rows = torch.tensor(rows_of(split, lengths, ranks.rank), device="cuda", dtype=torch.int64)
    parts = [ranks.part(each, rows, by_head) for each in (q, k, v)]
    results = []
    for _ in range(2):
        out = torch.full_like(parts[0], float("nan")), torch.full((batch, heads, len(rows)), float("nan"), device="cuda")
        results.append(ranks.group.fmha(*parts, split=split, lengths=lengths, window_left=window, layout="bhsd" if by_head else "bshd", out=out,
                                        return_lse=True, **options))
    o, own_lse = results[0]
    same = torch.equal(o, results[1][0]) and torch.equal(own_lse, results[1][1])
    found = (o.transpose(1, 2) if by_head else o).double()
    beside = wanted[:, rows].double()
    error = float((found - beside).norm() / beside.norm().clamp_min(1e-30)) if found.numel() else 0.0
    lse_error = float((own_lse - lse[:, :, rows]).abs().max()) if own_lse.numel() else 0.0
    part = max(error / LIMITS[dtype], lse_error / 2e-3)
    return text, part if same and part == part else float("inf")


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


def time_rows(ranks, rows, options):
    torch, (heads, kv_heads) = ranks.torch, map(int, options.heads.split("/"))
    q, k, v = (ranks.normal(n, 1, rows, h, 128, dtype=torch.float16) for n, h in enumerate((heads, kv_heads, kv_heads)))
    causal = not options.full
    alone = ranks.most(time_ms(torch, lambda: ranks.tilejit.fmha(q, k, v, causal=causal, layout="bshd"), options.rounds))
    for split in ("zigzag", "contiguous", "striped"):
        own = torch.tensor(rows_of(split, [rows // ranks.size] * ranks.size, ranks.rank), device="cuda")
        parts = [ranks.part(each, own, False) for each in (q, k, v)]
        together = ranks.most(time_ms(torch, lambda: ranks.group.fmha(*parts, causal=causal, split=split, layout="bshd"), options.rounds))
        ranks.say(f"S {rows} {heads}/{kv_heads} {'causal' if causal else 'full'} {split} on {ranks.size}: one {alone:.3f} ms, "
                  f"together {together:.3f} ms, share {alone / ranks.size / together:.3f}, exposed {together - alone / ranks.size:.3f} ms")


def main():
    options = options_of()
    try:
        import torch
    except ImportError as error:
        skip(f"{error}; PyTorch is needed")
    if "RANK" not in os.environ or torch.cuda.device_count() < int(os.environ["WORLD_SIZE"]):
        skip("a GPU for each rank is needed, and torch.distributed.run, which starts the ranks")
    tilejit = open_package(options.library)
    from tilejit import dist
    ranks = Ranks(torch, tilejit, dist)
    seed = [options.seed or random.SystemRandom().randrange(1, 2**31)]
    torch.distributed.broadcast_object_list(seed, 0)
    ranks.say(f"seed {seed[0]}")
    wrong, worst = 0, 0.0
    for n in range(options.check):
        text, part = check_case(ranks, seed[0] + 10 * n)
        part = ranks.most(part)
        worst = max(worst, part)
        if part > 1:
            wrong += 1
            ranks.say(f"WRONG ({part:.2f} of the limit): {text}")
    ranks.say(f"{options.check} cases, {wrong} wrong, worst {worst:.2f} of the limit")
    for rows in filter(None, options.times.split(",")):
        time_rows(ranks, int(rows), options)
    ranks.group.check()
    torch.distributed.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
