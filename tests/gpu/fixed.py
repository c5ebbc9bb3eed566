"""The fixed lists of sizes, for comparing one version with another: the form of a problem is drawing.py's.

Decides the lists and how sizes on a command line are read; nothing about how a problem is run.
"""
import random

SHAPES = [(s, s, s) for s in (512, 1024, 2048, 4096, 8192, 16384)] + [
    (4096, 4096, 16384), (4096, 7168, 2048), (64, 7168, 2048), (128, 24576, 1536), (16, 4096, 4096), (1, 8192, 8192),
    (1000, 1000, 1000), (4095, 4097, 4099)]
# M, N, K of block-scaled products of e4m3, and microseconds of DeepGEMM 2.6.1 and of cuBLASLt from graphs. They are of one run on an H200
# (PyTorch 2.11, CUDA 13.0, 2026-11-22).
DEEP_GEMM = [(64, 4096, 7168, 10.0, 21.7), (128, 4096, 7168, 11.1, 21.9), (64, 7168, 2048, 5.3, 8.7), (128, 24576, 1536, 10.5, 13.9),
             (4096, 2112, 7168, 93.9, 111), (4096, 24576, 1536, 238, 277), (4096, 32768, 512, 128.5, 179), (4096, 7168, 16384, 663, 803),
             (4096, 4096, 7168, 169, 216), (4096, 7168, 2048, 92.0, 119), (4096, 4096, 4096, 100, 111), (8192, 8192, 8192, 766, 883)]
HEADS = [(16, 32), (16, 48), (16, 64), (8, 32), (4, 16)]
TOKENS = [8192, 32768]
SEQUENCES = 4                          # that cu_seqlens cuts these tokens into
RAGGED_SEQUENCES, RAGGED_MOST = 257, 129
CHUNK = 64


def parse_numbers(text):
    numbers = [int(word) if word.isdigit() else 0 for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError(f"'{text}' is no list; allowed: whole numbers from 1 on, separated by commas")
    return numbers


def parse_sizes(text):
    """"4096,512x1024x64" -> [(4096, 4096, 4096), (512, 1024, 64)]; "drawn", "fixed" and "peers" stay as they are."""
    if text in ("drawn", "fixed", "peers"):
        return text
    shapes = []
    for word in text.split(","):
        sizes = [int(size) if size.isdigit() else 0 for size in word.split("x")]
        if len(sizes) not in (1, 3) or min(sizes) < 1:
            raise ValueError(f"'{word}' is no size; allowed: drawn, fixed, peers, or a list of S and MxNxK separated by commas")
        shapes.append(tuple(sizes * 3 if len(sizes) == 1 else sizes))
    return shapes


def parse_heads(text):
    """"16/32,4/16" -> [(16, 32), (4, 16)]."""
    pairs = []
    for word in text.split(","):
        heads, _, v_heads = word.partition("/")
        if not heads.isdigit() or not v_heads.isdigit() or int(heads) < 1 or int(v_heads) < 1 or int(v_heads) % int(heads) != 0:
            raise ValueError(f"'{word}' is no pair of heads; allowed: H/Hv with Hv a multiple of H, such as 16/32")
        pairs.append((int(heads), int(v_heads)))
    return pairs


def numbered(op, problems):
    return [{"number": number, "op": op, "source": "fixed list", "odd": False, **problem} for number, problem in enumerate(problems)]


def gemm(types, shapes=None):
    """Rows of e4m3 are multiples of 16 bytes on both sides; torch._scaled_mm asks that of N too. Other shapes are left out of the list."""
    return numbered("gemm", [{"m": m, "n": n, "k": k, "dtype": dtype, "out": "bf16" if dtype == "e4m3" else dtype, "a_transposed": False,
                              "b_transposed": False, "epilogue": "none"}
                             for dtype in types for m, n, k in (shapes or SHAPES) if dtype != "e4m3" or (n % 16 == 0 and k % 16 == 0)])


def peers():
    """Products that DeepGEMM was measured on, each with its time over cuBLASLt's. That ratio stands in for a run of it: only ratios of one run compare."""
    rows = gemm(["e4m3"], [sizes[:3] for sizes in DEEP_GEMM])
    return [{**row, "scales": "block", "deep_gemm": ours / cublas} for row, (*_, ours, cublas) in zip(rows, DEEP_GEMM)]


def fmha(types, batches, masks, heads, kv_heads, head_dim):
    """batches: pairs of a length and its batch."""
    return numbered("fmha", [{"batch": batch, "heads": heads, "kv_heads": kv_heads or heads, "seq_q": length, "seq_k": length, "head_dim": head_dim, "dtype": dtype,
                              "causal": causal, "layout": "bhsd"} for dtype in types for causal in masks for length, batch in batches])


def chunk_o(heads, tokens):
    rows = [{"heads": list(pair), "form": form, "lengths": [size // count] * count, "dtype": "bf16"}
            for pair in heads for size in tokens for form, count in (("equal", 1), ("cu_seqlens", SEQUENCES))]
    generator = random.Random(RAGGED_SEQUENCES)
    ragged = [generator.randint(1, RAGGED_MOST) for _ in range(RAGGED_SEQUENCES)]
    return numbered("chunk_o", rows + [{"heads": list(pair), "form": "ragged", "lengths": ragged, "dtype": "bf16"} for pair in heads[:1]])
