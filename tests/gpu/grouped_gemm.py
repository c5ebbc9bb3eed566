"""Products of groups on a GPU: random problems against f64, and times in CUDA graphs.

    python3 tests/gpu/grouped_gemm.py --check 200 --seed 1     # poisoned outputs, NaN in rows of no group, the same bits twice, lists that change
    python3 tests/gpu/grouped_gemm.py --check 100 --gate silu  # likewise, all with a gate
    python3 tests/gpu/grouped_gemm.py --check 100 --ends       # likewise, all with a text of device code; also with --gate
    python3 tests/gpu/grouped_gemm.py --quantised              # the error of quantised products against those of what was quantised
    python3 tests/gpu/grouped_gemm.py --times gate             # products with SwiGLU beside products, and SwiGLU of what they leave
    python3 tests/gpu/grouped_gemm.py --times contiguous       # e4m3 beside one product of as many rows; bf16 beside torch's grouped product
    python3 tests/gpu/grouped_gemm.py --times masked           # bytes of weights a second, beside a plain read of as many bytes
    python3 tests/gpu/grouped_gemm.py --times quantise         # beside a copy of as many bytes
    python3 tests/gpu/grouped_gemm.py --times combine          # weighted sums of rows, beside a copy of as many bytes
    python3 tests/gpu/grouped_gemm.py --times moe              # whole layers of experts, by weights' type

It needs torch with CUDA, and tilejit's package: PYTHONPATH=src/python LD_LIBRARY_PATH=build/release/lib. Decides problems and prints; asserts
nothing about times. Exit status 1: a result is wrong.
"""
import argparse
import math
import random
import sys

import torch

import own_ends
import tilejit.torch
from fmha_features import microseconds
from gemm_check import E4M3_F32_LIMIT, LIMITS, QUANTISED_LIMIT, activate, unlike

GPU, E4M3 = "cuda", torch.float8_e4m3fn
BLOCK = 128


def drawn_counts(draw, groups):
    """Rows of each group: Zipf-like, some empty."""
    most = draw.choice((1, 8, 200, 3000))
    return [0 if draw.random() < 0.3 else max(1, int(most * draw.random() ** 3)) for _ in range(groups)]


def spread(scales, rows, shape):
    return scales.double().repeat_interleave(rows, -2).repeat_interleave(BLOCK, -1)[..., :shape[-2], :shape[-1]]


def lists_of(counts, grouping):
    """(the list, rows of a or of each of its matrices, slices of the groups' rows)."""
    if grouping == "counts":
        return list(counts), max(counts) + 3, [(group, 0, count) for group, count in enumerate(counts)]
    entries, slices, row = [], [], 0
    for group, count in enumerate(counts):
        slices.append((None, row, row + count))
        row += count
        if grouping == "rows":
            padded = -(-row // BLOCK) * BLOCK
            entries += [group] * count + [-1] * (padded - row)
            row = padded
        else:
            entries.append(row)
    return entries, max(row, 1), slices


def problem(draw):
    groups, n, k = draw.randint(1, draw.choice((4, 40))), draw.choice((24, 100, 512, 1000, 2112)), 16 * draw.randint(1, draw.choice((8, 200)))
    grouping, dtype = draw.choice(("ends", "counts", "rows")), draw.choice((torch.float16, torch.bfloat16, E4M3))
    counts = drawn_counts(draw, groups)
    if grouping == "rows" and not any(counts):
        counts[0] = 1
    return groups, n, k, grouping, dtype, draw.choice((torch.float32, torch.bfloat16)), counts


def drawn_ends(draw, gate, groups, n, k, d_shape, out, scaled, texts):
    """Options that end a product: bias, an addend, a gate, a text of device code. Sums are of about 1 for a text, as one cuts off what is above 2.5:
    of larger sums little but their errors would be left."""
    options = {}
    if draw.random() < 0.3:
        options["bias"] = torch.randn(groups, n, device=GPU).to(out)
    if gate != "none":
        options.update(gate=gate, gate_interleaved=not scaled and draw.random() < 0.5)
    elif draw.random() < 0.3:
        options.update(c=torch.randn(d_shape, device=GPU).to(out), beta=draw.choice((1.0, -0.5)))
    if texts:
        options["alpha"] = 2.0 ** -round(math.log2(k) / 2)
        end = draw.randrange(0 if out == torch.float32 and gate == "none" else 1, len(own_ends.ENDS))  # squares in f32 alone, which has their range
        options.update(end_text=own_ends.text_of(end, "group"), end_params=own_ends.on_gpu(torch) if own_ends.ENDS[end][2] else None)
    return options


def ended(sums, options, group, rows_of, places):
    """Rows of d in f64 of rows of products."""
    sums = sums * options.get("alpha", 1.0)
    if "bias" in options:
        sums = sums + options["bias"][group].double()
    if "gate" in options:
        half = sums.shape[1] // 2
        left, right = (sums[:, ::2], sums[:, 1::2]) if options["gate_interleaved"] else (sums[:, :half], sums[:, half:])
        sums = activate(torch, left, options["gate"]) * right
    if "end_text" in options:
        end = next(i for i in range(len(own_ends.ENDS)) if own_ends.text_of(i, "group") == options["end_text"])
        column = torch.arange(sums.shape[1], device=GPU)
        sums = own_ends.applied(torch, end, sums, rows_of(places)[:, None], column, group, own_ends.numbers(torch, device=GPU))
    return sums + options["beta"] * rows_of(options["c"]).double() if "c" in options else sums


def check_one(draw, gate="none", texts=False):
    """Why the problem is wrong; "" when it is right."""
    groups, n, k, grouping, dtype, out, counts = problem(draw)
    if gate != "none":
        n = -(-n // 256) * 256
    columns = n if gate == "none" else n // 2
    entries, rows, slices = lists_of(counts, grouping)
    a_shape = (groups, rows, k) if grouping == "counts" else (rows, k)
    a, b = torch.full(a_shape, torch.nan, device=GPU), torch.randn(groups, n, k, device=GPU).to(dtype)
    for group, begin, end in slices:
        (a if group is None else a[group])[begin:end] = torch.randn(end - begin, k, device=GPU)
    a, listed = a.to(dtype), torch.tensor(entries, dtype=torch.int32, device=GPU)
    options = {"grouping": grouping, "expected_rows": draw.choice((0, 0, 1, 64, 5000))}
    left, right = a.double(), b.double()
    if dtype == E4M3 and draw.random() < 0.8:
        each, blocks = draw.choice((1, BLOCK)), -(-k // BLOCK)
        scale_a = torch.rand(*a_shape[:-1], blocks, device=GPU) + 0.5
        if draw.random() < 0.5:
            scale_a = scale_a.transpose(-1, -2).contiguous().transpose(-1, -2)
        scale_b = torch.rand(groups, -(-n // each), blocks, device=GPU) + 0.5
        options.update(scale_a=scale_a, scale_b=scale_b)
        left, right = left * spread(scale_a, 1, a.shape), right * spread(scale_b, each, b.shape)
    ends = drawn_ends(draw, gate, groups, n, k, (*a_shape[:-1], columns), out, "scale_b" in options, texts)
    options.update(ends)
    results = []
    for _ in range(2):
        d = torch.full((*a_shape[:-1], columns), torch.nan, dtype=out, device=GPU)
        torch.ops.tilejit.grouped_gemm_out(a, b, listed, d, **options)
        results.append(d)
    owned = torch.zeros(a_shape[:-1], dtype=torch.bool, device=GPU)
    norm, wrong, places = 0.0, 0.0, torch.arange(rows, device=GPU).expand(a_shape[:-1])
    for number, (group, begin, end) in enumerate(slices):
        (owned if group is None else owned[group])[begin:end] = True
        rows_of = (lambda x: x[begin:end]) if group is None else (lambda x: x[group][begin:end])
        wanted = ended(rows_of(left) @ right[number].t(), options, number, rows_of, places)
        norm += float(wanted.norm()) ** 2
        wrong += float((rows_of(results[0]).double() - wanted).norm()) ** 2
    error = (wrong / norm) ** 0.5 if norm else 0.0
    said = f"G {groups} N {n} K {k} {grouping} {dtype}->{out} rows {sum(counts)} {sorted(ends)} {gate}: "
    squares = options.get("end_text") == own_ends.text_of(own_ends.SQUARED, "group")
    limit = E4M3_F32_LIMIT if (dtype, out) == (E4M3, torch.float32) else LIMITS["f32" if out == torch.float32 else "bf16"]
    if not error <= (2 if squares else 1) * limit:
        return said + f"error {error:.1e}"
    if grouping != "rows" and not results[0][~owned].isnan().all():
        return said + "a row of no group was written"
    same = torch.equal(torch.nan_to_num(results[0][owned]), torch.nan_to_num(results[1][owned]))
    return "" if same else said + "other bits"


def lists_of_rows(draw, count, rows):
    """Numbers of rows on the GPU, some of them none."""
    share, bad = draw.choice((0.0, 0.3, 1.0)), torch.tensor([-1, -1, -1, rows, -(2**31), 2**31 - 1], device=GPU)
    listed, skipped = torch.randint(0, rows, (count,), device=GPU), torch.rand(count, device=GPU) < share
    return torch.where(skipped, bad[torch.randint(0, len(bad), (count,), device=GPU)], listed).int(), skipped


def check_combine(draw):
    """Why a combine is wrong; "" when it is right."""
    tokens, choices, rows = draw.choice((1, 7, 300, 5000)), draw.randint(1, draw.choice((2, 8, 20))), draw.choice((1, 50, 9000))
    columns, types = draw.choice((1, 24, 300, 1001, 4096)), (torch.float16, torch.bfloat16, torch.float32)
    dtype, out = draw.choice(types), draw.choice(types)
    slots, skipped = lists_of_rows(draw, tokens * choices, rows)
    used = torch.zeros(rows, dtype=torch.bool, device=GPU)
    used[slots[~skipped].long()] = True
    y = torch.where(used[:, None], torch.randn(rows, columns, device=GPU), torch.nan).to(dtype)
    weights = torch.where(skipped, torch.nan, torch.randn(tokens * choices, device=GPU)).view(tokens, choices) if draw.random() < 0.7 else None
    residual = torch.randn(tokens, columns, device=GPU).to(out) if draw.random() < 0.5 else None
    results = []
    for _ in range(2):
        d = torch.full((tokens, columns), torch.nan, dtype=out, device=GPU)
        torch.ops.tilejit.combine_out(y, slots.view(tokens, choices), d, weights=weights, residual=residual)
        results.append(d)
    wanted = torch.zeros(tokens, columns, dtype=torch.float64, device=GPU) if residual is None else residual.double()
    magnitude = wanted.abs()
    for j in range(choices):
        slot, none = slots.view(tokens, choices)[:, j], skipped.view(tokens, choices)[:, j, None]
        term = y[torch.where(none[:, 0], 0, slot).long()].double() * (1 if weights is None else weights[:, j, None].double())
        term = torch.where(none, 0, term)
        wanted, magnitude = wanted + term, magnitude + term.abs()
    step = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}[out]
    said = f"combine T {tokens} J {choices} H {columns} S {rows} {dtype}->{out}: "
    if not ((results[0].double() - wanted).abs() <= wanted.abs() * step + (choices + 1) * 2.0**-24 * magnitude + 2.0**-24).all():
        return said + "beyond the limit"
    return "" if torch.equal(*results) else said + "other bits"


def check_rows(draw):
    """Why quantised rows of a list are wrong; "" when they are those of the same rows gathered first."""
    m, k, rows = draw.choice((1, 7, 300, 5000)), draw.choice((8, 128, 300, 2048, 7168)), draw.choice((1, 50, 9000))
    options = draw.choice(({}, {"rows": BLOCK}, {"gate": "silu"}, {"powers_of_two": True}))
    listed, skipped = lists_of_rows(draw, m, rows)
    x = torch.randn(rows, 2 * k if "gate" in options else k, device=GPU).to(draw.choice((torch.float16, torch.bfloat16, torch.float32)))
    used = torch.zeros(rows, dtype=torch.bool, device=GPU)
    used[listed[~skipped].long()] = True
    gathered = torch.where(skipped[:, None], 0, x[torch.where(skipped, 0, listed).long()])
    wanted = torch.ops.tilejit.quantise(gathered, **options)
    x = torch.where(used[:, None], x, torch.nan)
    for _ in range(2):
        found = torch.ops.tilejit.quantise(x, row_indices=listed, **options)
        if not all(torch.equal(one.float(), other.float()) for one, other in zip(found, wanted)):
            return f"quantise M {m} K {k} of {rows} rows {x.dtype} {options}: not as gathered first"
    return ""


def check_quantised():
    """How many products of what is quantised first differ too much from those of what was quantised."""
    wrong = 0
    for groups, rows, n, k in ((4, 512, 4096, 7168), (8, 100, 7168, 2048), (16, 37, 1536, 4096)):
        m = groups * rows
        a, b = torch.randn(m, k, device=GPU).bfloat16(), torch.randn(groups, n, k, device=GPU).bfloat16()
        qa, scale_a = torch.ops.tilejit.quantise(a)
        qb, scale_b = torch.ops.tilejit.quantise(b, rows=BLOCK)
        ends = torch.arange(rows, m + 1, rows, dtype=torch.int32, device=GPU)
        d = torch.ops.tilejit.grouped_gemm(qa, qb, ends, scale_a=scale_a, scale_b=scale_b, dtype=torch.bfloat16)
        error = unlike(d.double(), torch.cat([x.double() @ y.double().t() for x, y in zip(a.split(rows), b)]))
        wrong += not error < QUANTISED_LIMIT
        said = "" if error < QUANTISED_LIMIT else " WRONG"
        print(f"quantised {groups} x {rows} x {n} x {k}: {error:.2e}{said} (limit {QUANTISED_LIMIT:.0e})", flush=True)
    return wrong


def check(count, seed, gate="none", texts=False):
    draw, wrong = random.Random(seed), 0
    torch.manual_seed(seed)
    for number in range(count):
        why = check_one(draw, gate, texts) or (gate == "none" and (check_combine(draw) or check_rows(draw)))
        if why:
            wrong += 1
            print(f"WRONG {number}: {why}", flush=True)
    wrong += check_replay()
    print(f"{count} problems and a graph replay with another list, {wrong} wrong, seed {seed}")
    return wrong


def check_replay():
    """A captured call follows its list."""
    a, b = torch.randn(96, 128, device=GPU).bfloat16(), torch.randn(3, 64, 128, device=GPU).bfloat16()
    listed, d = torch.tensor([96, 96, 96], dtype=torch.int32, device=GPU), torch.empty(96, 64, dtype=torch.bfloat16, device=GPU)
    torch.ops.tilejit.grouped_gemm_out(a, b, listed, d)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.ops.tilejit.grouped_gemm_out(a, b, listed, d)
    listed.copy_(torch.tensor([1, 50, 96]))
    graph.replay()
    wanted = torch.cat([a[i:j].double() @ x.double().t() for i, j, x in zip((0, 1, 50), (1, 50, 96), b)])
    right = float((d.double() - wanted).norm() / wanted.norm()) < 4e-3
    if not right:
        print("WRONG: a graph replay with another list")
    return int(not right)


def narrow(*shape):
    return torch.randn(shape, device=GPU).to(E4M3)


def time_contiguous():
    for groups, each, n, k in ((4, 8192, 4096, 7168), (4, 8192, 7168, 2048), (8, 4096, 4096, 7168), (8, 4096, 7168, 2048), (64, 128, 4096, 7168),
                               (256, 37, 4096, 7168), (64, 300, 1536, 4096)):
        m = groups * each
        a, b = narrow(m, k), narrow(groups, n, k)
        scale_a, scale_b = torch.rand(-(-k // BLOCK), m, device=GPU).t(), torch.rand(groups, -(-n // BLOCK), -(-k // BLOCK), device=GPU)
        d = torch.empty(m, n, dtype=torch.bfloat16, device=GPU)
        ends = torch.arange(each, m + 1, each, dtype=torch.int32, device=GPU)
        call = lambda **more: torch.ops.tilejit.grouped_gemm_out(a, b, scale_a=scale_a, scale_b=scale_b, out=d, **more)  # noqa: E731
        calls = {"ends": lambda: call(groups=ends),
                 "one product": lambda: torch.ops.tilejit.gemm_out(a, b[0], d, scale_a=scale_a, scale_b=scale_b[0])}
        if each % BLOCK == 0:
            named = torch.arange(groups, dtype=torch.int32, device=GPU).repeat_interleave(each)
            calls["rows"] = lambda: call(groups=named, grouping="rows")
        _print_times(f"e4m3 {groups} x {each} x {n} x {k}", calls, 2 * m * n * k)
        del a, b
        a, b = torch.randn(m, k, device=GPU).bfloat16(), torch.randn(groups, n, k, device=GPU).bfloat16()
        calls = {"ends": lambda: torch.ops.tilejit.grouped_gemm_out(a, b, ends, d),
                 "one product": lambda: torch.ops.tilejit.gemm_out(a, b[0], d)}
        if hasattr(torch, "_grouped_mm"):
            calls["torch"] = lambda: torch._grouped_mm(a, b.transpose(1, 2), offs=ends)
        _print_times(f"bf16 {groups} x {each} x {n} x {k}", calls, 2 * m * n * k)


def _print_times(name, calls, flops):
    times = microseconds(list(calls.values()), rounds=5)
    print(name, *(f"{what} {each:.1f} us {flops / each / 1e6:.0f} TFLOP/s" for what, each in zip(calls, times)), sep="  ", flush=True)


def time_masked():
    for groups, most, n, k in ((16, 64, 4096, 7168), (32, 64, 4096, 7168), (32, 64, 7168, 2048), (16, 16, 4096, 7168), (64, 8, 4096, 7168)):
        b = narrow(groups, n, k)
        a, scale_a = narrow(groups, 128, k), torch.rand(groups, -(-k // BLOCK), 128, device=GPU).transpose(1, 2)
        scale_b, d = torch.rand(groups, -(-n // BLOCK), -(-k // BLOCK), device=GPU), torch.empty(groups, 128, n, dtype=torch.bfloat16, device=GPU)
        counts = torch.randint(1, most + 1, (groups,), dtype=torch.int32, device=GPU)
        words = b.view(torch.int64)
        call = lambda: torch.ops.tilejit.grouped_gemm_out(a, b, counts, d, grouping="counts", scale_a=scale_a, scale_b=scale_b,  # noqa: E731
                                                          expected_rows=most)
        times = microseconds([call, lambda: words.sum()], rounds=5)
        print(f"masked e4m3 {groups} groups of 1 to {most} x {n} x {k}", *(f"{what} {each:.1f} us {b.numel() / each / 1e6:.2f} TB/s" for what, each in
                                                                           zip(("product", "a sum of the weights"), times)), sep="  ", flush=True)


def time_quantise():
    for m, k in ((8192, 7168), (4096, 2048), (64, 7168), (65536, 1536)):
        named = {"row_indices": torch.randperm(m, device=GPU).int()}
        for name, options, wide in (("rows of 1", {}, k), ("rows of 128", {"rows": 128}, k), ("SwiGLU", {"gate": "silu"}, 2 * k),
                                    ("rows of a list", named, k)):
            x = torch.randn(m, wide, device=GPU).bfloat16()
            q, scales = torch.ops.tilejit.quantise(x, **options)
            options.pop("rows", None)
            moved = x.numel() * 2 + q.numel() + scales.numel() * 4
            source = torch.empty(moved // 2, dtype=torch.uint8, device=GPU)
            target = torch.empty_like(source)
            times = microseconds([lambda: torch.ops.tilejit.quantise_out(x, q, scales, **options), lambda: target.copy_(source)], rounds=5)
            print(f"quantise {m} x {k} {name}  {times[0]:.1f} us {moved / times[0] / 1e6:.2f} TB/s  a copy {times[1]:.1f} us ({times[1] / times[0]:.2f})",
                  flush=True)


def time_combine():
    for tokens, choices, columns in ((8192, 8, 7168), (4096, 2, 4096), (1024, 8, 2048), (64, 8, 7168), (1, 8, 7168)):
        y, weights = torch.randn(tokens * choices, columns, device=GPU).bfloat16(), torch.rand(tokens, choices, device=GPU)
        slots = torch.randperm(tokens * choices, device=GPU).int().view(tokens, choices)
        d = torch.empty(tokens, columns, dtype=torch.bfloat16, device=GPU)
        moved = 2 * y.numel() + 2 * d.numel() + 8 * slots.numel()
        source = torch.empty(moved // 2, dtype=torch.uint8, device=GPU)
        target = torch.empty_like(source)
        times = microseconds([lambda: torch.ops.tilejit.combine_out(y, slots, d, weights=weights), lambda: target.copy_(source)], rounds=5)
        print(f"combine {tokens} x {choices} x {columns}  {times[0]:.1f} us {moved / times[0] / 1e6:.2f} TB/s  a copy {times[1]:.1f} us "
              f"({times[1] / times[0]:.2f})", flush=True)


def time_gate():
    """SwiGLU in the product beside the product alone, and beside the product and SwiGLU by torch (bf16) or by quantise (e4m3, to e4m3)."""
    silu = torch.nn.functional.silu
    for groups, each, n, k in ((1, 4096, 4096, 7168), (1, 4096, 28672, 4096), (4, 8192, 4096, 7168), (64, 128, 4096, 7168), (64, 16, 4096, 7168)):
        m = groups * each
        ends = torch.arange(each, m + 1, each, dtype=torch.int32, device=GPU)
        for dtype in (torch.bfloat16, E4M3):
            a, b = torch.randn(m, k, device=GPU).to(dtype), torch.randn(groups, n, k, device=GPU).to(dtype)
            options = {}
            if dtype == E4M3:
                options = {"scale_a": torch.rand(-(-k // BLOCK), m, device=GPU).t(), "scale_b": torch.rand(groups, n // BLOCK, k // BLOCK, device=GPU)}
            d, half = (torch.empty(m, columns, dtype=torch.bfloat16, device=GPU) for columns in (n, n // 2))
            q, scales = torch.ops.tilejit.quantise(half)
            product = lambda: torch.ops.tilejit.grouped_gemm_out(a, b, ends, d, **options)  # noqa: E731
            gated = lambda: torch.ops.tilejit.grouped_gemm_out(a, b, ends, half, gate="silu", **options)  # noqa: E731

            def apart():
                product()
                if dtype == E4M3:
                    torch.ops.tilejit.quantise_out(d, q, scales, gate="silu")
                else:
                    torch.mul(silu(d[:, :n // 2]), d[:, n // 2:], out=half)

            def joined():
                gated()
                if dtype == E4M3:
                    torch.ops.tilejit.quantise_out(half, q, scales)

            _print_times(f"gate {dtype} {groups} x {each} x {n} x {k}", {"product": product, "with the gate": gated, "gate and quantise": joined,
                                                                         "one after the other": apart}, 2 * m * n * k)


def time_moe():
    """Experts of Mixtral 8x7B, and of DeepSeek-V3 with 64 of its 256."""
    for name, experts, each, width, inner in (("Mixtral-8x7B", 8, 2, 4096, 14336), ("DeepSeek-V3, 64 experts", 64, 8, 7168, 2048)):
        w1, w2 = torch.randn(experts, 2 * inner, width, device=GPU).bfloat16(), torch.randn(experts, width, inner, device=GPU).bfloat16()
        narrow = [[part.view(torch.float8_e4m3fn) if part.dtype == torch.uint8 else part for part in map(torch.stack, zip(*(
            (q.view(torch.uint8), s) for q, s in (torch.ops.tilejit.quantise(w, rows=128) for w in weights))))] for weights in (w1, w2)]
        for tokens in (1, 64, 512, 4096):
            hidden = torch.randn(tokens, width, device=GPU).bfloat16()
            ids = torch.stack([torch.randperm(experts, device=GPU)[:each] for _ in range(tokens)])
            weights = torch.rand(tokens, each, device=GPU)
            moe = tilejit.torch.fused_moe
            times = microseconds([lambda: moe(hidden, w1, w2, weights, ids), lambda: moe(
                hidden, narrow[0][0], narrow[1][0], weights, ids, w1_scale=narrow[0][1], w2_scale=narrow[1][1])], rounds=5)
            print(f"{name}, {tokens} tokens: bf16 {times[0]:.0f} us, e4m3 {times[1]:.0f} us", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--gate", choices=("none", "relu", "gelu", "silu", "gelu_tanh"), default="none", help="of all problems of --check")
    parser.add_argument("--ends", action="store_true", help="texts of device code end all problems of --check, also behind a gate")
    parser.add_argument("--quantised", action="store_true", help="the error of products of what is quantised first")
    parser.add_argument("--times", choices=("contiguous", "masked", "quantise", "combine", "gate", "moe"), action="append", default=[])
    options = parser.parse_args()
    wrong = check(options.check, options.seed, options.gate, options.ends) if options.check else 0
    wrong += check_quantised() if options.quantised else 0
    for what in options.times:
        {"contiguous": time_contiguous, "masked": time_masked, "quantise": time_quantise, "combine": time_combine,
         "gate": time_gate, "moe": time_moe}[what]()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
