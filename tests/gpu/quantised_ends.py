"""Products and products of groups whose end quantises, on a GPU: random problems against f64, and times in CUDA graphs.

    python3 tests/gpu/quantised_ends.py --check 200 --seed 1   # poisoned outputs, NaN in rows of no group, guard elements, the same bits twice
    python3 tests/gpu/quantised_ends.py --check 20 --cpu       # likewise, small, on the CPU model
    python3 tests/gpu/quantised_ends.py --times                # SwiGLU and quantising as an end, beside the product, and the steps one after the other
    python3 tests/gpu/quantised_ends.py --tiles                # each tile of gated e4m3, with d of bf16 and of e4m3

It needs torch, and tilejit's package: PYTHONPATH=src/python LD_LIBRARY_PATH=build/release/lib. Decides problems and prints; asserts nothing about
times. Exit status 1: a result is wrong.
"""
import argparse
import random
import subprocess
import sys

import torch

import tilejit
import tilejit.torch
from gemm_check import E4M3_F32_LIMIT, LIMITS, activate

E4M3, BLOCK = torch.float8_e4m3fn, 128
GATES = (None, "silu", "gelu", "gelu_tanh", "relu")


def spread(scales, rows, shape):
    return scales.double().repeat_interleave(rows, -2).repeat_interleave(BLOCK, -1)[..., :shape[-2], :shape[-1]]


def made_of(scales, columns):
    """Scales in f64, also of those that are four exponents in a word."""
    if scales.dtype == torch.float32:
        return scales.double()
    exponents = torch.stack([scales >> 8 * byte & 255 for byte in range(4)], -1).flatten(-2)[..., :-(-columns // BLOCK)]
    return torch.exp2(exponents.double() - 127)


def wrong_rows(d, scales, wanted, rounded, limit):
    """Why rows of d, e4m3, and their scales are not `wanted`, f64 [rows, columns]; "" when they are."""
    rows, columns = wanted.shape
    if rows == 0:
        return ""
    behind = -(-columns // BLOCK) % 4
    if scales.dtype == torch.int32 and behind and bool(((scales[:, -1].long() & 0xffffffff) >> 8 * behind).any()):
        return "exponents behind the last block's are not 0"
    found, slack = made_of(scales, columns), limit * wanted.square().mean(1, keepdim=True).sqrt()
    largest = torch.nn.functional.pad(wanted, (0, -columns % BLOCK)).unflatten(1, (-1, BLOCK)).abs().amax(2)
    low, high = ((largest - slack).clamp(min=1e-4) / 448 * (1 - 1e-6), (largest + slack).clamp(min=1e-4) / 448 * (1 + 1e-6))
    right = (found >= low) & (found < 2 * high) & (found.log2().round().exp2() == found) if rounded else (found >= low) & (found <= high)
    if not right.all():
        return f"{int((~right).sum())} scales are wrong"
    scale = spread(found, 1, wanted.shape)
    x = wanted.abs() / scale + slack / scale
    step = torch.exp2(x.clamp(min=1e-9).log2().floor().clamp(min=-6) - 3)
    off = (d.double() - wanted / scale).abs()
    bad = ~(off <= 0.505 * step + slack / scale)
    return f"{int(bad.sum())} elements are wrong" if bad.any() else ""


def drawn(draw, device, small):
    """A problem: (call, columns of d, rows of each group, wanted(group), sizes of d, a text)."""
    dtype, gate = draw.choice((torch.float16, torch.bfloat16, E4M3, E4M3)), draw.choice(GATES)
    grouping = draw.choice((None, None, "ends", "counts", "rows"))
    groups = 1 if grouping is None else draw.randint(1, 3 if small else draw.choice((4, 40)))
    most = 40 if small else draw.choice((1, 8, 200, 3000))
    counts = [max(1, int(most * draw.random() ** 2))] if grouping is None else [
        0 if draw.random() < 0.3 else max(1, int(most * draw.random() ** 3)) for _ in range(groups)]
    if not any(counts):
        counts[0] = 1
    kinds = (None, "block", "row") if dtype == E4M3 else (None,)
    kind = draw.choice(kinds)
    columns = draw.choice((128, 256) if small else (24, 128, 300, 512, 1000, 2112, 7168))
    if gate is not None and kind is not None:
        columns = -(-columns // BLOCK) * BLOCK
    n, k = columns * (1 if gate is None else 2), 16 * draw.randint(1, 12 if small else draw.choice((8, 200)))
    options = {"gate": gate} if gate is not None else {"activation": draw.choice((None, "relu", "gelu"))}
    if gate is not None and kind is None:
        options["gate_interleaved"] = draw.random() < 0.5
    form = draw.choice(("plain", "plain", "powers_of_two", "packed"))
    if form != "plain":
        options[form] = True
    options["alpha"] = 2.0 ** -round(k.bit_length() / 2)
    return dtype, kind, grouping, counts, columns, n, k, options, draw.random() < 0.4, device


def operands(draw, problem):
    dtype, kind, grouping, counts, columns, n, k, options, biased, device = problem
    groups, slices, entries, row = len(counts), [], [], 0
    for group, count in enumerate(counts):
        slices.append((group, 0, count) if grouping == "counts" else (None, row, row + count))
        padded = -(-count // BLOCK) * BLOCK if grouping == "rows" else count
        row += padded
        entries += [group] * count + [-1] * (padded - count) if grouping == "rows" else [count if grouping == "counts" else row]
    rows = max(counts) + 3 if grouping == "counts" else max(row, 1)
    a_shape = (groups, rows, k) if grouping == "counts" else (rows, k)
    a = torch.full(a_shape, torch.nan, device=device)
    for group, begin, end in slices:
        (a if group is None else a[group])[begin:end] = torch.randn(end - begin, k, device=device)
    a, b = a.to(dtype), torch.randn(groups, n, k, device=device).to(dtype)
    left, right = a.double(), b.double()
    if kind is not None:
        each, blocks = BLOCK if kind == "block" else 1, -(-k // BLOCK)
        scale_a, scale_b = torch.rand(*a_shape[:-1], blocks, device=device) + 0.5, torch.rand(groups, -(-n // each), blocks, device=device) + 0.5
        if draw.random() < 0.7:
            scale_a = scale_a.transpose(-1, -2).contiguous().transpose(-1, -2)
        left, right = left * spread(scale_a, 1, a.shape), right * spread(scale_b, each, b.shape)
        options.update(scale_a=scale_a, scale_b=scale_b if grouping is not None else scale_b[0])
    if biased:
        bias = torch.randn(groups, n, device=device).to(torch.bfloat16 if dtype == E4M3 else dtype)
        options["bias"] = bias if grouping is not None else bias[0]
    return a, b, left, right, slices, a_shape, torch.tensor(entries, dtype=torch.int32, device=device)


def wanted_of(problem, left, right, group, options):
    """Rows of d in f64."""
    gate, biased = options.get("gate"), options.get("bias")
    sums = options["alpha"] * (left @ right[group].t())
    if biased is not None:
        sums = sums + (biased[group] if biased.dim() == 2 else biased).double()
    if gate is None:
        return activate(torch, sums, options["activation"] or "none")
    half = sums.shape[1] // 2
    one, other = (sums[:, ::2], sums[:, 1::2]) if options.get("gate_interleaved") else (sums[:, :half], sums[:, half:])
    return activate(torch, one, gate) * other


def results_of(draw, problem, a_shape):
    """Poisoned memory for d and its scales, with gaps, in a drawn order: (d, scales, what both lie in)."""
    columns, options, device = problem[4], problem[7], problem[9]
    *batch, rows = a_shape[:-1]
    gap, packed = draw.choice((0, 0, 16, 3)), "packed" in options
    blocks = -(-columns // (512 if packed else BLOCK))
    memory = torch.full((*batch, rows, columns + gap), 0xff, dtype=torch.uint8, device=device)
    by_m = draw.random() < 0.7
    words = torch.full((*batch, blocks, rows + 3) if by_m else (*batch, rows, blocks + 1), -1, dtype=torch.int32, device=device)
    kept = words if packed else words.view(torch.float32)
    scales = kept[..., :rows].transpose(-1, -2) if by_m else kept[..., :blocks]
    return memory.view(E4M3)[..., :columns], scales, (memory, words)


def check_one(draw, device, small):
    """Why the problem is wrong; "" when it is right."""
    problem = drawn(draw, device, small)
    dtype, kind, grouping, counts, columns, n, k, options, _, _ = problem
    a, b, left, right, slices, a_shape, listed = operands(draw, problem)
    said = f"{grouping} {counts if len(counts) < 6 else len(counts)} N {n} K {k} {dtype} scales {kind} {sorted(options)}: "
    results, spare = [], draw.getstate()
    for _ in range(2):
        draw.setstate(spare)
        d, scales, around = results_of(draw, problem, a_shape)
        if grouping is None:
            tilejit.gemm(a, b[0], out=(d, scales), **options)
        else:
            tilejit.grouped_gemm(a, b, listed, grouping=grouping, out=(d, scales), **options)
        results.append((d, scales, around))
    d, scales, around = results[0]
    limit = (20 if "gate" not in options else 40) * (E4M3_F32_LIMIT if dtype == E4M3 else LIMITS["f32"])
    owned = torch.zeros(a_shape[:-1], dtype=torch.bool, device=device)
    for number, (group, begin, end) in enumerate(slices):
        rows_of = (lambda x: x[begin:end]) if group is None else (lambda x: x[group][begin:end])  # noqa: B023
        rows_of(owned)[...] = True
        wanted = wanted_of(problem, rows_of(left), right, number, options)
        why = wrong_rows(rows_of(d), rows_of(scales), wanted, "packed" in options or "powers_of_two" in options, limit)
        if why:
            return said + f"group {number}: {why}"
    if grouping != "rows" and not ((d[~owned].view(torch.uint8) == 0xff).all() and (scales[~owned].contiguous().view(torch.int32) == -1).all()):
        return said + "a row of no group was written"
    outside = around[0][..., columns:].numel() - int((around[0][..., columns:] == 0xff).sum())
    if outside:
        return said + "memory beside d was written"
    same = all(torch.equal(one, other) for one, other in zip(around, results[1][2]))
    return "" if same else said + "other bits"


def check(count, seed, device, small):
    draw, wrong = random.Random(seed), 0
    torch.manual_seed(seed)
    for number in range(count):
        if why := check_one(draw, device, small):
            wrong += 1
            print(f"WRONG {number}: {why}", flush=True)
    print(f"{count} problems, {wrong} wrong, seed {seed}")
    return wrong


def times():
    """SwiGLU and quantising: as one end, as a gate and a launch, as three steps; and the product alone."""
    from fmha_features import microseconds
    ops = torch.ops.tilejit
    for groups, each, n, k in ((1, 4096, 4096, 7168), (1, 4096, 4096, 2048), (1, 4096, 28672, 4096), (4, 8192, 4096, 7168), (64, 128, 4096, 7168),
                               (64, 16, 4096, 7168), (256, 8, 4096, 7168), (8, 1024, 28672, 4096)):
        m = groups * each
        ends = torch.arange(each, m + 1, each, dtype=torch.int32, device="cuda")
        for dtype in (torch.bfloat16, E4M3):
            a, b = torch.randn(m, k, device="cuda").to(dtype), torch.randn(groups, n, k, device="cuda").to(dtype)
            options = {}
            if dtype == E4M3:
                options = {"scale_a": torch.rand(-(-k // BLOCK), m, device="cuda").t(),
                           "scale_b": torch.rand(groups, n // BLOCK, k // BLOCK, device="cuda")}
            d, half = (torch.empty(m, columns, dtype=torch.bfloat16, device="cuda") for columns in (n, n // 2))
            q, scales = ops.quantise(half)
            product = lambda: ops.grouped_gemm_out(a, b, ends, d, **options)  # noqa: E731
            gated = lambda: ops.grouped_gemm_out(a, b, ends, half, gate="silu", **options)  # noqa: E731
            one = lambda: tilejit.grouped_gemm(a, b, ends, gate="silu", out=(q, scales), **options)  # noqa: E731
            calls = {"product": product, "one end": one, "gate": gated, "gate, quantise": lambda: (gated(), ops.quantise_out(half, q, scales)),
                     "product, SwiGLU and quantise": lambda: (product(), ops.quantise_out(d, q, scales, gate="silu"))}
            spent = microseconds(list(calls.values()), rounds=5)
            print(f"{dtype} {groups} x {each} x {n} x {k}", *(f"{what} {us:.1f} us ({us / spent[0]:.2f})" for what, us in zip(calls, spent)), sep="  ",
                  flush=True)


def tiles():
    """tj-warm's own timing of every tile, for gated e4m3 with scales of blocks."""
    import os
    tool = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build", "release", "bin", "tj-warm")
    for out in ("bf16", "e4m3"):
        for gate in ("silu", "none"):
            subprocess.run([tool, "--tune", "--op", "gemm", "--dtype", "e4m3", "--out", out, "--scales", "block", "--gate", gate, "--sizes",
                            "4096x4096x7168,4096x4096x2048,4096x28672x4096,128x4096x7168"], check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--cpu", action="store_true", help="small problems on the CPU model")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--tiles", action="store_true")
    options = parser.parse_args()
    wrong = check(options.check, options.seed, "cpu" if options.cpu else "cuda", options.cpu) if options.check else 0
    if options.times:
        times()
    if options.tiles:
        tiles()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
