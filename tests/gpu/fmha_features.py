"""Attention's features on a GPU: windows, softcap, ALiBi, sinks, head dims, sequences, pages. Random problems against f64, and times in CUDA graphs.

    python3 tests/gpu/fmha_features.py --check 500 --seed 1      # o and lse against f64, poisoned outputs, the same bits twice
    python3 tests/gpu/fmha_features.py --check 500 --of varlen   # sequences of different lengths (fmha_sequences.py); --of pages
    python3 tests/gpu/fmha_features.py --check 500 --of decode   # few queries, every second problem with pages
    python3 tests/gpu/fmha_features.py --check 500 --of mods     # texts of one's own and biases (fmha_mods.py)
    python3 tests/gpu/fmha_features.py --times mods              # each beside the plain kernel and torch's flex_attention
    python3 tests/gpu/fmha_features.py --times decode            # beside a plain read of K and V (fmha_decode.py)
    python3 tests/gpu/fmha_features.py --times features          # each beside the plain kernel
    python3 tests/gpu/fmha_features.py --times windows           # beside causal attention of as many tokens at S = window
    python3 tests/gpu/fmha_features.py --times head-dims         # beside torch's scaled_dot_product_attention (cuDNN, else its own choice)
    python3 tests/gpu/fmha_features.py --times varlen            # beside dense attention; pages: beside keys one behind the other

It needs torch with CUDA, and tilejit's package: PYTHONPATH=src/python LD_LIBRARY_PATH=build/release/lib. Decides problems and prints; asserts
nothing about times. Exit status 1: a result is wrong.
"""
import argparse
import random
import sys

import torch
import torch.nn.attention as backends

import fmha_decode
import fmha_mods
import fmha_sequences
import tilejit.torch  # noqa: F401 -- the operators

LIMITS, LSE_LIMIT = {torch.float16: 6e-4, torch.bfloat16: 5e-3}, 1e-3
GPU = "cuda"


def reference(q, k, v, causal, scale, left, right, top_left, softcap, slopes, sinks, own=None):
    """(o, lse) in f64, from the definition. own: a function of scores and of the first query's place."""
    q, k, v = q.double(), *(x.double().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    rows, keys = q.shape[2], k.shape[2]
    scores = q @ k.transpose(2, 3) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    place = torch.arange(rows, device=GPU)[:, None] + (0 if top_left else keys - rows) - torch.arange(keys, device=GPU)
    if slopes is not None:
        scores = scores - slopes.double().reshape(-1, q.shape[1], 1, 1) * place.abs()
    if own is not None:
        scores = own(scores, 0 if top_left else keys - rows)
    hidden = (place < 0) & causal
    if left >= 0:
        hidden = hidden | (place > left)
    if right >= 0:
        hidden = hidden | (-place > right)
    scores = scores.masked_fill(hidden, -torch.inf)
    logits = torch.full((1,), -torch.inf, device=GPU) if sinks is None else sinks
    scores = torch.cat((scores, logits.double().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)), 3)
    return torch.nan_to_num(torch.softmax(scores, 3))[..., :keys] @ v, torch.logsumexp(scores, 3)


def drawn(draw):
    """(shapes, type, options) of one problem."""
    kv_heads, dim = draw.randint(1, 3), 8 * draw.randint(1, 32) if draw.random() < 0.5 else draw.choice((64, 96, 128, 192, 256))
    heads, values = kv_heads * draw.randint(1, 4), dim if draw.random() < 0.7 else 8 * draw.randint(1, 32)
    batch, rows, keys = draw.randint(1, 2), draw.randint(1, draw.choice((8, 700))), draw.randint(1, draw.choice((80, 2500)))
    left, right = (draw.randint(-1, 600), draw.randint(-1, 300)) if draw.random() < 0.5 else (-1, -1)
    slopes = draw.choice((None, None, (heads,), (batch, heads)))
    options = {"causal": draw.random() < 0.5, "scale": draw.choice((dim ** -0.5, 1.0, -0.3, 4.0)), "window_left": left, "window_right": right,
               "top_left": draw.random() < 0.3, "softcap": draw.choice((0.0, 0.0, 5.0, 50.0, 2000.0)),
               "alibi_slopes": slopes and torch.exp2(-8 * torch.rand(slopes, device=GPU)),
               "sinks": draw.choice((None, 4 * torch.randn(heads, device=GPU)))}
    return (batch, heads, kv_heads, rows, keys, dim, values), draw.choice((torch.float16, torch.bfloat16)), options


def check(count, seed, mods=False):
    """The number of problems with a wrong result, or refused otherwise than by their sizes. What is refused is printed."""
    draw, wrong, refused = random.Random(seed), 0, 0
    torch.manual_seed(seed)
    for number in range(count):
        (batch, heads, kv_heads, rows, keys, dim, values), dtype, options = drawn(draw)
        q, k, v = (torch.randn(batch, h, s, d, device=GPU).to(dtype) for h, s, d in ((heads, rows, dim), (kv_heads, keys, dim), (kv_heads, keys, values)))
        results, own, given = [], None, options
        if mods:
            texts, own = fmha_mods.drawn(draw, (batch, heads, rows, keys), dtype)
            given = {**options, **texts}
        try:
            torch.ops.tilejit.fmha(q, k, v, **given)
        except tilejit.Error as error:
            refused, wrong = refused + 1, wrong + (error.code != "unsupported" or error.stage == "schedule")
            print(f"REFUSED {number}: D {dim}/{values}: {error}", flush=True)
            continue
        for _ in range(2):
            o, lse = torch.full((batch, heads, rows, values), torch.nan, dtype=dtype, device=GPU), torch.full((batch, heads, rows), torch.nan, device=GPU)
            torch.ops.tilejit.fmha_out(q, k, v, o, lse=lse, **given)
            results.append((o, lse))
        wanted, wanted_lse = reference(q, k, v, *options.values(), own)
        norm = float(wanted.norm())
        error = float((results[0][0].double() - wanted).norm()) / (norm or 1)
        same_bits = torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])
        lse_error = float(torch.where(results[0][1] == wanted_lse, 0.0, (results[0][1] - wanted_lse).abs()).max())
        if not (error <= LIMITS[dtype] and lse_error <= LSE_LIMIT and same_bits):
            wrong += 1
            shown = {name: "given" if isinstance(x, torch.Tensor) else x for name, x in given.items()}
            print(f"WRONG {number}: B {batch} H {heads}/{kv_heads} Sq {rows} Sk {keys} D {dim}/{values} {dtype} {shown}: error {error:.1e}, "
                  f"lse {lse_error:.1e}, same bits {same_bits}", flush=True)
    print(f"{count} problems, {wrong} wrong, {refused} refused, seed {seed}")
    return wrong


def check_sequences(count, seed, of):
    """The number of wrong ones, as check()."""
    draw, bad, refused = random.Random(seed), 0, 0
    torch.manual_seed(seed)
    for number in range(count):
        _, _, options = drawn(draw)
        try:
            pages = of == "pages" or (of == "decode" and number % 2 == 1)
            found = fmha_sequences.check(draw, number, options, pages, reference, LIMITS, LSE_LIMIT, of == "decode")
        except tilejit.Error as error:
            refused, bad = refused + 1, bad + (error.code != "unsupported" or error.stage == "schedule")
            print(f"REFUSED {number}: {error}", flush=True)
            continue
        if found is not None:
            bad += 1
            print(f"WRONG {number}: {found}", flush=True)
    print(f"{count} problems of {of}, {bad} wrong, {refused} refused, seed {seed}")
    return bad


def microseconds(calls, rounds=9):
    """Of each call, the median over rounds in which the calls alternate; each is ten times in a CUDA graph."""
    graphs = []
    for call in calls:
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(10):
                call()
        graphs.append(graph)
    times = [[] for _ in calls]
    for _ in range(rounds):
        for graph, own in zip(graphs, times):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graph.replay()
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            own.append(begin.elapsed_time(end) * 100)
    return [sorted(own)[rounds // 2] for own in times]


def normal(batch, heads, tokens, dim, dtype=torch.bfloat16):
    return torch.randn(batch, heads, tokens, dim, device=GPU, dtype=dtype)


def time_features():
    fmha = torch.ops.tilejit.fmha
    for dim in (128, 64):
        for causal in (True, False):
            q, k, v = (normal(2, 32, 8192, dim) for _ in range(3))
            heads = torch.full((32,), 0.1, device=GPU)
            # A run's first kernel finds the clock higher: ratios are over the plain kernel behind itself.
            kinds = {"plain": {}, "again": {}, "sinks": {"sinks": heads}, "after sinks": {}, "alibi": {"alibi_slopes": heads},
                     "softcap": {"softcap": 50.0}, "large": {"softcap": 1.0}, "all": {"sinks": heads, "alibi_slopes": heads, "softcap": 50.0}}
            times = microseconds([lambda options=options: fmha(q, k, v, causal=causal, **options) for options in kinds.values()])
            shown = (f"{name} {each:.0f} us ({times[1] / each:.2f})" for name, each in zip(kinds, times))
            print(f"D {dim} causal {causal}", *shown, sep="  ", flush=True)


def time_windows():
    fmha = torch.ops.tilejit.fmha
    for dim in (128, 64):
        for window in (128, 1024):
            for tokens in (8192, 16384, 65536):
                q, k, v = (normal(1, 32, tokens, dim) for _ in range(3))
                short = [x.reshape(1, 32, tokens // window, window, dim)[0].transpose(0, 1).contiguous() for x in (q, k, v)]
                in_window, causal = microseconds([lambda: fmha(q, k, v, causal=True, window_left=window - 1), lambda: fmha(*short, causal=True)])
                pairs = tokens * window - window * (window - 1) / 2  # that are seen
                rates = 4 * 32 * dim * pairs / in_window * 1e-6, 4 * 32 * dim * tokens * (window + 1) / 2 / causal * 1e-6
                print(f"D {dim} window {window} S {tokens}: {in_window:.0f} us, {rates[0]:.0f} TFLOP/s; causal at S {window} {rates[1]:.0f}; "
                      f"{rates[0] / rates[1]:.2f}", flush=True)


def time_head_dims():
    torchs = torch.nn.functional.scaled_dot_product_attention
    for dim, values in ((96, 96), (192, 192), (192, 128), (256, 256)):
        for tokens in (1024, 4096, 16384):
            for causal in (True, False):
                q, k, v = (normal(16384 // tokens, 2048 // 128, tokens, d) for d in (dim, dim, values))

                def peer():
                    with backends.sdpa_kernel([backends.SDPBackend.CUDNN_ATTENTION, backends.SDPBackend.FLASH_ATTENTION]):
                        return torchs(q, k, v, is_causal=causal)
                calls = [lambda: torch.ops.tilejit.fmha(q, k, v, causal=causal)]
                try:
                    peer()
                    calls.append(peer)
                except RuntimeError:
                    print("no peer:", end=" ")
                times = microseconds(calls)
                flops = 2 * 16 * 16384 * tokens * (dim + values) / (2 if causal else 1)
                print(f"D {dim}/{values} S {tokens} causal {causal}: {times[0]:.0f} us, {flops / times[0] * 1e-6:.0f} TFLOP/s",
                      *(f"torch's {each:.0f} us, {each / times[0]:.2f}" for each in times[1:]), sep="  ", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=int, default=0, help="so many random problems")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", choices=("features", "windows", "head-dims", "varlen", "pages", "decode", "mods"))
    parser.add_argument("--alone", action="store_true", help="--times mods: without torch's flex_attention")
    parser.add_argument("--of", choices=("batches", "varlen", "pages", "decode", "mods"), default="batches", help="the problems of --check")
    given = parser.parse_args()
    with torch.no_grad():
        if given.times:
            {"features": time_features, "windows": time_windows, "head-dims": time_head_dims,
             "varlen": lambda: [fmha_sequences.time_varlen(microseconds, random.Random(given.seed + i)) for i in range(3)],
             "mods": lambda: fmha_mods.time_mods(microseconds, random.Random(given.seed), not given.alone),
             "decode": lambda: fmha_decode.time_decode(random.Random(given.seed)),
             "pages": lambda: fmha_sequences.time_pages(microseconds, random.Random(given.seed))}[given.times]()
        if given.check and given.of not in ("batches", "mods"):
            return 1 if check_sequences(given.check, given.seed, given.of) else 0
        return 1 if given.check and check(given.check, given.seed, given.of == "mods") else 0


if __name__ == "__main__":
    sys.exit(main())
