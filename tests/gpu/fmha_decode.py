"""Times of attention of few queries on a GPU beside a plain read of the same keys and values. fmha_features.py runs it.

Keys and values rotate through copies that L2 does not hold together. Calls run from CUDA graphs, one call for each copy. Decides problems and prints;
asserts nothing about times.
"""
import torch

import tilejit.torch  # noqa: F401 -- the operators
from rotating import per_call

GPU, L2_BYTES, MOST_BYTES = "cuda", 60e6, 40e9
# Sequences and keys: one wave of blocks and more, short and long.
TABLE = [(batch, keys) for batch in (1, 4, 16, 64) for keys in (1024, 8192, 32768, 131072)]
OTHERS = ((1, 8192), (1, 65536), (8, 4096), (32, 4096), (64, 2048), (128, 1024), (4, 32768))


def _one(batch, rows, keys, heads, kv_heads, dim, page, draw):
    """(attention, read) in us."""
    fmha, bytes_ = torch.ops.tilejit.fmha, 4.0 * batch * keys * kv_heads * dim
    copies = max(2, min(64, int(8 * L2_BYTES // bytes_) + 1))
    if copies * bytes_ > MOST_BYTES:
        copies = 1
    caches = [[torch.randn(batch * keys, kv_heads, dim, device=GPU, dtype=torch.bfloat16) for _ in range(2)] for _ in range(copies)]
    q = torch.randn(batch * rows, heads, dim, device=GPU, dtype=torch.bfloat16)
    ends = torch.arange(batch + 1, device=GPU, dtype=torch.int32) * rows
    if page:
        pages = batch * keys // page
        options = {"block_table": torch.tensor(draw.sample(range(pages), pages), dtype=torch.int32, device=GPU).view(batch, -1),
                   "seqused_k": torch.full((batch,), keys, dtype=torch.int32, device=GPU)}
        views = [[x.view(-1, page, kv_heads, dim) for x in pair] for pair in caches]
        calls = [lambda k=k, v=v: fmha(q, k, v, causal=True, cu_seqlens_q=ends, **options) for k, v in views]
    else:
        dense = q.view(batch, rows, heads, dim).transpose(1, 2)
        views = [[x.view(batch, keys, kv_heads, dim).transpose(1, 2) for x in pair] for pair in caches]
        calls = [lambda k=k, v=v: fmha(dense, k, v, causal=True) for k, v in views]
    reads = [lambda k=k, v=v: (k.view(torch.float32).sum(), v.view(torch.float32).sum()) for k, v in caches]
    return per_call(calls), per_call(reads), bytes_


def time_decode(draw):
    for heads, kv_heads in ((32, 8), (64, 8), (32, 32)):
        for rows in (1, 4):
            table = (heads, kv_heads, rows) == (32, 8, 1)
            for batch, keys in TABLE if table else OTHERS:
                for page in (0, 64) if table else (0, 16):
                    ours, read, bytes_ = _one(batch, rows, keys, heads, kv_heads, 128, page, draw)
                    print(f"B {batch} Sq {rows} Sk {keys} H {heads}/{kv_heads} page {page}: {ours:.1f} us, {bytes_ / ours * 1e-6:.2f} TB/s; a read "
                          f"{read:.1f} us, {read / ours:.2f}", flush=True)
