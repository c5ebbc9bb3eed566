"""Attention over a sequence that several GPUs hold together, checked against one GPU that has all of it.

    NCCL_NVLS_ENABLE=0 torchrun --nproc-per-node 2 main.py [--seq-len N] [--heads H] [--kv-heads H] [--head-dim D] [--batch B]
                                                           [--split contiguous|zigzag|striped] [--full] [--ranks P]

Each rank has a GPU and its rows of q, k and v; PyTorch's process group brings the ranks together. Where there are no GPUs, two ranks (--ranks)
run on the CPU model in threads of one process: python main.py needs numpy alone. Prints the largest difference from one device, and on GPUs
the times of both, the share of P times one GPU's rate, and the time that is not hidden. Exits 0 when all results are right, 1 when not.
"""
import argparse
import math
import os
import sys
import threading

import tilejit
from tilejit import dist

MAX_ERROR = 2e-3  # of f16 outputs of normal values: another order of sums


def rows_of(split, rows, rank, ranks):
    """The rows of a sequence that a rank holds, as a list."""
    if split == "striped":
        return list(range(rank, rows, ranks))
    if split == "contiguous":
        return list(range(rank * rows // ranks, (rank + 1) * rows // ranks))
    piece = rows // (2 * ranks)
    return [row for number in (rank, 2 * ranks - 1 - rank) for row in range(number * piece, (number + 1) * piece)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seq-len", type=int, default=0, help="rows of the sequence (default: 16384 on GPUs, 256 on the model)")
    parser.add_argument("--heads", type=int, default=0, help="default: 32 on GPUs, 2 on the model")
    parser.add_argument("--kv-heads", type=int, default=0, help="default: a quarter of the heads, at least 1")
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--split", choices=("contiguous", "zigzag", "striped"), default="zigzag")
    parser.add_argument("--full", action="store_true", help="every row sees all keys (default: causal)")
    parser.add_argument("--ranks", type=int, default=2, help="on the model")
    return parser.parse_args()


def finish(given, seq_len, heads, ranks):
    given.seq_len, given.heads = given.seq_len or seq_len, given.heads or heads
    given.kv_heads = given.kv_heads or max(1, given.heads // 4)
    if given.seq_len % (2 * ranks):
        sys.exit(f"10_context_parallel: --seq-len is {given.seq_len}; allowed: multiples of {2 * ranks}, twice the ranks")
    return given


def on_model(given):
    import numpy
    finish(given, 256, 2, given.ranks)
    random = numpy.random.default_rng(1)
    shape = (given.batch, given.seq_len, given.heads, given.head_dim)
    q, k, v = (random.standard_normal((*shape[:2], heads, shape[3])).astype(numpy.float16) for heads in (given.heads, given.kv_heads, given.kv_heads))
    runtime = tilejit.Runtime(target=os.environ.get("TJ_TARGET") or "model:sm_90a")
    whole = tilejit.fmha(q, k, v, causal=not given.full, layout="bshd", runtime=runtime)
    worst, failed = [], []

    def run(member):
        try:
            own = rows_of(given.split, given.seq_len, member.rank, member.size)
            o = member.fmha(*(numpy.ascontiguousarray(each[:, own]) for each in (q, k, v)), causal=not given.full, split=given.split, layout="bshd")
            worst.append(counted(float(numpy.abs(o.astype(numpy.float32) - whole[:, own].astype(numpy.float32)).max())))
        except BaseException as error:  # which a thread would only print
            failed.append(f"rank {member.rank}: {error or type(error).__name__}")

    threads = [threading.Thread(target=run, args=(member,)) for member in dist.Group.on_model(given.ranks, runtime=runtime)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for text in failed:
        print(f"10_context_parallel: {text}", file=sys.stderr)
    if failed:
        return 1
    print(f"{given.ranks} ranks of {runtime.target_of('cpu')}, {given.split}, {given.seq_len} rows: largest difference from one {max(worst):.1e}")
    return report(max(worst))


def counted(difference):
    """A difference, or infinity in the place of NaN, which max() of several may lose."""
    return difference if difference <= math.inf else math.inf


def report(worst):
    good = worst <= MAX_ERROR
    print(f"check    {'ok' if good else 'WRONG'} (limit {MAX_ERROR:.1e})")
    return 0 if good else 1


def time_ms(torch, work, rounds=20):
    """The median of single calls, all ranks beginning together."""
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


def on_gpus(given, torch):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
    torch.distributed.init_process_group("nccl")
    finish(given, 16384, 32, ranks)
    torch.manual_seed(1)
    shape = (given.batch, given.seq_len, given.heads, given.head_dim)
    q, k, v = (torch.randn(*shape[:2], heads, shape[3]).to(torch.float16).cuda() for heads in (given.heads, given.kv_heads, given.kv_heads))
    own = torch.tensor(rows_of(given.split, given.seq_len, rank, ranks), device="cuda")
    parts = [each[:, own].contiguous() for each in (q, k, v)]
    group = dist.Group.of_torch()
    causal, options = not given.full, {"layout": "bshd"}

    def one():
        return tilejit.fmha(q, k, v, causal=causal, **options)

    def together():
        return group.fmha(*parts, causal=causal, split=given.split, **options)

    worst = torch.tensor(counted((together().float() - one()[:, own].float()).abs().max().item()), device="cuda")
    torch.distributed.all_reduce(worst, torch.distributed.ReduceOp.MAX)
    alone_ms, split_ms = torch.tensor(time_ms(torch, one)).cuda(), torch.tensor(time_ms(torch, together)).cuda()
    for each in (alone_ms, split_ms):
        torch.distributed.all_reduce(each, torch.distributed.ReduceOp.MAX)
    group.check()
    if rank == 0:
        share = alone_ms.item() / ranks / split_ms.item()
        print(f"{ranks} GPUs, {given.split}, {given.seq_len} rows, {given.heads}/{given.kv_heads} heads of {given.head_dim}, "
              f"{'causal' if causal else 'full'}: "
              f"one {alone_ms.item():.3f} ms, together {split_ms.item():.3f} ms, {share:.3f} of {ranks} times one GPU's rate, "
              f"{split_ms.item() - alone_ms.item() / ranks:.3f} ms not hidden; largest difference {worst.item():.1e}")
    result = report(worst.item()) if rank == 0 else int(not worst.item() <= MAX_ERROR)
    torch.distributed.destroy_process_group()
    return result


def main():
    given = arguments()
    if "RANK" in os.environ:
        try:
            import torch
        except ImportError:
            torch = None
        if torch is not None and torch.cuda.device_count() >= int(os.environ["WORLD_SIZE"]):
            return on_gpus(given, torch)
        if os.environ["RANK"] != "0":
            return 0
        given.ranks = int(os.environ["WORLD_SIZE"])
        print("no GPU for each rank: all ranks run on the CPU model, in this process")
    return on_model(given)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except tilejit.Error as error:
        sys.exit(f"10_context_parallel: {error}")
