"""Gated delta rule in f64: the output of one chunk, the states before it, the recurrence as an oracle of both, and the metric.

Written in the operations that NumPy and PyTorch share (`xp` is either module), so that `compare.py --self-test` checks it without a
GPU. Chunks have 64 tokens at most; g is natural log, g_cu its sum from the beginning of the chunk. Nothing here decides which
problems there are (chunk_check.py).
"""
import math

from fmha_check import count_up, double

CHUNK, DIM = 64, 128
LIMIT = 4e-3      # of ||o - ref|| / ||ref||
ROW_LIMIT = 2e-2  # of a token's row of one head, beside the two parts it is the sum of: what rounding its 64 weights and itself may leave


def repeat_heads(xp, x, ratio):
    """[L, H, D] -> [L, H * ratio, D]: v head h works with k head h // ratio."""
    return xp.repeat(x, ratio, 1) if xp.__name__ == "numpy" else xp.repeat_interleave(x, ratio, 1)


def decay(xp, g):
    """[Hv, L, L] of g_cu [L, Hv]: exp(g_i - g_j) for j <= i, 0 above the diagonal, where it may be beyond all numbers."""
    places = count_up(xp, 0, g.shape[0], g)
    lower = places[:, None] >= places[None, :]
    by_head = xp.swapaxes(g, 0, 1)
    return xp.where(lower, xp.exp(xp.where(lower, by_head[:, :, None] - by_head[:, None, :], 0.0)), 0.0)


def chunk_parts(xp, q, k, v_new, h, g, scale):
    """One chunk of L tokens: q, k [L, H, D], v_new [L, Hv, D], h [Hv, V, K], g_cu [L, Hv], all f64. Returns what comes from before the
    chunk and what from within, each [L, Hv, V]; their sum is its output."""
    ratio = v_new.shape[1] // q.shape[1]
    q, k = repeat_heads(xp, q, ratio), repeat_heads(xp, k, ratio)
    within = xp.einsum("hij,jhv->ihv", xp.einsum("ihd,jhd->hij", q, k) * decay(xp, g), v_new)
    before = xp.einsum("ihd,hvd->ihv", q, h) * xp.exp(g)[:, :, None]
    return scale * before, scale * within


def chunk_output(xp, *arguments):
    before, within = chunk_parts(xp, *arguments)
    return before + within


def chunk_states(xp, k, v, beta, g):
    """The inputs that chunk output gets from the kernels before it, for one sequence: k [T, H, D], v [T, Hv, D], beta and g [T, Hv] in f64.
    Returns a list with (v_new [L, Hv, V], h [Hv, V, K]) of each chunk."""
    k = repeat_heads(xp, k, v.shape[1] // k.shape[1])
    state = double(xp, xp.zeros_like(xp.einsum("hv,hk->hvk", v[0], k[0])))
    found = []
    for begin in range(0, k.shape[0], CHUNK):
        rows = slice(begin, min(begin + CHUNK, k.shape[0]))
        sums = xp.cumsum(g[rows], 0)
        places = count_up(xp, 0, rows.stop - begin, k)
        below = places[:, None] > places[None, :]
        by_head = lambda x: xp.swapaxes(x, 0, 1)  # noqa: E731
        mixed = xp.where(below, by_head(beta[rows])[:, :, None] * xp.einsum("ihd,jhd->hij", k[rows], k[rows]) * decay(xp, sums), 0.0)
        mixed = mixed + double(xp, places[:, None] == places[None, :])
        right = xp.concatenate([by_head(beta[rows][:, :, None] * v[rows]), by_head((beta[rows] * xp.exp(sums))[:, :, None] * k[rows])], -1)
        solved = xp.linalg.solve(mixed, right)
        u, w = solved[:, :, :v.shape[2]], solved[:, :, v.shape[2]:]
        v_new = by_head(u - xp.einsum("hik,hvk->hiv", w, state))
        found.append((v_new, state))
        left = xp.exp(sums[-1:] - sums)[:, :, None] * v_new
        state = xp.exp(sums[-1])[:, None, None] * state + xp.einsum("ihv,ihk->hvk", left, k[rows])
    return found


def recurrence(xp, q, k, v, beta, g, scale):
    """[T, Hv, V], token by token."""
    ratio = v.shape[1] // q.shape[1]
    q, k = repeat_heads(xp, q, ratio), repeat_heads(xp, k, ratio)
    state = double(xp, xp.zeros_like(xp.einsum("hv,hk->hvk", v[0], k[0])))
    rows = []
    for t in range(q.shape[0]):
        state = xp.exp(g[t])[:, None, None] * state
        d = beta[t][:, None] * (v[t] - xp.einsum("hvk,hk->hv", state, k[t]))
        state = state + xp.einsum("hv,hk->hvk", d, k[t])
        rows.append(scale * xp.einsum("hvk,hk->hv", state, q[t]))
    return xp.stack(rows)


class Metric:
    """||o - ref|| / ||ref|| and the largest |o - ref| over everything that was added, and the worst row by itself, which the whole would
    hide; not finite: infinitely wrong."""

    def __init__(self):
        self.difference = self.reference = self.largest = self.row_error = 0.0
        self.elements = 0

    def add(self, o, before, within):
        """[L, Hv, V] each; the reference is the sum of its parts. A row is measured by how large they are: they may cancel."""
        wanted = before + within
        error = abs(o - wanted)
        row, size = (error ** 2).sum(-1), (before ** 2 + within ** 2).sum(-1)
        worst = float((row / (size + 1e-60)).max()) ** 0.5
        self.row_error = max(self.row_error, worst if math.isfinite(worst) else math.inf)
        largest, difference = float(error.max()), float((error ** 2).sum())
        self.largest = max(self.largest, largest if math.isfinite(largest) else math.inf)
        self.difference += difference if math.isfinite(difference) else math.inf
        self.reference += float((wanted ** 2).sum())
        self.elements += math.prod(wanted.shape)

    @property
    def error(self):
        if self.reference > 0:
            return math.sqrt(self.difference / self.reference)
        return math.inf if self.difference > 0 else 0.0

    @property
    def rms(self):
        """The root mean square of the reference, to compare the largest error with."""
        return math.sqrt(self.reference / self.elements) if self.elements else 0.0


# ---- without a GPU -----------------------------------------------------------------------------------------------------
def self_test(np):
    """Chunk form and recurrence agree to rounding in f64, over chunk boundaries and for gates that overflow above the diagonal."""
    generator = np.random.default_rng(5)
    for tokens, heads, v_heads, strength in ((1, 1, 1, 0.1), (64, 1, 3, 0.01), (130, 2, 4, 0.5), (65, 1, 2, 60.0)):
        unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)  # noqa: E731
        q, k = (unit(generator.standard_normal((tokens, heads, 16))) for _ in range(2))
        v = generator.standard_normal((tokens, v_heads, 8))
        beta, g = generator.uniform(0, 1, (tokens, v_heads)), -strength * generator.uniform(0, 1, (tokens, v_heads))
        wanted = recurrence(np, q, k, v, beta, g, 0.25)
        metric = Metric()
        for c, (v_new, h) in enumerate(chunk_states(np, k, v, beta, g)):
            rows = slice(c * CHUNK, min((c + 1) * CHUNK, tokens))
            parts = chunk_parts(np, q[rows], k[rows], v_new, h, np.cumsum(g[rows], 0), 0.25)
            metric.add(wanted[rows], *parts)
            assert (chunk_output(np, q[rows], k[rows], v_new, h, np.cumsum(g[rows], 0), 0.25) == parts[0] + parts[1]).all()
        assert metric.row_error < 1e-9 and metric.error < 1e-12 and metric.elements == tokens * v_heads * 8, (tokens, metric.error)
    small, exact = Metric(), Metric()
    ones, none = np.ones((4, 1, 2)), np.zeros((4, 1, 2))
    small.add(ones * 1.01, ones, none)
    exact.add(ones, ones / 2, ones / 2)
    assert exact.error == 0 and exact.row_error == 0 and exact.rms == 1 and small.error > LIMIT and abs(small.largest - 0.01) < 1e-12, small.error
    exact.add(ones * math.nan, ones, none)
    assert exact.error == math.inf and exact.largest == math.inf and exact.row_error == math.inf
    # One row of many is another's, of small numbers beside the rest: the whole does not show it.
    hidden, wanted = Metric(), generator.standard_normal((CHUNK, 4, 8))
    wanted[:, 1] *= 1e-2
    o = wanted.copy()
    o[17, 1] = wanted[18, 1]
    hidden.add(o, wanted, 0 * wanted)
    assert hidden.error < LIMIT and hidden.row_error > ROW_LIMIT, (hidden.error, hidden.row_error)
    nothing = Metric()
    assert nothing.error == 0 and nothing.row_error == 0 and nothing.rms == 0
