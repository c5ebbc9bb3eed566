"""Layers of experts on a GPU: random ones against a loop over experts in f64, and times beside the same layer out of torch's parts.

Decides problems, the peer's parts and what is printed. Asserts nothing about times. Routing is torch's sort on both sides. The peer's products of
e4m3 have a scale for each row, as torch has no grouped product with scales of blocks; Triton quantises for it. grouped_gemm.py runs this.
"""
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tilejit.torch
from fmha_features import microseconds
from gemm_check import E4M3_F32_LIMIT, LIMITS, activate

E4M3, BLOCK, LARGEST = torch.float8_e4m3fn, 128, 448.0
MODELS = {"mixtral": ("Mixtral-8x7B", 8, 2, 4096, 14336), "deepseek": ("DeepSeek-V3, 64 experts", 64, 8, 7168, 2048)}
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
# ||found - wanted|| / ||wanted||: bf16 rounds what the first product leaves, the sums of an expert and the result. Quantised weights have no more: they
# are held to what the second product was given.
MOE_LIMITS = {torch.float16: 1e-3, torch.bfloat16: 5e-3, E4M3: 5e-3}
SCALE_LIMIT = 5e-3  # of a scale, relative: what the largest product of a block is wrong by
DEEP_GEMM = {7168: 1390e12, 2048: 1318e12}  # flops a second of its contiguous groups by K: 4 x 8192 and 8 x 4096 rows, an H200, graphs, 2026-11-22
READ_BYTES = 4.6e12                         # a second, of reads alone, on that card


def blocks_in_f64(values, scales, rows):
    return values.double() * scales.double().repeat_interleave(rows, -2).repeat_interleave(BLOCK, -1)[..., :values.shape[-2], :values.shape[-1]]


def quantised(w):
    """e4m3 and scales of blocks of each matrix; one after the other, so that large ones need no copy in f32."""
    parts = [torch.ops.tilejit.quantise(each, rows=BLOCK) for each in w]
    return torch.stack([q.view(torch.uint8) for q, _ in parts]).view(E4M3), torch.stack([s for _, s in parts])


# ---- the check ---------------------------------------------------------------------------------------------------------
class Stages(TorchDispatchMode):
    """Keeps what each operator of tilejit that a layer calls was given and what it left, in their order."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func.namespace == "tilejit":
            given = dict(zip((argument.name for argument in func._schema.arguments), args), **(kwargs or {}))
            self.calls.append((func._schema.name.split("::")[1], given, found))
        return found

    def quantised(self):
        """(q, scales) of what each product reads, and what the first one left where that was quantised apart, else None."""
        first = self.calls[0]
        second = next(call for call in self.calls[1:] if call[0] in ("quantise", "grouped_gemm_quantised"))
        return first[2], second[2], second[1]["x"] if second[0] == "quantise" else None


def beyond_rounding(q, scales, wanted):
    """How far elements lie from what they should be, beyond half a step of e4m3: what rounding leaves of an exact number is 0. So a number
    beside a boundary may fall to either side, and one that is a step away may not."""
    least = 2.0**-6  # the smallest normal number
    sizes = q.double().abs().clamp(min=least)
    half = sizes / torch.frexp(sizes).mantissa * 2.0**-5  # exactly, as log2() of a power of two may be less than a whole number on a GPU
    return ((blocks_in_f64(q, scales, 1) - wanted).abs() - blocks_in_f64(half, scales, 1)).clamp(min=0)


def why_not_quantised(name, q, scales, wanted, limit):
    """Why q and scales are not those of wanted [rows, columns], of which the kernel knew each row but for an error of `limit`; "" when they are."""
    if not wanted.numel():
        return ""
    blocks = torch.nn.functional.pad(wanted, (0, -wanted.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK)).abs().amax(2).clamp(min=1e-4) / LARGEST
    scale_error = float((scales.double() / blocks - 1).abs().max())
    error = float((beyond_rounding(q, scales, wanted).norm(dim=1) / wanted.norm(dim=1).clamp(min=1e-30)).max())
    if not scale_error <= SCALE_LIMIT:
        return f"a scale of {name} is wrong by {scale_error:.1e}, limit {SCALE_LIMIT:.1e}"
    return "" if error <= limit else f"a row of {name} is beyond its rounding by {error:.1e}, limit {limit:.1e}"


def in_f64(hidden, w1, w2, weights, ids, gate, stages=None):
    """The layer by a loop over experts, and why one of its stages is wrong or "". Of quantised weights a stage is held to f64 of what the stages
    before it left: one of their elements on the other side of a boundary moves a token with few experts by a percent, and is no fault."""
    wanted = torch.zeros(hidden.shape, dtype=torch.float64, device=hidden.device)
    read, left, apart = stages.quantised() if stages else (None, None, None)
    rows, why, begin = {"hidden": [], "inner": []}, "", 0
    for expert in range(w1.shape[0]):
        token, choice = torch.where(ids == expert)
        if not token.numel():
            continue
        of, begin = slice(begin, begin + token.numel()), begin + token.numel()
        entered = blocks_in_f64(read[0][of], read[1][of], 1) if stages else hidden[token].double()
        up = entered @ w1[expert].t()
        if apart is not None:
            norm = float(up.norm())
            error = float((apart[of].double() - up).norm()) / norm if norm else 0.0
            why = why or ("" if error <= LIMITS["bf16"] else f"the first product of expert {expert} is wrong by {error:.1e}, limit {LIMITS['bf16']:.1e}")
            up = apart[of].double()
        gates, factors = up.chunk(2, 1)
        inner = activate(torch, gates, gate) * factors
        rows["hidden"].append(hidden[token].double()), rows["inner"].append(inner)
        inner = blocks_in_f64(left[0][of], left[1][of], 1) if stages else inner
        wanted.index_add_(0, token, weights[token, choice].double()[:, None] * (inner @ w2[expert].t()))
    for name, found in (("hidden", read), ("inner", left)) if stages and begin else ():
        factors = 2 if name == "inner" and apart is None else 1  # of a gate, each with a product's error
        why = why or why_not_quantised(name, found[0][:begin], found[1][:begin], torch.cat(rows[name]), factors * E4M3_F32_LIMIT)
    return wanted, why


def check_moe(draw, device="cuda", small=False):
    """Why a layer is wrong; "" when it is right."""
    experts, dtype = draw.randint(1, draw.choice((2, 9, 40))), draw.choice((torch.float16, torch.bfloat16, E4M3))
    each, tokens = draw.randint(1, min(experts, 4)), draw.randint(1, draw.choice((3, 40) if small else (3, 100, 2000)))
    width, inner = BLOCK * draw.randint(1, 2 if small else 16), draw.choice((64, 128, 192) if small else (64, 128, 192, 1024, 1408))
    gate, of = draw.choice(("silu", "gelu", "gelu_tanh", "relu")), torch.bfloat16 if dtype == E4M3 else dtype
    generator = torch.Generator(device=device).manual_seed(draw.randrange(1 << 31))
    normal = lambda *shape: torch.randn(shape, generator=generator, device=device)  # noqa: E731
    hidden, w1 = normal(tokens, width).to(of), (normal(experts, 2 * inner, width) / width**0.5).to(of)
    w2 = (normal(experts, width, inner) / inner**0.5).to(of)
    ids = torch.stack([torch.randperm(experts, generator=generator, device=device)[:each] for _ in range(tokens)])
    ids = torch.where(torch.rand(ids.shape, generator=generator, device=device) < draw.choice((0.0, 0.2)), -1, ids)
    weights, options = torch.rand(ids.shape, generator=generator, device=device), {"activation": gate}
    left, right = w1.double(), w2.double()
    if dtype == E4M3:
        (w1, options["w1_scale"]), (w2, options["w2_scale"]) = quantised(w1), quantised(w2)
        left, right = blocks_in_f64(w1, options["w1_scale"], BLOCK), blocks_in_f64(w2, options["w2_scale"], BLOCK)
    with Stages() as stages:
        found = [tilejit.torch.fused_moe(hidden, w1, w2, weights, ids, **options)]
    found.append(tilejit.torch.fused_moe(hidden, w1, w2, weights, ids, **options))
    wanted, why = in_f64(hidden, left, right, weights, ids, gate, stages if dtype == E4M3 else None)
    norm = float(wanted.norm())
    error = float((found[0].double() - wanted).norm()) / norm if norm else float(found[0].double().abs().max())
    said = f"fused_moe E {experts} K {each} T {tokens} H {width} I {inner} {dtype} {gate}: "
    if why:
        return said + why
    if not error <= MOE_LIMITS[dtype]:
        return said + f"error {error:.1e}, limit {MOE_LIMITS[dtype]:.1e}"
    return "" if torch.equal(*found) else said + "other bits"


# ---- the peer ----------------------------------------------------------------------------------------------------------
def triton_kernels():
    """(quantise gathered rows, SwiGLU and quantise), a scale for each row; None where there is no Triton."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit
    def finish(values, q, scale, row, columns, at, mask):
        factor = tl.maximum(tl.max(tl.abs(values), 0), 1e-10) / 448.0
        tl.store(q + row * columns + at, (values / factor).to(tl.float8e4nv), mask=mask)
        tl.store(scale + row, factor)

    @triton.jit
    def gather(x, rows, q, scale, columns, WIDTH: tl.constexpr):
        row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
        source, mask = tl.load(rows + row), at < columns
        finish(tl.load(x + source * columns + at, mask=mask, other=0.0).to(tl.float32), q, scale, row, columns, at, mask)

    @triton.jit
    def swiglu(x, q, scale, columns, WIDTH: tl.constexpr):
        row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
        mask = at < columns
        left = tl.load(x + row * 2 * columns + at, mask=mask, other=0.0).to(tl.float32)
        right = tl.load(x + row * 2 * columns + columns + at, mask=mask, other=0.0).to(tl.float32)
        finish(left / (1.0 + tl.exp(-left)) * right, q, scale, row, columns, at, mask)

    wide = triton.next_power_of_2
    return (lambda x, rows, q, scale: gather[(rows.numel(),)](x, rows, q, scale, x.shape[1], WIDTH=wide(x.shape[1]), num_warps=8),
            lambda x, q, scale: swiglu[(x.shape[0],)](x, q, scale, q.shape[1], WIDTH=wide(q.shape[1]), num_warps=8))


def routed(ids, experts):
    """(rows of hidden in the order of experts, ends, places in that order)."""
    flat = ids.reshape(-1)
    sorted_ids, order = torch.sort(flat, stable=True)
    ends = torch.searchsorted(sorted_ids, torch.arange(experts, device=flat.device), right=True).int()
    return order // ids.shape[1], ends, order


def combined(down, order, weights, tokens):
    """Sums of a token's experts, by atomics."""
    weighted = down * weights.reshape(-1).index_select(0, order)[:, None].to(down.dtype)
    return torch.zeros(tokens, down.shape[1], dtype=down.dtype, device=down.device).index_add_(0, order // weights.shape[1], weighted)


def peer_bf16(hidden, w1, w2, weights, ids, product):
    """A call of the layer out of torch's parts; product(a, w, ends) multiplies."""
    def call():
        rows, ends, order = routed(ids, w1.shape[0])
        up = product(hidden.index_select(0, rows), w1, ends)
        left, right = up.chunk(2, 1)
        return combined(product(torch.nn.functional.silu(left) * right, w2, ends), order, weights, hidden.shape[0])
    return call


def peer_e4m3(hidden, w1, w2, scales, weights, ids, kernels, product):
    """The same of e4m3 with a scale for each row; product(a, scale_a, w, scale_w, ends)."""
    def call():
        rows, ends, order = routed(ids, w1.shape[0])
        count, inner = rows.numel(), w1.shape[1] // 2
        q, scale = torch.empty(count, hidden.shape[1], dtype=E4M3, device=hidden.device), torch.empty(count, device=hidden.device)
        kernels[0](hidden, rows, q, scale)
        up = product(q, scale, w1, scales[0], ends)
        q, scale = torch.empty(count, inner, dtype=E4M3, device=hidden.device), torch.empty(count, device=hidden.device)
        kernels[1](up, q, scale)
        return combined(product(q, scale, w2, scales[1], ends), order, weights, hidden.shape[0])
    return call


def no_product(a, w, *_):
    """In the place of a product: what the other parts take. Its result has any values."""
    return torch.empty(a.shape[0], w.shape[1], dtype=torch.bfloat16, device=a.device)


def deep_gemm_us(rows_of, products):
    """Products [N, K] at DeepGEMM's measured rates, or as long as their weights take to read: groups are padded to 128 rows. An estimate."""
    total = 0.0
    for n, k in products:
        rate = DEEP_GEMM[7168 if k >= 4096 else 2048]
        padded, touched = sum(-(-rows // BLOCK) * BLOCK for rows in rows_of), sum(rows > 0 for rows in rows_of)
        total += max(2.0 * padded * n * k / rate, touched * n * k / READ_BYTES)
    return total * 1e6


def timed_peer(name, call, ours):
    """"name us (ratio over ours)", or why there is none."""
    try:
        us = microseconds([call], rounds=5)[0]
    except (RuntimeError, TypeError, AttributeError, ValueError) as error:
        return f"{name} absent: {str(error).splitlines()[0][:80]}", None
    return f"{name} {us:.0f} us ({us / ours:.2f})", us


def random_weights(*shape):
    """bf16 weights; a matrix at a time, so that large ones need no copy in f32."""
    weights = torch.empty(shape, dtype=torch.bfloat16, device="cuda")
    for each in weights:
        each.copy_(torch.randn(shape[1:], device="cuda") / shape[-1]**0.5)
    return weights


def time_model(name, experts, each, width, inner, batches):
    """Prints a line for each batch and type of weights: ours, torch's parts and their ratio to ours."""
    w1, w2 = random_weights(experts, 2 * inner, width), random_weights(experts, width, inner)
    (q1, s1), (q2, s2) = quantised(w1), quantised(w2)
    kernels, moe = triton_kernels(), tilejit.torch.fused_moe
    grouped = lambda a, w, ends: torch._grouped_mm(a, w.transpose(1, 2), offs=ends)  # noqa: E731
    scaled = lambda a, sa, w, sw, ends: torch._scaled_grouped_mm(  # noqa: E731
        a, w.transpose(1, 2), sa, sw, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True)
    of_rows = [torch.ones(experts, rows, device="cuda") for rows in (2 * inner, width)]
    for tokens in batches:
        hidden, weights = torch.randn(tokens, width, device="cuda").bfloat16(), torch.rand(tokens, each, device="cuda")
        ids = torch.stack([torch.randperm(experts, device="cuda")[:each] for _ in range(tokens)])
        ours = microseconds([lambda: moe(hidden, w1, w2, weights, ids),
                             lambda: moe(hidden, q1, q2, weights, ids, w1_scale=s1, w2_scale=s2)], rounds=5)
        plain, _ = timed_peer("torch's parts", peer_bf16(hidden, w1, w2, weights, ids, grouped), ours[0])
        print(f"{name}, {tokens} tokens: bf16 {ours[0]:.0f} us, {plain}", flush=True)
        if kernels is None:
            print(f"{name}, {tokens} tokens: e4m3 {ours[1]:.0f} us, torch's parts absent: no Triton", flush=True)
            continue
        peer = lambda product: peer_e4m3(hidden, q1, q2, of_rows, weights, ids, kernels, product)  # noqa: E731, B023
        whole, _ = timed_peer("with scales of rows", peer(scaled), ours[1])
        parts, rest = timed_peer("without products", peer(lambda a, _, w, *more: no_product(a, w)), ours[1])
        rows_of = torch.bincount(ids.reshape(-1), minlength=experts).tolist()
        products = deep_gemm_us(rows_of, ((2 * inner, width), (width, inner)))
        said = "" if rest is None else f", and with DeepGEMM's products by its rates {rest + products:.0f} us ({(rest + products) / ours[1]:.2f})"
        print(f"{name}, {tokens} tokens: e4m3 {ours[1]:.0f} us, {whole}, {parts}{said}", flush=True)


def time_moe(models=tuple(MODELS), batches=BATCHES):
    for model in models:
        time_model(*MODELS[model], batches)
        torch.cuda.empty_cache()
