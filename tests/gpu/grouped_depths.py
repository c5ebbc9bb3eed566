"""Products of groups along K, and scales as exponents, on a GPU: random problems against f64, and times in CUDA graphs.

    python3 tests/gpu/grouped_depths.py --check 200 --seed 1   # gradients of weights: any ends, NaN behind the last, in place, the same bits twice
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
from fmha_features import microseconds
from gemm_check import CHAIN_LIMIT, LIMITS

GPU = "cuda"


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


def show(name, calls, flops):
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
    parser.add_argument("--times", choices=("depths", "exponents"), action="append", default=[])
    options = parser.parse_args()
    draw, wrong = random.Random(options.seed), 0
    torch.manual_seed(options.seed)
    for number in range(options.check):
        why = check_one(draw)
        wrong += bool(why)
        if why:
            print(f"WRONG {number}: {why}", flush=True)
    if options.check:
        print(f"{options.check} problems, {wrong} wrong, seed {options.seed}")
    for what in options.times:
        wrong += {"depths": time_depths, "exponents": time_exponents}[what]() or 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
