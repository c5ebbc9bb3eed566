"""Texts of one's own and biases on a GPU: random problems against f64, and rates beside the plain kernel and torch's flex_attention.

fmha_features.py calls it. Decides problems and prints; asserts nothing about times.
"""
import torch

import tilejit.torch  # noqa: F401 -- the operators

GPU = "cuda"


def document_texts(tokens):
    """Texts of a mask of documents. Rows before the first token and behind the last see nothing."""
    return {"mask_mod": f"const bool same = params.i32(2 * q) == params.i32(2 * k);\nreturn same && q >= 0 && q < {tokens};",
            "key_range": f"const int first = q0 < 0 ? 0 : q0, last = q1 > {tokens} ? {tokens} : q1;\nk1 = 0;\n"
                         "if (first < last) { k0 = params.i32(2 * first); k1 = params.i32(2 * (last - 1) + 1); }\n"
                         "if (first == q0 && last == q1 && params.i32(2 * (q1 - 1)) == k0) { all0 = k0; all1 = k1; }"}


def documents(count, draw, mean):
    """i32 [2 * count]: for each position the first of its document, and the one behind its last."""
    numbers, first = [], 0
    while first < count:
        end = min(count, first + draw.randint(1, 2 * mean))
        numbers += [first, end] * (end - first)
        first = end
    return torch.tensor(numbers, dtype=torch.int32, device=GPU)


def _document(draw, shape):
    numbers = documents(shape[3], draw, 200)
    firsts = numbers[::2].long()
    texts = {**document_texts(shape[3]), "mod_params": numbers}
    if draw.random() < 0.3:
        del texts["key_range"]

    def masked(scores, b, h, q, k):
        other = firsts[q.clamp(0, shape[3] - 1)] != firsts[k]
        return scores.masked_fill(other | (q < 0) | (q >= shape[3]), -torch.inf)
    return texts, masked


def _slopes(draw, shape):
    slopes = torch.exp2(-8 * torch.rand(shape[1], device=GPU))
    return ({"score_mod": "return score - params.f32(h) * (q > k ? q - k : k - q);", "mod_params": slopes},
            lambda scores, b, h, q, k: scores - slopes.double()[h] * (q - k).abs())


def _strided(draw, shape):
    step = draw.randint(2, 7)
    return ({"mask_mod": f"return (q + k + h + b) % {step} != 0;", "key_range": "if (q1 <= 3) k1 = 0;",
             "score_mod": "return q < 3 ? -1.0f / 0.0f : score;"},
            lambda scores, b, h, q, k: scores.masked_fill(((q + k + h + b).fmod(step) == 0) | (q < 3), -torch.inf))


def drawn(draw, shape, dtype):
    """(options, function of scores and places) of a problem whose scores have this shape [B, H, Sq, Sk]."""
    options, own = draw.choice((_document, _slopes, _strided))(draw, shape) if draw.random() < 0.8 else ({}, lambda scores, *places: scores)
    bias = None
    if not options or draw.random() < 0.4:
        bias = 2 * torch.randn([draw.choice((1, size)) for size in shape], device=GPU)
        bias = bias.to(draw.choice((torch.float32, dtype)))
        options["bias"] = bias.expand(shape) if draw.random() < 0.3 else bias

    def changed(scores, first):
        places = [torch.arange(size, device=GPU).reshape([-1 if axis == i else 1 for axis in range(4)]) for i, size in enumerate(scores.shape)]
        places[2] = places[2] + first
        return own(scores if bias is None else scores + bias.double(), *places)
    return options, changed


def _peer_us(torchs, q, k, v, **options):
    """The median of single calls: torch refuses to capture those that it compiles."""
    torch.compiler.reset()  # else it gives up after eight kernels
    compiled = torch.compile(torchs.flex_attention, dynamic=False)
    times = []
    for _ in range(9):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        compiled(q, k, v, **options)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return sorted(times[2:])[3]


def _cases(draw, batch, heads, tokens, causal):
    """(name, options, torch's options or None) of each modification."""
    import torch.nn.attention.flex_attention as torchs
    numbers = documents(tokens, draw, tokens // 8)
    slopes, table = torch.full((heads,), 0.1, device=GPU), torch.randn(heads * 64, device=GPU)
    bias, firsts = torch.randn(1, 1, tokens, tokens, device=GPU, dtype=torch.bfloat16), numbers[::2].contiguous()

    def blocks(mask):
        return torchs.create_block_mask(mask, None, None, tokens, tokens, device=GPU)
    alone = {} if not causal else {"block_mask": blocks(lambda b, h, q, k: k <= q)}
    document = (lambda b, h, q, k: (firsts[q] == firsts[k]) & (k <= q)) if causal else (lambda b, h, q, k: firsts[q] == firsts[k])
    bucket = "int d = q - k; d = d < 0 ? 0 : d > 63 ? 63 : d;\nreturn score + params.f32(64 * h + d);"
    return [
        ("plain", {}, None),
        ("documents", {**document_texts(tokens), "mod_params": numbers},
         {"block_mask": blocks(document)}),
        ("table", {"score_mod": bucket, "mod_params": table},
         {"score_mod": lambda score, b, h, q, k: score + table[64 * h + (q - k).clamp(0, 63)], **alone}),
        ("bias", {"bias": bias}, {"score_mod": lambda score, b, h, q, k: score + bias[0, 0, q, k], **alone}),
        ("slopes", {"score_mod": "return dev::multiply_add(-params.f32(h), dev::magnitude(static_cast<float>(q) - static_cast<float>(k)), score);",
                    "mod_params": slopes},
         {"score_mod": lambda score, b, h, q, k: score - slopes[h] * (q - k).abs(), **alone}),
    ], numbers


def time_mods(microseconds, draw, peers):
    """Rates beside the plain kernel's, by pairs that are seen, and torch's time over tilejit's."""
    import torch.nn.attention.flex_attention as torchs
    batch, heads, tokens = 2, 32, 8192
    for dim in (128, 64):
        for causal in (True, False):
            q, k, v = (torch.randn(batch, heads, tokens, dim, device=GPU, dtype=torch.bfloat16) for _ in range(3))
            cases, numbers = _cases(draw, batch, heads, tokens, causal)
            lengths = (numbers[1::2] - numbers[::2])[numbers[::2] == torch.arange(tokens, device=GPU)].double()
            all_pairs = tokens * (tokens + 1) / 2 if causal else tokens ** 2
            seen = float((lengths * (lengths + 1) / 2 if causal else lengths ** 2).sum())
            calls = [lambda options=options: torch.ops.tilejit.fmha(q, k, v, causal=causal, **options) for _, options, _ in cases]
            times = microseconds(calls)
            others = [_peer_us(torchs, q, k, v, **peer) if peers and peer else None for _, _, peer in cases]
            for (name, _, _), own, beside in zip(cases, times, others):
                rate = times[0] / own * (seen / all_pairs if name == "documents" else 1)
                print(f"D {dim} causal {causal} {name}: {own:.0f} us, {rate:.2f} of the plain kernel's rate",
                      "" if beside is None else f"flex_attention {beside:.0f} us, {beside / own:.2f}", sep="  ", flush=True)
