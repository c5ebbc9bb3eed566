#!/usr/bin/env python3
"""Matrix products on a GPU against f64: problems, memory with guard bands, reference.

    python3 tests/gpu/gemm_check.py --cases 300 [--dtype f16,bf16,e4m3] [--seed N] [--json FILE]
    python3 tests/gpu/gemm_check.py --cases 200 --gate silu     # d = gate(g) * u, of halves of b's rows
    python3 tests/gpu/gemm_check.py --cases 200 --ends          # texts of device code end the products
    python3 tests/gpu/gemm_check.py --quantised                 # the error of quantised products against those of what was quantised

Random sizes, orders, types, batches, strides with gaps and epilogues; outputs poisoned, guard bands checked. The reference is
written in the operations that NumPy and PyTorch share (`xp` is either module), so that `compare.py --self-test` can check it
without a GPU. Needs libtilejit.so (--library, else the newest below build/), PyTorch with CUDA, and a GPU. Exit codes: 0 all right,
1 a result was wrong, 2 bad use, 77 something that is needed is missing.
"""
import argparse
import glob
import json
import math
import os
import random
import secrets
import sys

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "c_api")]
import own_ends  # noqa: E402
from fmha_check import Guarded, double  # noqa: E402

LIMITS = {"f16": 5e-4, "bf16": 4e-3, "f32": 1e-5}
# The matrix unit cuts each of 128 products of e4m3, and their sums, at 13 bits of fraction: 1.3e-4 of normal data,
# whatever K is.
E4M3_F32_LIMIT = 3e-4
# It also cuts the sums that it adds to: f32 of 16-bit elements loses 1.14e-9 of each product in one chain, with cuBLAS too.
CHAIN_LIMIT = 1.25e-9
# 1 - 2 sum(xy) / (sum(xx) + sum(yy)) of products whose operands were quantised; DeepGEMM's is 6.8e-4.
QUANTISED_LIMIT = 7e-4
DTYPES = ["f16", "bf16", "e4m3"]
ELEMENT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "e4m3": 1}
ACTIVATIONS = ["none", "relu", "gelu", "silu", "gelu_tanh"]
EDGES = [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 511, 513, 1000, 1023, 1025, 2049, 4095, 4096, 4097]
DEEP = 7   # every so many
KINDS = 24  # of kernels in one run: each has to be compiled


# ---- problems ----------------------------------------------------------------------------------------------------------
def random_size(generator):
    if generator.random() < 0.5:
        return generator.choice(EDGES)
    return min(4097, int(math.exp(generator.uniform(0, math.log(4098)))))


def random_kind(generator, number, dtypes):
    """The choice of a kernel; the first few cover every value whatever the seed."""
    dtype, round_number = dtypes[number % len(dtypes)], number // len(dtypes)
    return {
        "dtype": dtype, "out": ["f16", "bf16", "f32"][(number % len(dtypes) + round_number) % 3],
        "a_transposed": dtype != "e4m3" and round_number % 2 == 1, "b_transposed": dtype != "e4m3" and round_number // 2 % 2 == 1,
        "bias": generator.random() < 0.4, "add_c": generator.random() < 0.4,
        "activation": ACTIVATIONS[number // 5 % len(ACTIVATIONS)] if number // 2 % 2 == 1 else "none",
    }


def random_cases(generator, count, dtypes=("f16", "bf16")):
    kinds = [random_kind(generator, number, dtypes) for number in range(KINDS)]
    cases = []
    for number in range(count):
        case = dict(kinds[number % KINDS])
        case.update(m=random_size(generator), n=random_size(generator), k=random_size(generator))
        if number % DEEP == DEEP - 1:  # few tiles, long sums: in parts of K
            case.update(m=min(case["m"], 1 + case["m"] % 257), n=min(case["n"], 1 + case["n"] % 257), k=generator.randint(4097, 16500))
        case["batch"] = 0 if generator.random() < 0.7 or case["m"] * case["n"] * case["k"] > 1 << 30 else generator.randint(1, 4)
        case["b_shared"] = generator.random() < 0.3
        case["alpha"] = generator.choice([1.0, 1.0, 1.0, 0.5, -2.0, 0.0])
        case["beta"] = generator.choice([1.0, -0.5]) if case["add_c"] else 0.0
        case["in_place"] = case["add_c"] and generator.random() < 0.3
        case["padding"] = generator.choice([0, 0, 1, 8])       # of rows of a and b, times 16 bytes, beyond the next multiple
        case["d_padding"] = generator.choice([0, 0, 0, 8, 1, 3])
        case["batch_gap"] = generator.choice([0, 0, 1, 5])     # rows between the matrices of a batch
        case["blocks"] = generator.choice([None, "block", "row"]) if case["dtype"] == "e4m3" else None  # scales of blocks
        case["scale_orders"] = [generator.random() < 0.5, generator.random() < 0.5]
        case["scales"] = [round(generator.uniform(-2, 2), 3) or None for _ in range(2)] if case["dtype"] == "e4m3" and not case["blocks"] and generator.random() < 0.7 else [None, None]
        case["c"] = "f32" if case["add_c"] and not case["in_place"] and generator.random() < 0.4 else case["out"]
        cases.append(case)
    return cases


def with_gate(case, gate, generator):
    """The case with a gate, and without what does not go with one."""
    case = dict(case, gate=gate, gate_interleaved=generator.random() < 0.5, b_transposed=False, add_c=False, beta=0.0, in_place=False, activation="none")
    if case["blocks"]:
        case["gate_interleaved"] = False
    if case["alpha"] != 0:  # sums of about 1: their products stay within f16
        case["alpha"] = math.copysign(2.0 ** -round(math.log2(case["k"]) / 2), case["alpha"])
    # 64 results at least: a sum's error is of the size that its neighbours have, and four results may all be smaller.
    step, least = {"block": 256, "row": 8, None: 2}[case["blocks"]], -(-128 // case["m"])
    case["n"] = -(-max(case["n"], least) // step) * step
    return case


def columns_of(case):
    """Columns of d."""
    return case["n"] // 2 if case.get("gate", "none") != "none" else case["n"]


def operand(rows, depth, transposed, batch, padding, dtype="f16", gap=0):
    """Shape and strides in elements of [rows, depth] (or [batch, ...]), and the elements that it takes."""
    inner, outer = (rows, depth) if transposed else (depth, rows)
    wide = 16 // ELEMENT_BYTES[dtype]
    pitch = (inner + wide - 1) // wide * wide + padding * wide
    strides = [1, pitch] if transposed else [pitch, 1]
    if batch == 0:
        return [rows, depth], strides, outer * pitch
    return [batch, rows, depth], [(outer + gap) * pitch] + strides, batch * (outer + gap) * pitch


def output(rows, columns, batch, padding, gap=0):
    pitch = columns + padding
    if batch == 0:
        return [rows, columns], [pitch, 1], rows * pitch
    return [batch, rows, columns], [(rows + gap) * pitch, pitch, 1], batch * (rows + gap) * pitch


# ---- reference, for NumPy and PyTorch ----------------------------------------------------------------------------------
def error_function(xp, x):
    if xp.__name__ == "torch":
        return xp.erf(x)
    return xp.vectorize(math.erf, otypes=[float])(x)


def activate(xp, x, activation):
    if activation == "relu":
        return xp.where(x < 0, x * 0.0, x)
    if activation == "gelu":
        return 0.5 * x * (1.0 + error_function(xp, x / math.sqrt(2.0)))
    if activation == "gelu_tanh":
        return 0.5 * x * (1.0 + xp.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    if activation == "silu":
        return x / (1.0 + xp.exp(-x))
    return x


def reference(xp, a, b, c, bias, case):
    """[..., M, N] in f64 of [..., M, K] and [..., N, K] in any type; alpha 0 leaves the product out."""
    a, b = double(xp, a), double(xp, b)
    factor = case["alpha"] * math.prod(scale for scale in case.get("scales", []) if scale is not None)
    result = xp.matmul(a, xp.swapaxes(b, -1, -2) if xp.__name__ == "numpy" else b.transpose(-1, -2)) * factor
    if case["alpha"] == 0:
        result = result * 0.0
    if bias is not None:
        result = result + double(xp, bias)
    added = case["beta"] * double(xp, c) if case["beta"] != 0 else 0.0
    if case.get("end") is not None:
        return own_ends.of_product(xp, result, case["end"]) + added
    result = result + added
    gate, half = case.get("gate", "none"), columns_of(case) if "n" in case else 0
    if gate == "none":
        return activate(xp, result, case["activation"])
    left, right = (result[..., ::2], result[..., 1::2]) if case["gate_interleaved"] else (result[..., :half], result[..., half:])
    return activate(xp, left, gate) * right


def limit_of(case):
    if case["out"] != "f32":
        return LIMITS[case["out"]]
    factors = 2 if case.get("gate", "none") != "none" or case.get("end") == own_ends.SQUARED else 1  # each of which has the error of a sum
    return factors * (E4M3_F32_LIMIT if case["dtype"] == "e4m3" else max(LIMITS["f32"], CHAIN_LIMIT * case["k"]))


def relative_error(d, wanted):
    difference, norm = float(((d - wanted) ** 2).sum()), float((wanted ** 2).sum())
    if not math.isfinite(difference):
        return math.inf
    return math.sqrt(difference / norm) if norm > 0 else (math.inf if difference > 0 else 0.0)


# ---- one case on the GPU -----------------------------------------------------------------------------------------------
def torch_type(torch, name):
    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "e4m3": torch.float8_e4m3fn}[name]


def run_case(torch, runtime, tj, device, case, seed):
    """Runs one case; returns its figures. Raises binding.TilejitError when the library refuses it."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    codes = {"f16": tj.F16, "bf16": tj.BF16, "f32": tj.F32, "e4m3": tj.E4M3}
    batch, m, n, k = case["batch"], case["m"], case["n"], case["k"]
    columns, gate = columns_of(case), case.get("gate", "none")

    def make(dtype, shape, strides, elements, filled):
        t = Guarded(torch, torch_type(torch, dtype), shape, strides, elements)
        if filled:
            t.view.copy_(torch.randn(t.shape, generator=generator, device="cuda"))
        return t

    def bound(t, dtype):
        return tj.tensor(t.view.data_ptr(), device, codes[dtype], t.shape, list(t.strides))

    a = make(case["dtype"], *operand(m, k, case["a_transposed"], batch, case["padding"], case["dtype"], case["batch_gap"]), True)
    b = make(case["dtype"], *operand(n, k, case["b_transposed"], 0 if case["b_shared"] else batch, case["padding"], case["dtype"], case["batch_gap"]), True)
    d = make(case["out"], *output(m, columns, batch, case["d_padding"], case["batch_gap"]), case["in_place"])
    c = None
    if case["add_c"]:
        c = d if case["in_place"] else make(case["c"], *output(m, columns, batch, case["d_padding"], case["batch_gap"]), True)
    bias = make(case["out"], [n], [1], n, True) if case["bias"] else None
    before = c.view.clone() if c is not None else None
    scales = [None if scale is None else torch.tensor([scale], dtype=torch.float32, device="cuda") for scale in case["scales"]]
    scale_a, scale_b = (None if scale is None else tj.tensor(scale.data_ptr(), device, tj.F32, [1]) for scale in scales)
    of_a, of_b = a.view, b.view  # as the reference reads them
    if case["blocks"]:
        blocks = [block_scales(torch, generator, x.shape, rows, by_k, by_k) for x, rows, by_k in (
            (a.view, 1, case["scale_orders"][0]), (b.view, 1 if case["blocks"] == "row" else 128, case["blocks"] == "block" or case["scale_orders"][1]))]
        scale_a, scale_b = (tj.tensor(x.data_ptr(), device, tj.F32, list(x.shape), list(x.stride())) for x in blocks)
        of_a, of_b = scaled(torch, a.view, blocks[0], 1), scaled(torch, b.view, blocks[1], 1 if case["blocks"] == "row" else 128)
    runtime.gemm(bound(a, case["dtype"]), bound(b, case["dtype"]), bound(d, case["out"]), c=bound(c, case["c"]) if c is not None else None,
                 bias=bound(bias, case["out"]) if bias is not None else None, alpha=case["alpha"], beta=case["beta"],
                 activation=ACTIVATIONS.index(case["activation"]), stream=torch.cuda.current_stream().cuda_stream,
                 scale_a=scale_a, scale_b=scale_b, gate=ACTIVATIONS.index(gate), gate_interleaved=case.get("gate_interleaved", False),
                 **own_ends.arguments(torch, tj, device, case.get("end")))
    torch.cuda.synchronize()
    wanted = reference(torch, of_a, of_b, before, bias.view if bias is not None else None, case)
    error = relative_error(double(torch, d.view), wanted)
    unwritten, outside = d.unwritten(), d.written_outside()
    return {"error": error, "unwritten": unwritten, "written_outside": outside, "limit": limit_of(case), "ok": error <= limit_of(case) and unwritten == 0 and outside == 0}


def block_scales(torch, generator, shape, rows, by_k, padded):
    """Scales of blocks of `rows` x 128 elements, contiguous in K or in the other dimension; padded: rows of them have a gap."""
    *batch, outer, depth = shape
    sizes = [(outer + rows - 1) // rows, (depth + 127) // 128]
    inner = sizes[1] if by_k else sizes[0]
    memory = torch.rand([*batch, sizes[0] if by_k else sizes[1], inner + (3 if padded else 0)], generator=generator, device="cuda") + 0.5
    return memory[..., :inner] if by_k else memory[..., :inner].transpose(-1, -2)


def scaled(torch, operand, scales, rows):
    """An operand in f64 times the scales of its blocks."""
    outer, depth = operand.shape[-2:]
    return double(torch, operand) * double(torch, scales).repeat_interleave(rows, -2)[..., :outer, :].repeat_interleave(128, -1)[..., :depth]


def unlike(found, wanted):
    """1 - 2 sum(xy) / (sum(xx) + sum(yy)), as users of DeepGEMM measure."""
    return 1 - float(2 * (found * wanted).sum() / ((found * found).sum() + (wanted * wanted).sum()))


def run_quantised(torch, runtime, tj, device, seed, report):
    """Products of e4m3 with scales of blocks, largest magnitude / 448, against f64 products of the bf16 that were quantised. Returns how many failed."""
    generator, failed = torch.Generator(device="cuda").manual_seed(seed), 0
    for m, n, k in ((4096, 4096, 7168), (4096, 7168, 2048), (64, 4096, 7168), (4096, 2112, 7168), (128, 24576, 1536), (777, 1000, 500)):
        a, b = (torch.randn(rows, k, generator=generator, device="cuda").bfloat16() for rows in (m, n))
        parts = []
        for x, rows in ((a, 1), (b, 128)):
            down, across = -(-x.shape[0] // rows), -(-k // 128)
            wide = torch.zeros(down * rows, across * 128, device="cuda")
            wide[:x.shape[0], :k] = x.float()
            scales = wide.view(down, rows, across, 128).abs().amax((1, 3)).clamp(min=1e-4) / 448
            q = torch.zeros(x.shape[0], -(-k // 16) * 16, device="cuda").to(torch.float8_e4m3fn)
            q[:, :k] = (wide / scales.repeat_interleave(rows, 0).repeat_interleave(128, 1))[:x.shape[0], :k].to(torch.float8_e4m3fn)
            parts += [q, scales]
        d = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
        views = [tj.tensor(x.data_ptr(), device, tj.F32 if x.dtype == torch.float32 else tj.E4M3, shape, list(x.stride()))
                 for x, shape in zip(parts, ([m, k], list(parts[1].shape), [n, k], list(parts[3].shape)))]
        runtime.gemm(views[0], views[2], tj.tensor(d.data_ptr(), device, tj.BF16, [m, n], [n, 1]), scale_a=views[1], scale_b=views[3],
                     stream=torch.cuda.current_stream().cuda_stream)
        error = unlike(d.double(), a.double() @ b.double().t())
        failed += not error < QUANTISED_LIMIT
        report(f"quantised {m} x {n} x {k}: {error:.2e}{'' if error < QUANTISED_LIMIT else ' WRONG'} (limit {QUANTISED_LIMIT:.0e})")
    return failed


def run_correctness(torch, runtime, tj, device, count, seed, report, dtypes=("f16", "bf16"), gate="none", ends=False):
    """All cases. `report` is called with a line for each failure. Returns the section of the JSON document."""
    cases = random_cases(random.Random(seed), count, dtypes)
    if gate != "none":
        draw = random.Random(seed + 1)
        cases = [with_gate(case, gate, draw) for case in cases]
    if ends:
        cases = [own_ends.with_end(case, number // KINDS + number) for number, case in enumerate(cases)]
    limits = {name: value for name, value in {**LIMITS, "e4m3 to f32": E4M3_F32_LIMIT}.items() if name in LIMITS or "e4m3" in dtypes}
    worst = {}  # of what was run: a type that no case has is not there
    failures = []
    for number, case in enumerate(cases):
        try:
            result = run_case(torch, runtime, tj, device, case, seed + number)
        except tj.TilejitError as error:
            result = {"ok": False, "refused": str(error)}
        if not result["ok"]:
            failures.append({"number": number, **case, **result})
            report(f"case {number} FAILED: {case} -> {result}")
        if "error" in result:
            name = "e4m3 to f32" if case["dtype"] == "e4m3" and case["out"] == "f32" else case["out"]
            worst[name] = max(worst.get(name, 0.0), result["error"])
    return {"seed": seed, "cases": len(cases), "failed": len(failures), "worst_error": worst, "limits": limits, "failures": failures}


# ---- without a GPU -----------------------------------------------------------------------------------------------------
def self_test(np):
    """Checks problems and reference with NumPy; raises AssertionError."""
    generator = np.random.default_rng(7)
    a, b, c, bias = (generator.standard_normal(s).astype(np.float16) for s in ((2, 3, 5), (4, 5), (2, 3, 4), (4,)))
    for activation in ACTIVATIONS:
        case = {"alpha": -0.5, "beta": 2.0, "activation": activation}
        result = reference(np, a, b, c, bias, case)
        for z in range(2):  # once more, element by element
            for i in range(3):
                for j in range(4):
                    x = -0.5 * sum(float(a[z, i, p]) * float(b[j, p]) for p in range(5)) + 2.0 * float(c[z, i, j]) + float(bias[j])
                    wanted = {"none": x, "relu": max(x, 0.0), "gelu": 0.5 * x * (1 + math.erf(x / math.sqrt(2))), "silu": x / (1 + math.exp(-x)),
                              "gelu_tanh": x * (1 - 1 / (1 + math.exp(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))}[activation]
                    assert abs(result[z, i, j] - wanted) < 1e-12
    wide = {"alpha": 1.0, "beta": 0.0, "activation": "none", "gate": "silu", "n": 4, "gate_interleaved": True}
    plain = a.astype(float) @ b.astype(float).T
    assert np.allclose(reference(np, a, b, None, None, wide), activate(np, plain[..., ::2], "silu") * plain[..., 1::2])
    wide["gate_interleaved"] = False
    assert np.allclose(reference(np, a, b, None, None, wide), activate(np, plain[..., :2], "silu") * plain[..., 2:])
    for case in random_cases(random.Random(3), 100, DTYPES):
        gated = with_gate(case, "gelu", random.Random(4))
        assert gated["n"] % 2 == 0 and gated["n"] >= case["n"] and gated["beta"] == 0 and not gated["b_transposed"] and columns_of(gated) == gated["n"] // 2
    assert unlike(np.ones(3), np.ones(3)) == 0 and abs(unlike(np.array([1.0, 0.0]), np.array([0.0, 1.0])) - 1) < 1e-12
    own_ends.self_test(np)
    case, numbers = {"alpha": 1.0, "beta": 2.0, "activation": "none", "end": 1}, np.array(own_ends.PARAMS)
    wanted = (plain + bias.astype(float)) * numbers[:4] + 0.125 * numbers[[-1, -1, 0]][:, None] + 2 * c.astype(float)
    assert np.allclose(reference(np, a, b, c, bias, case), wanted)
    wanted = np.ones((2, 2))
    assert relative_error(wanted, wanted) == 0 and relative_error(wanted * 1.01, wanted) > 5e-4 and relative_error(wanted * math.nan, wanted) == math.inf
    scaled = {"alpha": 2.0, "beta": 0.0, "activation": "none", "scales": [0.5, None]}
    assert np.allclose(reference(np, a, b, None, None, scaled), a.astype(float) @ b.astype(float).T)
    assert operand(3, 5, False, 0, 1) == ([3, 5], [16, 1], 48) and operand(3, 5, True, 2, 0) == ([2, 3, 5], [40, 1, 8], 80)
    assert operand(3, 5, False, 2, 0, "f16", 1) == ([2, 3, 5], [32, 8, 1], 64) and output(3, 5, 2, 1, 2) == ([2, 3, 5], [30, 6, 1], 60)
    assert operand(3, 17, False, 0, 1, "e4m3") == ([3, 17], [48, 1], 144)
    for seed in range(10):
        cases = random_cases(random.Random(seed), 100, DTYPES)
        for name, values in (("dtype", set(DTYPES)), ("out", set(LIMITS)), ("a_transposed", {True, False}), ("b_transposed", {True, False}),
                             ("activation", set(ACTIVATIONS))):
            assert {case[name] for case in cases} == values, name
        pairs = {(case["dtype"], case["out"], case["a_transposed"], case["b_transposed"]) for case in cases if case["dtype"] != "e4m3"}
        assert len(pairs) >= 12, len(pairs)
        two = {(case["dtype"], case["out"], case["a_transposed"], case["b_transposed"]) for case in random_cases(random.Random(seed), 100)}
        assert len(two) == 2 * 3 * 4, len(two)  # as compare.py asks for them: every output of every type in every order
        assert not any(case["dtype"] == "e4m3" and (case["a_transposed"] or case["b_transposed"]) for case in cases)
    assert limit_of({"dtype": "e4m3", "out": "f32"}) == E4M3_F32_LIMIT and limit_of({"dtype": "e4m3", "out": "f16"}) == 5e-4


# ---- by itself ---------------------------------------------------------------------------------------------------------
def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300, help="random shapes")
    parser.add_argument("--dtype", default=",".join(DTYPES), help="of a and b, separated by commas")
    parser.add_argument("--seed", type=int, help="default: fresh, and printed")
    parser.add_argument("--gate", choices=ACTIVATIONS, default="none", help="of all cases")
    parser.add_argument("--ends", action="store_true", help="texts of device code end all cases; without --gate")
    parser.add_argument("--quantised", action="store_true", help="only products of what is quantised first")
    parser.add_argument("--library", help="libtilejit.so; default: the newest below build/")
    parser.add_argument("--cache-dir", help="default: the library's own")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.dtypes = options.dtype.split(",")
    for name in options.dtypes:
        if name not in DTYPES:
            parser.error(f"--dtype is '{name}'; allowed: {', '.join(DTYPES)}")
    if options.cases < 1:
        parser.error(f"--cases is {options.cases}; allowed: 1 and up")
    return options


def missing(text):
    print(f"gemm_check.py: {text}", file=sys.stderr)
    return 77


def main():
    options = parse()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    built = sorted(glob.glob(os.path.join(root, "build", "*", "lib", "libtilejit.so")), key=os.path.getmtime)
    if not options.library and not built:
        return missing("no libtilejit.so below build/; build the library or name one with --library")
    try:
        import torch
    except ImportError:
        return missing("PyTorch is not installed")
    if not torch.cuda.is_available():
        return missing("PyTorch sees no CUDA device")
    import binding
    seed = secrets.randbits(31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with binding.Runtime(binding.Library(options.library or built[-1]), **({"cache_dir": options.cache_dir} if options.cache_dir else {})) as runtime:
        device = binding.Device(binding.CUDA, 0)
        if options.quantised:
            return 1 if run_quantised(torch, runtime, binding, device, seed, print) else 0
        section = run_correctness(torch, runtime, binding, device, options.cases, seed, print, options.dtypes, options.gate, options.ends)
    worst = ", ".join(f"{name} {error:.2e} (limit {section['limits'][name]:.0e})" for name, error in section["worst_error"].items())
    print(f"{section['cases']} random shapes, {section['failed']} failed; worst relative error {worst}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(0), "correctness": section}, file, indent=2)
    return 1 if section["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
