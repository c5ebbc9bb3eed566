"""Attention on a GPU against f64: shapes, memory with guard bands, reference, metric.

The reference and the metric are written in the operations that NumPy and PyTorch share (`xp` is either module), so that
`compare.py --self-test` can check them without a GPU. Nothing here decides what is printed.
"""
import math
import random

LIMITS = {"f16": 6e-4, "bf16": 5e-3}
LSE_LIMIT = 1e-3
GUARD_ELEMENTS = 4096
EDGE_LENGTHS = [1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 175, 176, 177, 191, 192, 193, 255, 257, 383, 385, 511, 513,
                1023, 1025, 2047, 2049, 4095, 4096, 4097]
MAX_SCORES = 1 << 25  # of one chunk of the reference: 256 MiB of f64


# ---- shapes ------------------------------------------------------------------------------------------------------------
def random_length(generator):
    """1 to 4097: a tile edge, or anything, short ones as likely as long ones."""
    if generator.random() < 0.5:
        return generator.choice(EDGE_LENGTHS)
    return min(4097, int(math.exp(generator.uniform(0, math.log(4098)))))


def random_case(generator):
    """One problem as a dictionary that fits on a line of a report."""
    seq_q, seq_k = random_length(generator), random_length(generator)
    if generator.random() < 0.3:
        seq_k = seq_q
    group = generator.choice([1, 4, 8])
    return {
        "batch": generator.randint(1, 3), "kv_heads": generator.randint(1, 3), "group": group,
        "seq_q": seq_q, "seq_k": seq_k, "head_dim": generator.choice([64, 128]),
        "dtype": generator.choice(["f16", "bf16"]), "causal": generator.random() < 0.5,
        "layouts": "".join(generator.choice("hs") for _ in range(4)),  # of q, k, v, o: h is [B,H,S,D], s is [B,S,H,D]
        # q, k and v need multiples of 16 bytes; o does not
        "row_padding": [generator.choice([0, 0, 0, 8, 64]) for _ in range(3)] + [generator.choice([0, 0, 0, 8, 1, 3])],
        "scale": generator.choice([None, None, None, None, 0.02, 0.5, 1.0, 1.7, -0.3, 0.0]),
        "lse": generator.random() < 0.8,
    }


def covering_cases(generator, count):
    """At least `count` cases; every value that the limits speak of is there whatever the seed."""
    cases = [random_case(generator) for _ in range(count)]
    forced = [{"seq_q": 1, "seq_k": 1}, {"seq_q": 4097, "seq_k": 4097}, {"seq_q": 1, "seq_k": 4097}, {"seq_q": 4097, "seq_k": 1},
              {"seq_q": 300, "seq_k": 100, "causal": True}, {"seq_q": 100, "seq_k": 300, "causal": True}]
    i = 0
    for change in forced:
        for dtype in LIMITS:
            for dim in (64, 128):
                cases[i % len(cases)].update(change, dtype=dtype, head_dim=dim)
                i += 1
    return cases


def layout_strides(layout, heads, length, dim, padding):
    """Strides in elements of [B, H, S, D], and how many elements the whole takes per batch."""
    row = dim + padding
    if layout == "h":
        return [heads * length * row, length * row, row, 1], heads * length * row
    return [length * heads * row, row, heads * row, 1], length * heads * row


def flops(batch, heads, seq_q, seq_k, dim, causal):
    """Pairs of a query and a key that it sees, times 4 D."""
    pairs = seq_q * seq_k
    if causal:
        pairs = sum(min(max(row + seq_k - seq_q + 1, 0), seq_k) for row in range(seq_q))
    return 4.0 * batch * heads * dim * pairs


# ---- reference and metric, for NumPy and PyTorch -----------------------------------------------------------------------
def count_up(xp, begin, end, like):
    return xp.arange(begin, end) if xp.__name__ == "numpy" else xp.arange(begin, end, device=like.device)


def double(xp, x):
    return x.astype(xp.float64) if xp.__name__ == "numpy" else x.double()


def reference_rows(xp, q, k, v, scale, first_hidden):
    """q [..., R, D], k and v [..., S, D] in f64. first_hidden [R, 1] (or None): the first key that each row does not see.
    Returns o [..., R, D] and the natural-log log-sum-exp [..., R]."""
    scores = (q @ xp.swapaxes(k, -1, -2)) * scale
    if first_hidden is not None:
        scores = xp.where(count_up(xp, 0, k.shape[-2], k)[None, :] < first_hidden, scores, -math.inf)
    top = xp.amax(scores, axis=-1, keepdims=True)
    top = xp.where(top > -math.inf, top, 0.0)
    weights = xp.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    o = (weights @ v) / xp.where(total > 0, total, 1.0)
    lse = xp.where(total > 0, xp.log(xp.where(total > 0, total, 1.0)) + top, -math.inf)
    return o, lse[..., 0]


class Metric:
    """||o - ref|| / ||ref|| and the largest |lse - ref| over everything that was added; not finite: infinitely wrong."""

    def __init__(self):
        self.difference = self.reference = self.lse_error = 0.0

    def add(self, xp, o, o_ref, lse=None, lse_ref=None):
        difference = float(((o - o_ref) ** 2).sum())
        self.difference += difference if math.isfinite(difference) else math.inf
        self.reference += float((o_ref ** 2).sum())
        if lse is not None:
            error = xp.where(lse == lse_ref, 0.0, xp.abs(lse - lse_ref))  # equal infinities agree
            worst = float(error.max())
            self.lse_error = max(self.lse_error, worst) if not math.isnan(worst) else math.inf

    @property
    def error(self):
        if self.reference > 0:
            return math.sqrt(self.difference / self.reference)
        return math.inf if self.difference > 0 else 0.0

    def within(self, dtype):
        return self.error <= LIMITS[dtype] and self.lse_error <= LSE_LIMIT


def compare(xp, q, k, v, o, lse, scale, causal):
    """[B, H, S, D] tensors (lse [B, H, Sq] or None), converted to f64 by chunks of rows. Returns a Metric."""
    metric = Metric()
    batch, heads, seq_q, _ = q.shape
    kv_heads, seq_k = k.shape[1], k.shape[2]
    chunk = max(1, MAX_SCORES // seq_k)
    for b in range(batch):
        for h in range(heads):
            keys, values = double(xp, k[b, h // (heads // kv_heads)]), double(xp, v[b, h // (heads // kv_heads)])
            for begin in range(0, seq_q, chunk):
                rows = slice(begin, min(begin + chunk, seq_q))
                hidden = None
                if causal:
                    hidden = (count_up(xp, begin, rows.stop, q) + (seq_k - seq_q + 1))[:, None]
                o_ref, lse_ref = reference_rows(xp, double(xp, q[b, h, rows]), keys, values, scale, hidden)
                metric.add(xp, double(xp, o[b, h, rows]), o_ref, None if lse is None else double(xp, lse[b, h, rows]), lse_ref)
    return metric


# ---- one case on the GPU -----------------------------------------------------------------------------------------------
class Guarded:
    """A strided tensor inside a larger buffer of poison (a NaN with a payload no arithmetic makes)."""

    def __init__(self, torch, dtype, shape, strides, elements, place="cuda"):
        bits, self.poison = {1: (torch.uint8, 0x7F), 2: (torch.int16, 0x7FA5), 4: (torch.int32, 0x7FC5A5A5)}[dtype.itemsize]
        self.torch, self.shape, self.strides = torch, shape, strides
        self.buffer = torch.full((elements + 2 * GUARD_ELEMENTS,), self.poison, dtype=bits, device=place)
        self.bits = self.buffer.as_strided(shape, strides, GUARD_ELEMENTS)
        self.view = self.buffer.view(dtype).as_strided(shape, strides, GUARD_ELEMENTS)

    def unwritten(self):
        return int((self.bits == self.poison).sum())

    def written_outside(self):
        rest = self.buffer.clone()
        rest.as_strided(self.shape, self.strides, GUARD_ELEMENTS).fill_(self.poison)
        return int((rest != self.poison).sum())


def run_case(torch, runtime, tj, device, case, seed):
    """Runs one case; returns its figures. Raises binding.TilejitError when the library refuses it."""
    dtype = torch.float16 if case["dtype"] == "f16" else torch.bfloat16
    heads = case["kv_heads"] * case["group"]
    generator = torch.Generator(device="cuda").manual_seed(seed)
    tensors = []
    for i, (h, s) in enumerate([(heads, case["seq_q"]), (case["kv_heads"], case["seq_k"]), (case["kv_heads"], case["seq_k"]), (heads, case["seq_q"])]):
        strides, per_batch = layout_strides(case["layouts"][i], h, s, case["head_dim"], case["row_padding"][i])
        t = Guarded(torch, dtype, [case["batch"], h, s, case["head_dim"]], strides, per_batch * case["batch"])
        if i < 3:
            t.view.copy_(torch.randn(t.shape, generator=generator, device="cuda"))
        tensors.append(t)
    q, k, v, o = tensors
    lse = None
    if case["lse"]:
        shape = [case["batch"], heads, case["seq_q"]]
        lse = Guarded(torch, torch.float32, shape, [heads * case["seq_q"], case["seq_q"], 1], math.prod(shape))

    def bound(t, code):
        return tj.tensor(t.view.data_ptr(), device, code, t.shape, list(t.strides))

    code = tj.F16 if case["dtype"] == "f16" else tj.BF16
    runtime.fmha(bound(q, code), bound(k, code), bound(v, code), bound(o, code), lse=bound(lse, tj.F32) if lse else None,
                 scale=case["scale"], causal=case["causal"], stream=torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    scale = case["scale"] if case["scale"] is not None else case["head_dim"] ** -0.5
    metric = compare(torch, q.view, k.view, v.view, o.view, lse.view if lse else None, scale, case["causal"])
    outputs = [o] + ([lse] if lse else [])
    unwritten, outside = sum(t.unwritten() for t in outputs), sum(t.written_outside() for t in outputs)
    return {"error": metric.error, "lse_error": metric.lse_error, "unwritten": unwritten, "written_outside": outside,
            "ok": metric.within(case["dtype"]) and unwritten == 0 and outside == 0}


def run_correctness(torch, runtime, tj, device, count, seed, report):
    """All cases. `report` is called with a line for each failure. Returns the section of the JSON document."""
    cases = covering_cases(random.Random(seed), count)
    worst = {"f16": 0.0, "bf16": 0.0, "lse": 0.0}
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
            worst[case["dtype"]] = max(worst[case["dtype"]], result["error"])
            worst["lse"] = max(worst["lse"], result["lse_error"])
    return {"seed": seed, "cases": len(cases), "failed": len(failures), "worst_error": worst, "limits": {**LIMITS, "lse": LSE_LIMIT},
            "failures": failures}


# ---- without a GPU -----------------------------------------------------------------------------------------------------
def check_metric(np, q, k, v, o, lse):
    """o and lse are right; the metric must say so, and must see each way of spoiling them."""
    exact = compare(np, q, k, v, o, lse, 0.125, True)
    assert exact.error < 1e-12 and exact.lse_error < 1e-12, (exact.error, exact.lse_error)
    rounded = compare(np, q, k, v, o.astype(np.float16), lse.astype(np.float32), 0.125, True)
    assert 1e-5 < rounded.error and rounded.within("f16"), rounded.error
    for spoil in (lambda o, lse: o.__setitem__((0, 1, 4, 3), np.nan), lambda o, lse: o.__setitem__((0, 1, 0, 3), np.inf),
                  lambda o, lse: o.__setitem__((0, 1, 4), -o[0, 1, 4]), lambda o, lse: lse.__setitem__((0, 1, 0), 0.0),
                  lambda o, lse: lse.__setitem__((0, 1, 4), np.nan), lambda o, lse: lse.__setitem__((0, 1, 4), lse[0, 1, 4] + 0.01)):
        bad_o, bad_lse = o.copy(), lse.copy()
        spoil(bad_o, bad_lse)
        assert not compare(np, q, k, v, bad_o, bad_lse, 0.125, True).within("f16")


def self_test(np):
    """Checks shapes, reference and metric with NumPy; raises AssertionError."""
    generator = np.random.default_rng(5)
    q, k, v = (generator.standard_normal((1, h, s, 64)).astype(np.float16) for h, s in ((4, 5), (2, 3), (2, 3)))
    o, lse = np.zeros((1, 4, 5, 64)), np.zeros((1, 4, 5))
    for h in range(4):  # once more, element by element
        for r in range(5):
            scores = [0.125 * sum(float(a) * float(b) for a, b in zip(q[0, h, r], k[0, h // 2, j])) for j in range(3) if j <= r + 3 - 5]
            total = sum(math.exp(s) for s in scores)
            lse[0, h, r] = math.log(total) if scores else -math.inf
            for j, s in enumerate(scores):
                o[0, h, r] += math.exp(s) / total * v[0, h // 2, j].astype(np.float64)
    with np.errstate(invalid="ignore"):  # -inf minus -inf, which the metric looks past
        check_metric(np, q, k, v, o, lse)
    assert flops(1, 1, 4, 2, 64, True) == 4 * 64 * 3 and flops(2, 3, 4, 5, 64, False) == 4 * 64 * 120
    assert layout_strides("h", 2, 3, 64, 8) == ([432, 216, 72, 1], 432) and layout_strides("s", 2, 3, 64, 0) == ([384, 64, 128, 1], 384)
    cases = covering_cases(random.Random(1), 200)
    assert len(cases) == 200 and all(1 <= c["seq_q"] <= 4097 and 1 <= c["seq_k"] <= 4097 for c in cases)
    for name, values in (("group", {1, 4, 8}), ("head_dim", {64, 128}), ("dtype", {"f16", "bf16"}), ("causal", {True, False})):
        assert {c[name] for c in cases} == values, name
