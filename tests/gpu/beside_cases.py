"""The calls that beside.py makes: each op, with the walks that draw, share or slice tiles, and tensors of small sizes for a check without a GPU.

Decides their shapes, what their tensors hold, and how a walk is forced. Invariant: a result is poisoned by bytes, and compared by bytes.
"""
import collections
import zlib

TILES = [tile + cluster + swapped for tile in ("128x256x64", "128x192x64", "192x128x64", "192x160x64", "176x128x64", "160x128x64", "144x128x64", "128x128x64",
                                               "64x256x64", "128x64x64", "64x128x64")
         for cluster in ("", "c2x1", "c1x2") for swapped in ("", "s")]  # of which those that do not serve are passed over

# inputs: (name or None for those by position, shape, type, and what it holds unless that is normal: a word of held(), or the numbers themselves);
# results: (shape, type, and the option's name unless it is of out); only: names of kernels, of which the best predicted is forced;
# written: of the results, the part that the call writes; none: all of them
Case = collections.namedtuple("Case", "name op inputs results options only written", defaults=({}, (), None))
LENGTHS = (1000, 64, 1, 700, 2331)  # of sequences


def held(torch, what, shape, dtype, draw, device):
    """A tensor of this shape and type that holds what the word says."""
    if not isinstance(what, str):
        return torch.tensor(what, device=device, dtype=dtype).view(shape)
    if what == "columns":  # contiguous in its first dimension
        return held(torch, "normal", shape[::-1], dtype, draw, device).T
    if what == "unit":  # rows of length 1: products of them are small
        x = torch.nn.functional.normalize(torch.randn(shape, device=device, generator=draw), dim=-1)
    elif what == "normal":
        x = torch.randn(shape, device=device, generator=draw)
    else:  # scales; strengths; logarithms of decays, running or not
        x = torch.rand(shape, device=device, generator=draw)
        x = {"scale": x + 0.5, "share": x, "decay": -x / 16, "sums": -torch.cat([part.cumsum(0) for part in x.split(64)]) / 64}[what]
    return x.to(dtype)


def product(name, m, n, k, dtype="float16", out=None, only=(), **options):
    bias = [("bias", (n,), out or dtype)] if options.pop("bias", False) else []
    return Case(name, "gemm", [(None, (m, k), dtype), (None, (n, k), dtype), *bias], [((m, n), out or dtype)], options, only)


def attention(name, heads, rows, causal, batch=1, only=()):
    shape = (batch, heads, rows, 128)
    return Case(name, "fmha", [(None, shape, "bfloat16")] * 3, [(shape, "bfloat16")], {"causal": causal}, only)


def chunk_cases():
    tokens, heads, chunks = sum(LENGTHS), 8, sum((length + 63) // 64 for length in LENGTHS)
    whole = tokens // 64 * 64
    yield Case("chunk_indices", "chunk_indices", [], [((chunks, 2), "int32"), ((1,), "int32")])
    for name, count, rows, sequences in (("chunk_o", whole, whole, False), ("chunk_o, ragged", tokens, 64 * chunks, True)):
        states = chunks if sequences else whole // 64
        inputs = [(None, (count, heads, 128), "bfloat16")] * 2 + [(None, (rows, 2 * heads, 128), "bfloat16"),
                                                                 (None, (states, 2 * heads, 128, 128), "bfloat16"), ("g_cu", (count, 2 * heads), "float32")]
        yield Case(name, "chunk_o", inputs, [((count, 2 * heads, 128), "bfloat16")], {} if sequences else {"seq_length": whole})


def scaled_product(name, m, n, k, sizes=(), **options):
    """Of e4m3 with scales of blocks; sizes: the results in the place of d of bf16."""
    inputs = [(None, (m, k), "float8_e4m3fn"), (None, (n, k), "float8_e4m3fn"), ("scale_a", (m, -(-k // 128)), "float32", "scale"),
              ("scale_b", (-(-n // 128), -(-k // 128)), "float32", "scale")]
    return Case(name, "gemm", inputs, sizes or [((m, n), "bfloat16")], options)


def group_cases(rows, n, k):
    """rows: of groups, none of some."""
    ends, m, most = [sum(rows[:i + 1]) for i in range(len(rows))], sum(rows), max(rows)
    wide, narrow, count = "bfloat16", "float8_e4m3fn", len(rows)
    matrices = (None, (count, n, k), wide)
    list_of = (None, (count,), "int32", ends)
    yield Case("grouped_gemm, ends", "grouped_gemm", [(None, (m, k), wide), matrices, list_of], [((m, n), wide)])
    yield Case("grouped_gemm, counts", "grouped_gemm", [(None, (count, most, k), wide), matrices, (None, (count,), "int32", rows)],
               [((count, most, n), wide)], {"grouping": "counts"}, (), lambda d: [part[:row] for part, row in zip(d, rows)])
    yield Case("grouped_gemm, depths", "grouped_gemm", [(None, (n, m), wide, "columns"), (None, (k, m), wide, "columns"), list_of], [((count, n, k), wide)],
               {"grouping": "depths"})
    scales = [("scale_a", (m, k // 128), "float32", "scale"), ("scale_b", (count, n // 128, k // 128), "float32", "scale")]
    inputs = [(None, (m, k), narrow), (None, (count, n, k), narrow), list_of, *scales]
    yield Case("grouped_gemm, e4m3", "grouped_gemm", inputs, [((m, n), wide)])
    yield Case("grouped_gemm, e4m3, silu, e4m3", "grouped_gemm", inputs, [((m, n // 2), narrow), ((m, -(-n // 256)), "float32")], {"gate": "silu"})


def row_cases(m, k, slots):
    yield Case("quantise, rows", "quantise", [(None, (m, k), "bfloat16")], [((m, k), "float8_e4m3fn"), ((m, k // 128), "float32")])
    yield Case("quantise, blocks", "quantise", [(None, (m, k), "bfloat16")], [((m, k), "float8_e4m3fn"), ((-(-m // 128), k // 128), "float32")],
               {"rows": 128})
    yield Case("quantise, silu", "quantise", [(None, (m, 2 * k), "bfloat16")], [((m, k), "float8_e4m3fn"), ((m, k // 128), "float32")], {"gate": "silu"})
    picked = [-1 if i % 11 == 5 else i * 7 % m for i in range(m // slots * slots)]
    yield Case("combine", "combine", [(None, (m, k), "bfloat16"), (None, (m // slots, slots), "int32", picked),
                                      ("weights", (m // slots, slots), "float32", "share")], [((m // slots, k), "bfloat16")])


def few_queries(batch, heads, kv_heads, keys, page):
    """Decode: heads of a group share a tile, and keys are split among blocks, whose states a second launch merges."""
    q = (None, (batch, heads, 1, 128), "bfloat16")
    yield Case("attention, one query", "fmha", [q] + [(None, (batch, kv_heads, keys, 128), "bfloat16")] * 2, [(q[1], "bfloat16")])
    pages, used = batch * keys // page, [keys - 37 * i for i in range(batch)]
    yield Case("attention, one query, pages", "fmha",
               [(None, (batch, heads, 128), "bfloat16"), *[(None, (pages, page, kv_heads, 128), "bfloat16")] * 2,
                ("cu_seqlens_q", (batch + 1,), "int32", list(range(batch + 1))), ("seqused_k", (batch,), "int32", used),
                ("block_table", (batch, pages // batch), "int32", [i * 5 % pages for i in range(pages)] if pages % 5 else list(range(pages)))],
               [((batch, heads, 128), "bfloat16")], {"causal": True})
    yield Case("merge_states", "merge_states", [(None, (6, batch, heads, keys // 8, 128), "bfloat16"), (None, (6, batch, heads, keys // 8), "float32")],
               [((batch, heads, keys // 8, 128), "bfloat16"), ((batch, heads, keys // 8), "float32")])


def rule_cases(batch, tokens, heads):
    """Token after token from a pool of states, then in chunks, then the chunks' stages as ops of their own."""
    def inputs(*lead, gates=()):
        return [*((None, (*lead, count, 128), "bfloat16", what) for count, what in ((heads, "unit"), (heads, "unit"), (2 * heads, "normal"))),
                ("gate", (*lead, 2 * heads, *gates), "float32", "decay"), ("beta", (*lead, 2 * heads), "float32", "share")]
    slots = [i * 3 % (batch + 2) if (batch + 2) % 3 else i for i in range(batch)]
    pool = [("initial_state", (batch + 2, 2 * heads, 128, 128), "float32", "unit"), ("read_slots", (batch,), "int32", slots)]
    for name, count in (("gated_delta_rule, one token", 1), ("gated_delta_rule, three tokens", 3)):
        yield Case(name, "gated_delta_rule", [*inputs(batch, count), *pool],
                   [((batch, count, 2 * heads, 128), "bfloat16"), ((batch, 2 * heads, 128, 128), "float32", "final_state")])
    for name, gates in (("gated_delta_rule, chunks", ()), ("gated_delta_rule, chunks, channels", (128,))):
        yield Case(name, "gated_delta_rule", inputs(2, tokens, gates=gates),
                   [((2, tokens, 2 * heads, 128), "bfloat16"), ((2, 2 * heads, 128, 128), "float32", "final_state")])
    k, v, a = ((None, (tokens, count, width), "bfloat16", what) for count, width, what in (
        (heads, 128, "unit"), (2 * heads, 128, "normal"), (2 * heads, 64, "unit")))
    of_heads, chunks = (tokens, 2 * heads), -(-tokens // 64)
    beta, sums = ("beta", of_heads, "float32", "share"), ("g_cu", of_heads, "float32", "sums")
    rows = ((tokens, 2 * heads, 128), "bfloat16")
    yield Case("chunk_cumsum", "chunk_cumsum", [(None, of_heads, "bfloat16", "decay")], [(of_heads, "float32")])
    yield Case("chunk_solve", "chunk_solve", [k, beta, sums], [((tokens, 2 * heads, 64), "bfloat16")])
    yield Case("chunk_wu", "chunk_wu", [k, v, a, beta, sums], [rows, rows])
    w = (None, (tokens, 2 * heads, 128), "bfloat16", "unit")
    yield Case("chunk_states", "chunk_states", [k, w, v, sums], [((chunks, 2 * heads, 128, 128), "bfloat16"), ((64 * chunks, 2 * heads, 128), "bfloat16")],
               {}, (), lambda h, v_new: [h, v_new[:tokens]])


def other_cases(small):
    """small: for the CPU model, of as many roles and lists as the large ones."""
    yield product("gemm, sliced", 16, 2048 if not small else 128, 8192 if not small else 1024, "bfloat16", only=("16x64x128c1x1x4s",))
    yield product("gemm, slices share copies", 104, 1024 if not small else 256, 8192 if not small else 512, "bfloat16", only=("104x128x64c2x1x2s",))
    m, n, k = (1500, 2048, 2048) if not small else (70, 256, 384)
    yield scaled_product("gemm, e4m3, scales of blocks", m, n, k)
    yield scaled_product("gemm, e4m3, silu, e4m3", m, n, k, [((m, n // 2), "float8_e4m3fn"), ((m, n // 256), "float32")], gate="silu")
    yield from group_cases(*(((700, 0, 129, 1, 900, 64, 511, 257), 1024, 1024) if not small else ((9, 0, 70), 256, 256)))
    yield from row_cases(*((4001, 2048, 4) if not small else (130, 256, 2)))
    yield from few_queries(*((4, 32, 8, 8192, 64) if not small else (2, 4, 2, 512, 16)))
    yield from rule_cases(*((64, 4000, 8) if not small else (2, 130, 1)))


def walk_cases():
    yield attention("attention, full", 16, 2048, False, 2)
    yield attention("attention, causal", 16, 2048, True, 2)
    yield attention("attention, causal, dynamic", 16, 1920, True, 2, ("dynamic",))
    yield attention("attention, causal, persistent", 16, 1984, True, 2, ("persistent",))
    yield product("gemm, many tiles", 4096, 4096, 2048)
    yield product("gemm, few tiles, long K", 256, 384, 16384)
    yield product("gemm, rows copied", 1500, 1301, 1003)
    yield product("gemm, bias and gelu", 2000, 3000, 1024, "bfloat16", bias=True, activation="gelu")
    yield product("gemm, f32 result, silu", 1000, 1004, 2048, out="float32", activation="silu")
    yield product("gemm, dynamic", 2560, 2560, 2048, only=[f"{tile}+dynamic" for tile in TILES])
    yield product("gemm, split", 2304, 2560, 2048, only=[f"{tile}+split" for tile in TILES])
    yield from chunk_cases()


def all_cases():
    yield from walk_cases()
    yield from other_cases(False)


class Call:
    """A case's tensors, and its call on them. Equal cases and seeds give equal tensors."""

    def __init__(self, torch, tilejit, case, max_sms, runtime, device="cuda", seed=0):
        draw = torch.Generator(device).manual_seed(seed + zlib.crc32(case.name.encode()))
        inputs = [(name, held(torch, *(what or ("normal",)), shape, getattr(torch, dtype), draw, device)) for name, shape, dtype, *what in case.inputs]
        results = [(name, torch.empty(shape, device=device, dtype=getattr(torch, dtype))) for shape, dtype, *name in case.results]
        self.torch, self.case, self.op, self.runtime = torch, case, getattr(tilejit, case.op), runtime
        self.given = [x for name, x in inputs if name is None]
        self.options = {**case.options, "max_sms": max_sms, "runtime": runtime}
        self.options.update({name: x for name, x in inputs if name is not None})
        self.options.update({name[0]: x for name, x in results if name})
        self.results, unnamed = [x for _, x in results], [x for name, x in results if not name]
        if case.op == "chunk_indices" or case.op == "chunk_o" and "seq_length" not in case.options:
            ends = torch.tensor([sum(LENGTHS[:i]) for i in range(len(LENGTHS) + 1)], device=device, dtype=torch.int32)
            if case.op == "chunk_indices":
                self.given = [ends]
            else:
                rows, total = tilejit.chunk_indices(ends, tokens=sum(LENGTHS))
                self.options.update(cu_seqlens=ends, chunk_indices=rows, total_chunks=total)
        self.options["out"] = unnamed[0] if len(unnamed) == 1 else tuple(unnamed)
        if case.only:
            asked = {name: value for name, value in self.options.items() if name != "runtime"}
            runtime.tune(case.op, *self.given, only=case.only, limit=1, rounds=1, **asked)
        self.kernel = tilejit.plan(case.op, *self.given, **self.options).kernel
        self.run(torch.cuda.current_stream() if device == "cuda" else None)  # kernels are made and loaded

    def run(self, stream):
        self.op(*self.given, stream=stream, **self.options)

    def poison(self):
        for each in self.results:
            each.view(self.torch.uint8).fill_(255 if each.is_floating_point() else 165)  # the former are NaN

    def bits(self):
        return [each.view(self.torch.uint8).clone() for each in self.results]

    def same(self, bits):
        return all(self.torch.equal(each.view(self.torch.uint8), wanted) for each, wanted in zip(self.results, bits))

    def filled(self):
        parts = self.results if self.case.written is None else self.case.written(*self.results)
        return all(bool(self.torch.isfinite(each.float()).all()) if each.is_floating_point() else bool((each >= 0).all()) for each in parts)

    def forced(self):
        """Has the kernel the walk or the tile that the case names? True where it names none."""
        words = {name.rpartition("+")[2] for name in self.case.only}
        return not words or any(word in self.kernel for word in words)
