"""Products of groups along K, and scales as exponents, on a GPU: random problems against f64, and times in CUDA graphs.

    python3 tests/gpu/grouped_depths.py --check 200 --seed 1   # gradients of weights: any ends, NaN behind the last, in place, the same bits twice
    python3 tests/gpu/grouped_depths.py --check 100 --narrow   # likewise of e4m3: quantised transposed, scales of 128 tokens, ends at multiples of 128
    python3 tests/gpu/grouped_depths.py --check 20 --narrow --cpu --seed 2     # small ones on the CPU model
    python3 tests/gpu/grouped_depths.py --times transposed     # quantising transposed, beside a copy of as many bytes
    python3 tests/gpu/grouped_depths.py --times narrow         # e4m3 beside bf16, with quantising and without
    python3 tests/gpu/grouped_depths.py --times depths         # beside torch's grouped product, and one product of as many flops
    python3 tests/gpu/grouped_depths.py --times exponents      # e4m3 with i32 scales beside f32 ones, whose bits must be the same

It needs torch with CUDA, and tilejit's package: PYTHONPATH=src/python LD_LIBRARY_PATH=build/release/lib. Decides problems and prints; asserts
nothing about times. Exit status 1: a result is wrong.
"""
import argparse
import random
import sys

import torch

import tilejit.torch  # noqa: F401 -- the operators
from gemm_check import CHAIN_LIMIT, E4M3_F32_LIMIT, LIMITS

GPU, BLOCK = "cuda", 128


def check_one(draw):
    """Why the problem is wrong; "" when it is right."""
    groups, most = draw.randint(1, draw.choice((3, 40))), draw.choice((1, 70, 700, 5000))
    m, n = draw.choice((8, 64, 200, 1000, 2112)), draw.choice((8, 136, 512, 1536))
    dtype, out = draw.choice((torch.float16, torch.bfloat16)), draw.choice((torch.float32, torch.float32, torch.bfloat16))
    depths = [0 if draw.random() < 0.3 else draw.randint(1, most) for _ in range(groups)]
    ends, all_k = [sum(depths[:g + 1]) for g in range(groups)], max(1, sum(depths) + draw.choice((0, 1, 90)))
    dy, x = (torch.full((all_k, width), torch.nan, device=GPU) for width in (m, n))
    for each in (dy, x):
        each[:ends[-1]] = torch.randn(ends[-1], each.shape[1], device=GPU)
    dy, x, listed = dy.to(dtype), x.to(dtype), torch.tensor(ends, dtype=torch.int32, device=GPU)
    beta, bias = draw.choice((0.0, 1.0, -0.5)), torch.randn(groups, n, device=GPU).to(out) if draw.random() < 0.3 else None
    before, results = torch.randn(groups, m, n, device=GPU).to(out), []
    for _ in range(2):
        d = before.clone() if beta else torch.full_like(before, torch.nan)
        torch.ops.tilejit.grouped_gemm_out(dy.t(), x.t(), listed, d, grouping="depths", bias=bias, c=d if beta else None, beta=beta,
                                           expected_rows=draw.choice((0, 0, 1, 5000)))
        results.append(d)
    wanted = beta * before.double()
    for g, (begin, end) in enumerate(zip([0, *ends], ends)):
        wanted[g] += dy[begin:end].double().t() @ x[begin:end].double()
    if bias is not None:
        wanted += bias.double()[:, None]
    norm = float(wanted.norm())
    error = float((results[0].double() - wanted).norm()) / norm if norm else float(results[0].double().norm())
    said = f"G {groups} M {m} N {n} K {sum(depths)} {dtype}->{out} beta {beta} {'bias' if bias is not None else ''}: "
    if not error <= (max(LIMITS["f32"], CHAIN_LIMIT * max(depths)) if out == torch.float32 else LIMITS["bf16"]):
        return said + f"error {error:.1e}"
    return "" if torch.equal(results[0], results[1]) else said + "other bits"


def made_of(scales, blocks):
    """Scales in f64, also of those that are four exponents in a word."""
    if scales.dtype == torch.float32:
        return scales.double()
    return torch.exp2(torch.stack([scales >> 8 * byte & 255 for byte in range(4)], -1).flatten(1)[:, :blocks].double() - 127)


def check_narrow(draw, device, small):
    """Why a gradient of e4m3, or what it is made of, is wrong; "" when both are right."""
    groups, most = draw.randint(1, 3 if small else draw.choice((3, 40))), 2 if small else draw.choice((1, 5, 40))
    m, n = (draw.choice((8, 72, 136)) if small else draw.choice((8, 64, 200, 1000, 2112)) for _ in range(2))
    ends, row = [], 0
    for _ in range(groups):
        row += 0 if draw.random() < 0.3 else BLOCK * draw.randint(1, most)
        ends.append(row)
    tokens = max(ends[-1] + draw.choice((0, 16, 128)), 16)
    if draw.random() < 0.3 and groups > 1 and ends[-1] > ends[-2]:
        tokens = ends[-1] = ends[-1] - draw.choice((16, 48))  # the last group ends with K
    options = draw.choice(({}, {"powers_of_two": True}, {"packed": True}))
    parts, operands = [], []
    for width in (m, n):
        x = torch.full((tokens, width), torch.nan, device=device)
        x[:ends[-1]] = torch.randn(ends[-1], width, device=device)
        x = x.to(draw.choice((torch.float16, torch.bfloat16)))
        q, scales = torch.ops.tilejit.quantise(x, transposed=True, **options)
        other, same = torch.ops.tilejit.quantise(x.t().contiguous(), **options)
        if not torch.equal(q.view(torch.uint8), other.view(torch.uint8)) or not torch.equal(scales, same):
            return f"quantise {tokens} x {width} {x.dtype} {options}: not as a transposed copy"
        blocks = -(-tokens // BLOCK)
        parts.append((q, scales))
        operands.append(q.double() * made_of(scales, blocks).repeat_interleave(BLOCK, 1)[:, :tokens])
    (qa, sa), (qb, sb) = parts
    listed, beta = torch.tensor(ends, dtype=torch.int32, device=device), draw.choice((0.0, 1.0))
    before, results = torch.randn(groups, m, n, device=device), []
    for _ in range(2):
        d = before.clone() if beta else torch.full_like(before, torch.nan)
        torch.ops.tilejit.grouped_gemm_out(qa, qb, listed, d, grouping="depths", scale_a=sa, scale_b=sb, c=d if beta else None, beta=beta)
        results.append(d)
    wanted = beta * before.double()
    for g, (begin, end) in enumerate(zip([0, *ends], ends)):
        wanted[g] += operands[0][:, begin:end] @ operands[1][:, begin:end].t()
    norm = float(wanted.norm())
    error = float((results[0].double() - wanted).norm()) / norm if norm else float(results[0].double().norm())
    said = f"G {groups} M {m} N {n} ends {ends if groups < 6 else ends[-1]} of {tokens} e4m3 {options} beta {beta}: "
    if not error <= E4M3_F32_LIMIT:
        return said + f"error {error:.1e}"
    return "" if torch.equal(*results) else said + "other bits"


def show(name, calls, flops):
    from fmha_features import microseconds
    times = microseconds(list(calls.values()), rounds=5)
    print(name, *(f"{what} {each:.1f} us {flops / each / 1e6:.0f} TFLOP/s" for what, each in zip(calls, times)), sep="  ", flush=True)


def time_depths():
    for groups, each, m, n in ((4, 8192, 4096, 7168), (8, 4096, 7168, 2048), (64, 512, 2048, 7168), (64, 128, 2048, 7168)):
        k = groups * each
        dy, x = torch.randn(k, m, device=GPU).bfloat16(), torch.randn(k, n, device=GPU).bfloat16()
        ends = torch.arange(each, k + 1, each, dtype=torch.int32, device=GPU)
        grad, narrow = torch.zeros(groups, m, n, device=GPU), torch.empty(groups, m, n, dtype=torch.bfloat16, device=GPU)
        call, one = torch.ops.tilejit.grouped_gemm_out, torch.empty(m, n, dtype=torch.bfloat16, device=GPU)
        calls = {"f32, adding": lambda: call(dy.t(), x.t(), ends, grad, grouping="depths", c=grad, beta=1.0),
                 "bf16": lambda: call(dy.t(), x.t(), ends, narrow, grouping="depths"),
                 "one product over all K": lambda: torch.ops.tilejit.gemm_out(dy.t(), x.t(), one)}
        if hasattr(torch, "_grouped_mm"):
            calls["torch, bf16"] = lambda: torch._grouped_mm(dy.t(), x, offs=ends)
        show(f"depths {groups} x {each} x {m} x {n}", calls, 2 * k * m * n)


def time_narrow():
    """Gradients of weights in e4m3, of operands that are there and with what makes them, beside bf16."""
    quantise, call = torch.ops.tilejit.quantise, torch.ops.tilejit.grouped_gemm_out
    for groups, each, m, n in ((4, 8192, 4096, 7168), (8, 4096, 7168, 2048), (64, 512, 2048, 7168), (64, 128, 2048, 7168)):
        k = groups * each
        dy, x = torch.randn(k, m, device=GPU).bfloat16(), torch.randn(k, n, device=GPU).bfloat16()
        ends, grad = torch.arange(each, k + 1, each, dtype=torch.int32, device=GPU), torch.zeros(groups, m, n, device=GPU)
        (qa, sa), (qb, sb) = quantise(dy, transposed=True), quantise(x, transposed=True)

        def narrow():
            call(qa, qb, ends, grad, grouping="depths", c=grad, beta=1.0, scale_a=sa, scale_b=sb)

        def made():
            torch.ops.tilejit.quantise_out(dy, qa, sa, transposed=True)
            torch.ops.tilejit.quantise_out(x, qb, sb, transposed=True)
            narrow()

        show(f"narrow {groups} x {each} x {m} x {n}", {"e4m3, adding": narrow, "with both quantised": made, "bf16, adding": lambda: call(
            dy.t(), x.t(), ends, grad, grouping="depths", c=grad, beta=1.0)}, 2 * k * m * n)


def time_transposed():
    from fmha_features import microseconds
    for m, k in ((8192, 7168), (4096, 2048), (65536, 1536), (32768, 4096)):
        x = torch.randn(m, k, device=GPU).bfloat16()
        q, scales = torch.ops.tilejit.quantise(x, transposed=True)
        moved = x.numel() * 2 + q.numel() + scales.numel() * 4
        source = torch.empty(moved // 2, dtype=torch.uint8, device=GPU)
        target = torch.empty_like(source)
        plain, into = torch.ops.tilejit.quantise(x), torch.ops.tilejit.quantise_out
        times = microseconds([lambda: into(x, q, scales, transposed=True), lambda: into(x, *plain), lambda: target.copy_(source)], rounds=5)
        print(f"quantise {m} x {k} transposed  {times[0]:.1f} us {moved / times[0] / 1e6:.2f} TB/s  in place {times[1]:.1f} us  a copy {times[2]:.1f} us "
              f"({times[2] / times[0]:.2f})", flush=True)


def time_exponents():
    """How many products with exponents have other bits than those with scales of f32."""
    wrong = 0
    for m, n, k in ((4096, 4096, 7168), (128, 7168, 2048), (4096, 7168, 16384)):
        a, b = torch.randn(m, k, device=GPU).bfloat16(), torch.randn(n, k, device=GPU).bfloat16()
        (qa, ea), (qb, eb) = torch.ops.tilejit.quantise(a, packed=True), torch.ops.tilejit.quantise(b, rows=128, packed=True)
        sa, sb = torch.ops.tilejit.quantise(a, powers_of_two=True)[1], torch.ops.tilejit.quantise(b, rows=128, powers_of_two=True)[1]
        packed, plain = (torch.empty(m, n, dtype=torch.bfloat16, device=GPU) for _ in range(2))
        show(f"exponents {m} x {n} x {k}", {"i32": lambda: torch.ops.tilejit.gemm_out(qa, qb, packed, scale_a=ea, scale_b=eb),
                                            "f32": lambda: torch.ops.tilejit.gemm_out(qa, qb, plain, scale_a=sa, scale_b=sb)}, 2 * m * n * k)
        wrong += not torch.equal(packed, plain)
    print(f"{wrong} products with exponents have other bits")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--narrow", action="store_true", help="--check of e4m3")
    parser.add_argument("--cpu", action="store_true", help="--narrow on the CPU model, small")
    parser.add_argument("--times", choices=("depths", "exponents", "narrow", "transposed"), action="append", default=[])
    options = parser.parse_args()
    draw, wrong = random.Random(options.seed), 0
    torch.manual_seed(options.seed)
    for number in range(options.check):
        why = check_narrow(draw, "cpu" if options.cpu else GPU, options.cpu) if options.narrow else check_one(draw)
        wrong += bool(why)
        if why:
            print(f"WRONG {number}: {why}", flush=True)
    if options.check:
        print(f"{options.check} problems, {wrong} wrong, seed {options.seed}")
    for what in options.times:
        wrong += {"depths": time_depths, "exponents": time_exponents, "narrow": time_narrow, "transposed": time_transposed}[what]() or 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
