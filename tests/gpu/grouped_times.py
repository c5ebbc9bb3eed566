"""Times of products of groups on a GPU, of quantising and of combining, in CUDA graphs; grouped_gemm.py --times runs them.

Decides what is timed and prints; asserts nothing.
"""
import torch

import tilejit.torch  # noqa: F401 -- the operators
from fmha_features import microseconds
from grouped_moe import deep_gemm_us
from rotating import per_call

GPU, E4M3, BLOCK = "cuda", torch.float8_e4m3fn, 128
ROTATED_BYTES = 1 << 30  # of weights that calls of a graph read one after the other: many times L2


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


def weights_of(sets, groups, n, k):
    """e4m3 [sets, groups, N, K]; a matrix at a time, so that large ones need no copy in f32."""
    weights = torch.empty(sets, groups, n, k, dtype=E4M3, device=GPU)
    for each in weights.view(-1, n, k):
        each.copy_(torch.randn(n, k, device=GPU))
    return weights


def masked_call(b, scale_b, counts, most):
    """A product of groups of at most 128 rows, which a list counts."""
    groups, n, k = b.shape
    a, scale_a = narrow(groups, BLOCK, k), torch.rand(groups, -(-k // BLOCK), BLOCK, device=GPU).transpose(1, 2)
    d = torch.empty(groups, BLOCK, n, dtype=torch.bfloat16, device=GPU)
    return lambda: torch.ops.tilejit.grouped_gemm_out(a, b, counts, d, grouping="counts", scale_a=scale_a, scale_b=scale_b, expected_rows=most)


def block_scales(groups, n, k):
    return torch.rand(groups, -(-n // BLOCK), -(-k // BLOCK), device=GPU)


def time_masked():
    """Bytes of weights a second, beside a sum of as many. Those of less than ROTATED_BYTES have copies, so that L2 holds none when its turn comes."""
    for groups, most, n, k in ((16, 64, 4096, 7168), (32, 64, 4096, 7168), (32, 64, 7168, 2048), (16, 16, 4096, 7168), (64, 8, 4096, 7168),
                               (64, 64, 4096, 7168), (8, 64, 4096, 7168), (4, 64, 4096, 7168), (8, 64, 4096, 2048), (8, 8, 7168, 2048), (1, 64, 4096, 7168)):
        sets = max(1, -(-ROTATED_BYTES // (groups * n * k)))
        weights, counts = weights_of(sets, groups, n, k), torch.randint(1, most + 1, (groups,), dtype=torch.int32, device=GPU)
        mean = (most + 1) // 2
        calls = [masked_call(b, block_scales(groups, n, k), counts, mean) for b in weights]
        reads = [lambda words=b.view(torch.int64): words.sum() for b in weights]
        again = 10 if sets == 1 else 1
        ours, read = (min(per_call(each * again) for _ in range(3)) for each in (calls, reads))
        moved = groups * n * k
        print(f"masked e4m3 {groups} groups of 1 to {most} x {n} x {k}, {moved / 1e6:.0f} MB, {sets} sets  "
              f"product {ours:.1f} us {moved / ours / 1e6:.2f} TB/s  a sum of the weights {read:.1f} us {moved / read / 1e6:.2f} TB/s ({read / ours:.2f})", flush=True)
        del weights, calls, reads
        torch.cuda.empty_cache()


def time_empty():
    """What groups without rows cost: the same products by themselves, and among 16 times as many groups whose others are empty."""
    used, n, k = 16, 4096, 2048
    for form, rows in (("counts", 64), ("ends", 64), ("ends", 1024)):
        times = []
        for spread in (1, 16):
            groups = used * spread
            b, scale_b = weights_of(1, groups, n, k)[0], block_scales(groups, n, k)
            listed = torch.zeros(groups, dtype=torch.int32, device=GPU)
            listed[::spread] = rows
            if form == "counts":
                call = masked_call(b, scale_b, listed, rows)
            else:
                call = ends_call(b, scale_b, torch.cumsum(listed, 0).int(), used * rows, rows)
            times.append(per_call([call] * 20))
        print(f"empty groups, {form}: {used} of {rows} rows x {n} x {k} {times[0]:.1f} us, among {16 * used} groups {times[1]:.1f} us "
              f"({(times[1] - times[0]) * 1e3 / (15 * used):.0f} ns a group)", flush=True)


def ends_call(b, scale_b, ends, m, expected):
    _, n, k = b.shape
    a, scale_a, d = narrow(m, k), torch.rand(-(-k // BLOCK), m, device=GPU).t(), torch.empty(m, n, dtype=torch.bfloat16, device=GPU)
    return lambda: torch.ops.tilejit.grouped_gemm_out(a, b, ends, d, scale_a=scale_a, scale_b=scale_b, expected_rows=expected)


def zipf_counts(experts, rows):
    """Rows of each expert, by 1 / rank; they add up. Ranks are shuffled, as large experts lie anywhere."""
    share = 1.0 / torch.arange(1, experts + 1, dtype=torch.float64)
    ends = torch.round(torch.cumsum(share, 0) / share.sum() * rows).long()
    counts = torch.diff(ends, prepend=torch.zeros(1, dtype=torch.long))
    return counts[torch.randperm(experts, generator=torch.Generator().manual_seed(experts + rows))].tolist()


def time_zipf():
    """Groups of uneven numbers of rows: by their ends without padding, padded to 128 rows, and by counts in matrices of their own."""
    n, k = 4096, 7168
    for experts, each in ((8, 2), (64, 8), (256, 8)):
        b, scale_b = weights_of(1, experts, n, k)[0], block_scales(experts, n, k)
        for tokens in (16, 128, 1024, 8192):
            rows = tokens * each
            counts, expected = zipf_counts(experts, rows), -(-rows // experts)
            calls = {"ends": ends_call(b, scale_b, torch.tensor(counts, device=GPU).cumsum(0).int(), rows, expected)}
            padded = [-(-count // BLOCK) * BLOCK for count in counts]
            named = torch.tensor([entry for group, (count, whole) in enumerate(zip(counts, padded)) for entry in [group] * count + [-1] * (whole - count)],
                                 dtype=torch.int32)
            a, scale_a = narrow(sum(padded), k), torch.rand(-(-k // BLOCK), sum(padded), device=GPU).t()
            d, listed = torch.empty(sum(padded), n, dtype=torch.bfloat16, device=GPU), named.to(GPU)
            calls["rows, padded"] = lambda: torch.ops.tilejit.grouped_gemm_out(
                a, b, listed, d, grouping="rows", scale_a=scale_a, scale_b=scale_b, expected_rows=expected)
            if max(counts) <= BLOCK:
                calls["counts"] = masked_call(b, scale_b, torch.tensor(counts, dtype=torch.int32, device=GPU), expected)
            times = dict(zip(calls, microseconds(list(calls.values()), rounds=5)))
            touched = sum(count > 0 for count in counts) * n * k
            print(f"zipf e4m3 {experts} experts, {tokens} tokens of {each}, {max(counts)} rows at most x {n} x {k}",
                  *(f"{name} {us:.1f} us {2 * rows * n * k / us / 1e6:.0f} TFLOP/s {touched / us / 1e6:.2f} TB/s" for name, us in times.items()),
                  f"padded over ends {times['rows, padded'] / times['ends']:.3f}",
                  f"DeepGEMM by its rates {deep_gemm_us(counts, ((n, k),)):.1f} us", sep="  ", flush=True)
            del calls, a, d
        del b
        torch.cuda.empty_cache()


def time_orders():
    """Scales of a that are contiguous in K, as quantising row by row leaves them, beside those contiguous in M."""
    for m, n, k in ((64, 4096, 7168), (128, 7168, 2048), (4096, 4096, 7168), (4096, 7168, 2048), (8192, 8192, 8192)):
        a, b, d = narrow(m, k), narrow(n, k), torch.empty(m, n, dtype=torch.bfloat16, device=GPU)
        scale_b, by_m = torch.rand(-(-n // BLOCK), k // BLOCK, device=GPU), torch.rand(k // BLOCK, m, device=GPU).t()
        by_k = by_m.contiguous()
        calls = {name: lambda scale=scale: torch.ops.tilejit.gemm_out(a, b, d, scale_a=scale, scale_b=scale_b)  # noqa: B023
                 for name, scale in (("contiguous in M", by_m), ("contiguous in K", by_k))}
        _print_times(f"scales of a, {m} x {n} x {k}", calls, 2 * m * n * k)


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


TIMES = {"contiguous": time_contiguous, "masked": time_masked, "empty": time_empty, "zipf": time_zipf, "orders": time_orders, "quantise": time_quantise,
         "combine": time_combine, "gate": time_gate}
