"""The problems that are timed: drawn from a seed, or from the fixed lists.

Decides sizes, types, orders and epilogues; nothing about how a problem is run. Invariant: a problem depends on the seed, its number and the
kinds that are asked for. It does not depend on how many others there are, nor on the version of Python. So parts of a table put together are the table.

    draw("gemm", seed=7, count=40) -> [{"number": 0, "op": "gemm", "m": 333, ...}, ...]
"""
import math
import random

import layers

THIRD = 3                 # one of so many problems has an odd width or length: no multiple of 8, of 16 or of 64
MOST_ROWS = 16384
LENGTHS = (128, 16384)
MOST_TOKENS = 32768       # of attention, B * S; more than fill a GPU
CHUNK_TOKENS = (512, 32768)
EPILOGUES = {"none": 0.70, "bias": 0.15, "bias_gelu": 0.05, "bias_relu": 0.02, "silu": 0.03, "add": 0.05}
ORDERS = {(False, False): 0.80, (False, True): 0.10, (True, True): 0.07, (True, False): 0.03}  # a, b stored transposed
OTHER_OUTPUT = 0.05       # f32 instead of the operands' type
SCALES = ["tensor", "block", "row"]  # of products of e4m3
TYPES = {"gemm": ["f16", "bf16", "e4m3"], "fmha": ["f16", "bf16"], "chunk_o": ["bf16"]}
DEFAULT_TYPES = {"gemm": ["f16", "bf16"], "fmha": ["f16", "bf16"], "chunk_o": ["bf16"]}
HEAD_DIMS = [64, 128]


class Draw:
    """Random values of one problem. Only random() is used: Python keeps its sequence for a seed from version to version."""

    def __init__(self, *words):
        self.random = random.Random("/".join(str(word) for word in words)).random

    def pick(self, values):
        values = list(values)
        return values[int(self.random() * len(values))]

    def weighted(self, weights):
        at = self.random() * sum(weights.values())
        for value, weight in weights.items():
            at -= weight
            if at < 0:
                return value
        return value

    def log_uniform(self, least, most):
        """A whole number; each power of two as likely as the next."""
        return min(most, int(math.exp(math.log(least) + self.random() * math.log((most + 1) / least))))

    def odd(self, size, smallest=1):
        """A little less than the size: no multiple of 8, or of 8 but not of 16, or of 16 but not of 64, each as likely. It is a multiple of `smallest`."""
        whole = max(64, size // 64 * 64)
        less = {1: range(1, 8), 8: range(8, 64, 16), 16: range(16, 64, 16)}
        return whole - self.pick(less[self.pick([grid for grid in less if grid % smallest == 0])])


def is_odd(size):
    return size % 64 != 0


def wants_odd(op, seed, number):
    """One of each three problems that follow each other."""
    return number % THIRD == int(Draw(op, "third", seed, number // THIRD).random() * THIRD)


# ---- products ----------------------------------------------------------------------------------------------------------
def draw_layer(draw):
    """N, K and what they are of; layers without a width that is odd by itself."""
    while True:
        model, layer, n, k, cut = draw.pick(layers.families())
        parts = draw.pick(layers.CUTS) if cut else 1
        n, k = (n // parts if cut == "n" else n), (k // parts if cut == "k" else k)
        if not is_odd(n) and not is_odd(k):
            return n, k, f"{model.split('/')[1]} {layer}" + (f", 1/{parts}" if parts > 1 else "")


def draw_gemm(draw, odd, types):
    n, k, source = draw_layer(draw)
    m = draw.log_uniform(1, MOST_ROWS)
    dtype = draw.pick(types)
    narrow = dtype == "e4m3"
    if odd:
        which = draw.pick(["n", "k", "nk"])
        n = draw.odd(n, 16 if narrow else 1) if "n" in which else n
        k = draw.odd(k, 16 if narrow else 1) if "k" in which else k
        source += ", odd"
    order = (False, False) if narrow else draw.weighted(ORDERS)
    epilogue = "none" if narrow else draw.weighted(EPILOGUES)
    other = draw.random() < OTHER_OUTPUT and epilogue == "none" and not narrow
    return {"source": source, "odd": odd, "m": m, "n": n, "k": k, "dtype": dtype, "out": "bf16" if narrow else "f32" if other else dtype,
            "a_transposed": order[0], "b_transposed": order[1], "epilogue": epilogue}


# ---- attention ---------------------------------------------------------------------------------------------------------
def draw_fmha(draw, odd, types, dims=(64, 128), masks=(True, False)):
    dim = draw.pick(dims)
    model, heads, kv_heads, _ = draw.pick(layers.attentions([dim]))
    cut = draw.pick([parts for parts in layers.CUTS if heads % parts == 0 and kv_heads % parts == 0])
    length = draw.log_uniform(*LENGTHS)
    length = draw.odd(length) if odd else max(64, length // 64 * 64)
    batch = draw.log_uniform(1, max(1, MOST_TOKENS // length))
    causal = draw.weighted({mask: 0.6 if mask else 0.4 for mask in masks})
    seq_k = length
    if not causal and draw.random() < 0.25:  # PyTorch's causal mask of unequal lengths is another one than ours
        seq_k = draw.log_uniform(*LENGTHS)
        seq_k = draw.odd(seq_k) if odd else max(64, seq_k // 64 * 64)
    return {"source": model.split("/")[1] + (f", 1/{cut}" if cut > 1 else "") + (", odd" if odd else ""), "odd": odd, "batch": batch,
            "heads": heads // cut, "kv_heads": kv_heads // cut, "seq_q": length, "seq_k": seq_k, "head_dim": dim, "dtype": draw.pick(types),
            "causal": causal, "layout": draw.weighted({"bshd": 0.7, "bhsd": 0.3})}


# ---- output of chunks --------------------------------------------------------------------------------------------------
def draw_chunk_o(draw, odd, _):
    model = draw.pick(layers.DELTA_HEADS)
    heads, v_heads = layers.DELTA_HEADS[model]
    cut = draw.pick([1, 1, 2, 4])
    tokens = draw.log_uniform(*CHUNK_TOKENS)
    form = "ragged" if odd else draw.weighted({"equal": 0.5, "cu_seqlens": 0.5})
    count = draw.log_uniform(1, max(1, tokens // 256))
    if form == "ragged":
        ends = sorted({int(draw.random() * tokens) for _ in range(count - 1)} - {0})
        lengths = [end - begin for begin, end in zip([0] + ends, ends + [tokens])]
    else:
        lengths = [max(64, tokens // count // 64 * 64)] * count
    return {"source": model + (f", 1/{cut}" if cut > 1 else ""), "odd": odd, "heads": [heads // cut, v_heads // cut], "form": form,
            "lengths": lengths, "dtype": "bf16"}


DRAWERS = {"gemm": draw_gemm, "fmha": draw_fmha, "chunk_o": draw_chunk_o}


def draw(op, seed, count, types=None, **kinds):
    """Problems 0 to count - 1. `types`: of the operands; `kinds`: dims and masks of attention."""
    return [{"number": number, "op": op, **DRAWERS[op](Draw(op, seed, number), wants_odd(op, seed, number), types or DEFAULT_TYPES[op], **kinds)}
            for number in range(count)]


# ---- parts of a table --------------------------------------------------------------------------------------------------
def parse_slice(text):
    """"2/5" -> (2, 5): the second of five parts."""
    part, slash, parts = text.partition("/")
    if not slash or not part.isdigit() or not parts.isdigit() or not 1 <= int(part) <= int(parts):
        raise ValueError(f"'{text}' is no part; allowed: I/N with I from 1 to N, such as 2/5")
    return int(part), int(parts)


def slice_of(problems, part):
    """Every n-th problem, so that parts take alike long. None is all."""
    if part is None:
        return list(problems)
    return [problem for problem in problems if problem["number"] % part[1] == part[0] - 1]


# ---- words -------------------------------------------------------------------------------------------------------------
def title(problem):
    """A problem in a table's cell."""
    p = problem
    if p["op"] == "gemm":
        order = (" aT" if p["a_transposed"] else "") + (" bT" if p["b_transposed"] else "")  # as they lie in memory
        out = f" to {p['out']}" if p["out"] != p["dtype"] else ""
        dtype = p["dtype"] + (f", {p['scales']} scales," if "scales" in p else "")
        return f"{dtype}{out} {p['m']} x {p['n']} x {p['k']}{order}" + (f" {p['epilogue'].replace('_', ', ')}" if p["epilogue"] != "none" else "")
    if p["op"] == "fmha":
        length = f"S {p['seq_q']}" if p["seq_q"] == p["seq_k"] else f"S {p['seq_q']} / {p['seq_k']}"
        return f"{p['dtype']} B {p['batch']} H {p['heads']}/{p['kv_heads']} {length} D {p['head_dim']} {'causal' if p['causal'] else 'full'} {p['layout']}"
    return f"H {p['heads'][0]}/{p['heads'][1]}, {sum(p['lengths'])} tokens, {len(p['lengths'])} {p['form']}"
