"""Attention over sequences of different lengths, and over pages, on a GPU: random problems against f64, and times. fmha_features.py runs it.

Each problem has NaN wherever no sequence has a row: before the first, behind the last, behind the keys that count, in pages that nobody uses. Then one
sequence becomes NaN, and the bits of all others must stay. A CUDA graph of the call is replayed with other lengths, and must give the bits of a call.
Decides problems and prints; asserts nothing about times.
"""
import torch

import tilejit.torch  # noqa: F401 -- the operators

GPU, PAGE_SIZES = "cuda", (1, 2, 3, 8, 16, 24, 32, 48, 64, 128, 160, 256)


class Problem:
    """Lists, rows or pages of one problem; nan: the number of a sequence without numbers."""

    def __init__(self, lengths, used, front, heads, kv_heads, dim, values, dtype, page_size, heads_first, draw):
        self.heads, self.front, self.used, self.page_size, self.size = heads, front, used, page_size, len(lengths)
        rows, keys = (sum(pair[i] for pair in lengths) + 2 * front for i in (0, 1))
        keys += used * len(lengths)
        self.lists = [torch.empty(len(lengths) + 1, dtype=torch.int32, device=GPU) for _ in range(2)]
        self.seqused = torch.empty(len(lengths), dtype=torch.int32, device=GPU) if used or page_size else None
        self.q = torch.empty(max(rows, 1), heads, dim, dtype=dtype, device=GPU)
        self.o_shape, self.table = (max(rows, 1), heads, values), None
        if page_size:
            most = -(-max(max(pair[1] for pair in lengths), 1) // page_size)
            self.table = torch.empty(len(lengths), most, dtype=torch.int32, device=GPU)
            pages, form = len(lengths) * most + 3, (lambda d: (kv_heads, page_size, d)) if heads_first else (lambda d: (page_size, kv_heads, d))
            self.order = draw.sample(range(pages), len(lengths) * most)
            self.k, self.v = (torch.empty(pages, *form(d), dtype=dtype, device=GPU) for d in (dim, values))
            if heads_first:
                self.k, self.v = self.k.transpose(1, 2), self.v.transpose(1, 2)
        else:
            self.k, self.v = (torch.empty(max(keys, 1), kv_heads, d, dtype=dtype, device=GPU) for d in (dim, values))

    def fill(self, lengths, seed, nan=None):
        """Writes lists and rows in place; the rows of each sequence depend on the seed and its number alone."""
        for x in (self.q, self.k, self.v):
            x.fill_(torch.nan)
        self.lengths, self.parts = lengths, []
        begins = [[self.front], [self.front]]
        for rows, keys in lengths:
            begins[0].append(begins[0][-1] + rows)
            begins[1].append(begins[1][-1] + keys + self.used)
        for list_, own in zip(self.lists, begins):
            list_.copy_(torch.tensor(own, dtype=torch.int32))
        if self.seqused is not None:
            self.seqused.copy_(torch.tensor([keys for _, keys in lengths], dtype=torch.int32))
        if self.table is not None:
            self.table.fill_(2**29)
        for n, (rows, keys) in enumerate(lengths):
            torch.manual_seed(seed * 1000 + n)
            q, k, v = (torch.randn(length, *x.shape[-2:], device=GPU).to(x.dtype) for length, x in ((rows, self.q), (keys, self.k), (keys, self.v)))
            self.parts.append((q, k, v, begins[0][n]))
            if n == nan:
                q, k, v = (torch.full_like(x, torch.nan) for x in (q, k, v))
            self.q[begins[0][n]:begins[0][n] + rows] = q
            for whole, own in ((self.k, k), (self.v, v)):
                if self.table is None:
                    whole[begins[1][n]:begins[1][n] + keys] = own
                    continue
                most = self.table.shape[1]
                for i in range(-(-keys // self.page_size)):
                    page, part = self.order[n * most + i], own[i * self.page_size:(i + 1) * self.page_size]
                    self.table[n, i] = page
                    whole[page, :len(part)] = part

    def arguments(self):
        return {"cu_seqlens_q": self.lists[0], "cu_seqlens_k": None if self.page_size else self.lists[1], "seqused_k": self.seqused,
                "block_table": self.table}

    def results(self):
        return (torch.full(self.o_shape, 77.0, dtype=self.q.dtype, device=GPU), torch.full((self.heads, self.o_shape[0]), 77.0, device=GPU))

    def run(self, options, into=None):
        o, lse = into or self.results()
        torch.ops.tilejit.fmha_out(self.q, self.k, self.v, o, lse=lse, **options, **self.arguments())
        return o, lse


def drawn(draw, options, pages, decode=False):
    """(problem, lengths). decode: few queries of each sequence, larger groups, longer keys."""
    kv_heads, dim = draw.randint(1, 3), draw.choice((64, 128, 128, 8 * draw.randint(1, 32)))
    heads, values = kv_heads * draw.randint(1, 4), dim if draw.random() < 0.8 else 8 * draw.randint(1, 32)
    lengths = [(draw.choice((0, 1, draw.randint(1, 700))), draw.choice((0, draw.randint(1, 80), draw.randint(1, 1500))))
               for _ in range(draw.randint(1, 7))]
    if decode:
        heads = kv_heads * draw.choice((1, 3, 4, 5, 8, 16))
        lengths = [(draw.choice((0, 1, 1, 1, draw.randint(1, 8))), draw.choice((0, draw.randint(1, 80), draw.randint(1, 9000)))) for _ in lengths]
    if not any(rows for rows, _ in lengths):
        lengths[0] = 5, 9
    page_size = draw.choice(PAGE_SIZES) if pages else 0
    problem = Problem(lengths, 0 if pages else draw.choice((0, 40)), draw.choice((0, 65)), heads, kv_heads, dim, values,
                      draw.choice((torch.float16, torch.bfloat16)), page_size, draw.random() < 0.3, draw)
    if options["alibi_slopes"] is not None:
        options["alibi_slopes"] = torch.exp2(-8 * torch.rand(draw.choice(((heads,), (len(lengths), heads))), device=GPU))
    options["sinks"] = None if options["sinks"] is None else 4 * torch.randn(heads, device=GPU)
    options["scale"] = draw.choice((dim ** -0.5, 1.0, -0.3))
    return problem, lengths


def wrong(problem, results, options, reference, limits, lse_limit):
    """What is wrong with results, or None."""
    o, lse = results
    written = torch.zeros(o.shape[0], dtype=torch.bool, device=GPU)
    error = norm = lse_error = 0.0
    for n, (q, k, v, begin) in enumerate(problem.parts):
        rows = slice(begin, begin + len(q))
        written[rows] = True
        own = dict(options)
        if own["alibi_slopes"] is not None and own["alibi_slopes"].dim() == 2:
            own["alibi_slopes"] = own["alibi_slopes"][n]
        wanted, wanted_lse = (x[0] for x in reference(*(x[None].transpose(1, 2) for x in (q, k, v)), *own.values()))
        error, norm = error + float((o[rows].double().transpose(0, 1) - wanted).norm()) ** 2, norm + float(wanted.norm()) ** 2
        if len(q):
            lse_error = max(lse_error, float(torch.where(lse[:, rows] == wanted_lse, 0.0, (lse[:, rows] - wanted_lse).abs()).max()))
    if not (o[~written] == 77).all() or not (lse[:, ~written] == 77).all():
        return "rows beside the sequences were written"
    error = (error / (norm or 1)) ** 0.5
    return None if error <= limits[o.dtype] and lse_error <= lse_limit else f"error {error:.1e}, lse {lse_error:.1e}"


def check(draw, number, options, pages, reference, limits, lse_limit, decode=False):
    """Runs one problem; what is wrong with it, or None. What is refused is raised."""
    problem, lengths = drawn(draw, options, pages, decode)
    problem.fill(lengths, number)
    first = problem.run(options)
    found = wrong(problem, first, options, reference, limits, lse_limit)
    again = problem.run(options)
    if found is None and not all(torch.equal(x, y) for x, y in zip(first, again)):
        found = "other bits the second time"
    poisoned = draw.randrange(problem.size)
    problem.fill(lengths, number, poisoned)
    for x, y, rows_first in zip(first, problem.run(options), (True, False)):
        for n, (q, _, _, begin) in enumerate(problem.parts):
            rows = slice(begin, begin + len(q))
            if n != poisoned and found is None and not torch.equal(*((z[rows] if rows_first else z[:, rows]) for z in (x, y))):
                found = f"NaN of sequence {poisoned} shows in {n}"
    others = lengths[1:] + lengths[:1] if not pages else [(rows, min(keys, 9)) for rows, keys in lengths[1:] + lengths[:1]]
    problem.fill(others, number + 1)
    wanted, results, graph = problem.run(options), problem.results(), torch.cuda.CUDAGraph()
    problem.fill(lengths, number)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        problem.run(options, results)
    problem.fill(others, number + 1)
    for x in results:
        x.fill_(77)
    graph.replay()
    torch.cuda.synchronize()
    if found is None and not all(torch.equal(x, y) for x, y in zip(wanted, results)):
        found = "a graph that is replayed with other lengths has other bits"
    if found is not None:
        shown = {name: "given" if isinstance(x, torch.Tensor) else x for name, x in options.items()}
        found += f": lengths {lengths} H {problem.heads}/{problem.k.shape[-2]} D {problem.q.shape[2]}/{problem.o_shape[2]} {problem.q.dtype} page " \
                 f"{problem.page_size} unused {problem.used} front {problem.front} {shown}"
    return found


def time_varlen(microseconds, draw):
    """Lengths of 16 to 16384, 65536 tokens, causal, 32/8 heads, D 128, beside dense causal attention with as many operations."""
    fmha, lengths = torch.ops.tilejit.fmha, []
    while sum(lengths) < 65536:
        lengths.append(min(draw.randint(16, 16384), 65536 - sum(lengths)))
    pairs = sum(n * (n + 1) / 2 for n in lengths)
    dense = max(128, round(2 * pairs / 65536 / 128) * 128)  # S, where 65536 / S sequences of S have as many pairs
    batch = max(1, round(pairs / (dense * (dense + 1) / 2)))
    ends = torch.tensor([0] + lengths, dtype=torch.int32, device=GPU).cumsum(0).to(torch.int32)
    q, k, v = (torch.randn(65536, heads, 128, device=GPU, dtype=torch.bfloat16) for heads in (32, 8, 8))
    whole = [torch.randn(batch, heads, dense, 128, device=GPU, dtype=torch.bfloat16) for heads in (32, 8, 8)]
    one = [x[None].transpose(1, 2) for x in (q, k, v)]
    same = torch.tensor([0, 65536], dtype=torch.int32, device=GPU)
    times = microseconds([lambda: fmha(q, k, v, causal=True, cu_seqlens_q=ends, cu_seqlens_k=ends), lambda: fmha(*whole, causal=True),
                          lambda: fmha(q, k, v, causal=True, cu_seqlens_q=same, cu_seqlens_k=same), lambda: fmha(*one, causal=True)])
    rates = [4 * 32 * 128 * each / us * 1e-6 for each, us in zip((pairs, batch * dense * (dense + 1) / 2, 65536 * 65537 / 2, 65536 * 65537 / 2), times)]
    print(f"{len(lengths)} sequences: {times[0]:.0f} us, {rates[0]:.0f} TFLOP/s; dense {batch} x {dense} {rates[1]:.0f}, "
          f"ratio {rates[0] / rates[1]:.3f}; one sequence of all {rates[2]:.0f}, dense {rates[3]:.0f}, ratio {rates[2] / rates[3]:.3f}", flush=True)


def time_pages(microseconds, draw):
    """Pages of several sizes beside the same keys one behind the other; 8 sequences of 4096 queries or of 1."""
    fmha = torch.ops.tilejit.fmha
    for rows, keys, causal in ((4096, 4096, True), (4096, 4096, False), (1, 16384, False)):
        ends_q, ends_k = (torch.arange(9, device=GPU, dtype=torch.int32) * n for n in (rows, keys))
        q = torch.randn(8 * rows, 32, 128, device=GPU, dtype=torch.bfloat16)
        k, v = (torch.randn(8 * keys, 8, 128, device=GPU, dtype=torch.bfloat16) for _ in range(2))
        used = torch.full((8,), keys, dtype=torch.int32, device=GPU)
        calls, sizes = [lambda: fmha(q, k, v, causal=causal, cu_seqlens_q=ends_q, cu_seqlens_k=ends_k)], (1, 8, 16, 32, 64, 128, 256)
        for size in sizes:
            pages = 8 * keys // size
            table = torch.tensor(draw.sample(range(pages), pages), dtype=torch.int32, device=GPU).view(8, -1)
            calls.append(lambda size=size, table=table: fmha(q, k.view(-1, size, 8, 128), v.view(-1, size, 8, 128), causal=causal, cu_seqlens_q=ends_q,
                                                             seqused_k=used, block_table=table))
        times = microseconds(calls)
        print(f"Sq {rows} Sk {keys} causal {causal}: without pages {times[0]:.0f} us",
              *(f"pages of {size} {times[0] / us:.3f}" for size, us in zip(sizes, times[1:])), sep="  ", flush=True)
