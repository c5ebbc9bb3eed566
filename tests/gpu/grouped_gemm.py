"""Products of groups on a GPU: random problems against f64, and times in CUDA graphs.

    python3 tests/gpu/grouped_gemm.py --check 200 --seed 1     # poisoned outputs, NaN in rows of no group, the same bits twice, lists that change
    python3 tests/gpu/grouped_gemm.py --check 100 --gate silu  # likewise, all with a gate
    python3 tests/gpu/grouped_gemm.py --check 100 --ends       # likewise, all with a text of device code; also with --gate
    python3 tests/gpu/grouped_gemm.py --quantised              # the error of quantised products against those of what was quantised
    python3 tests/gpu/grouped_gemm.py --times gate             # products with SwiGLU beside products, and SwiGLU of what they leave
    python3 tests/gpu/grouped_gemm.py --times contiguous       # e4m3 beside one product of as many rows; bf16 beside torch's grouped product
    python3 tests/gpu/grouped_gemm.py --moe 60                 # layers of experts against a loop over experts in f64
    python3 tests/gpu/grouped_gemm.py --times masked           # bytes of weights a second, beside a plain read of as many bytes
    python3 tests/gpu/grouped_gemm.py --times empty            # what groups without rows cost
    python3 tests/gpu/grouped_gemm.py --times zipf             # uneven groups without padding, padded, and in matrices of their own
    python3 tests/gpu/grouped_gemm.py --times orders           # scales of a that are contiguous in K beside those contiguous in M
    python3 tests/gpu/grouped_gemm.py --times quantise         # beside a copy of as many bytes
    python3 tests/gpu/grouped_gemm.py --times combine          # weighted sums of rows, beside a copy of as many bytes
    python3 tests/gpu/grouped_gemm.py --times moe --model mixtral --batches 1,64,4096     # layers of experts beside torch's parts

It needs torch with CUDA, and tilejit's package: PYTHONPATH=src/python LD_LIBRARY_PATH=build/release/lib. Decides problems and prints; asserts
nothing about times. Exit status 1: a result is wrong; 77: there is no PyTorch, or it sees no GPU.
"""
import argparse
import math
import random
import sys

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit(77)

import grouped_moe
import grouped_times
import own_ends
import tilejit.torch  # noqa: F401 -- the operators
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


def check_layers(count, seed):
    draw, wrong = random.Random(seed), 0
    for number in range(count):
        why = grouped_moe.check_moe(draw)
        wrong += bool(why)
        if why:
            print(f"WRONG {number}: {why}", flush=True)
    print(f"{count} layers of experts, {wrong} wrong, seed {seed}")
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--gate", choices=("none", "relu", "gelu", "silu", "gelu_tanh"), default="none", help="of all problems of --check")
    parser.add_argument("--ends", action="store_true", help="texts of device code end all problems of --check, also behind a gate")
    parser.add_argument("--quantised", action="store_true", help="the error of products of what is quantised first")
    parser.add_argument("--moe", type=int, default=0, help="layers of experts that are checked")
    parser.add_argument("--times", choices=(*grouped_times.TIMES, "moe"), action="append", default=[])
    parser.add_argument("--model", choices=tuple(grouped_moe.MODELS), action="append", help="of --times moe; default: all")
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], default=grouped_moe.BATCHES, help="tokens, of --times moe")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU")
        return 77
    wrong = check(options.check, options.seed, options.gate, options.ends) if options.check else 0
    wrong += check_quantised() if options.quantised else 0
    wrong += check_layers(options.moe, options.seed) if options.moe else 0
    for what in options.times:
        if what == "moe":
            grouped_moe.time_moe(options.model or tuple(grouped_moe.MODELS), options.batches)
        else:
            grouped_times.TIMES[what]()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
