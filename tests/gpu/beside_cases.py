"""The calls that beside.py makes: products, attention and chunks, with the walks that draw or share tiles.

Decides their shapes, and how a walk is forced. Invariant: a result is poisoned by bytes, and compared by bytes.
"""
import collections

TILES = [tile + cluster + swapped for tile in ("128x256x64", "128x192x64", "192x128x64", "192x160x64", "176x128x64", "160x128x64", "144x128x64", "128x128x64",
                                               "64x256x64", "128x64x64", "64x128x64")
         for cluster in ("", "c2x1", "c1x2") for swapped in ("", "s")]  # of which those that do not serve are passed over

# inputs: (name or None for those by position, shape, type); results: (shape, type); only: names of kernels, of which the best predicted is forced
Case = collections.namedtuple("Case", "name op inputs results options only", defaults=({}, ()))
LENGTHS = (1000, 64, 1, 700, 2331)  # of sequences


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


def all_cases():
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


class Call:
    """A case's tensors, and its call on them."""

    def __init__(self, torch, tilejit, case, max_sms, runtime):
        def normal(shape, dtype):
            return torch.randn(shape, device="cuda", dtype=torch.float32).to(getattr(torch, dtype))
        self.torch, self.case, self.op, self.runtime = torch, case, getattr(tilejit, case.op), runtime
        self.given = [normal(shape, dtype) for name, shape, dtype in case.inputs if name is None]
        self.options = {**case.options, "max_sms": max_sms, "runtime": runtime}
        self.options.update({name: normal(shape, dtype) for name, shape, dtype in case.inputs if name is not None})
        self.results = [torch.empty(shape, device="cuda", dtype=getattr(torch, dtype)) for shape, dtype in case.results]
        if case.op == "chunk_indices" or case.op == "chunk_o" and "seq_length" not in case.options:
            ends = torch.tensor([sum(LENGTHS[:i]) for i in range(len(LENGTHS) + 1)], device="cuda", dtype=torch.int32)
            if case.op == "chunk_indices":
                self.given = [ends]
            else:
                rows, total = tilejit.chunk_indices(ends, tokens=sum(LENGTHS))
                self.options.update(cu_seqlens=ends, chunk_indices=rows, total_chunks=total)
        self.options["out"] = self.results[0] if len(self.results) == 1 else tuple(self.results)
        if case.only:
            asked = {name: value for name, value in self.options.items() if name != "runtime"}
            runtime.tune(case.op, *self.given, only=case.only, limit=1, rounds=1, **asked)
        self.kernel = tilejit.plan(case.op, *self.given, **self.options).kernel
        self.run(torch.cuda.current_stream())  # kernels are made and loaded

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
        return all(bool(self.torch.isfinite(each).all()) if each.is_floating_point() else bool((each >= 0).all()) for each in self.results)

    def forced(self):
        """Has the kernel the walk that the case names? True where it names none."""
        words = {name.rpartition("+")[2] for name in self.case.only}
        return not words or any(word in self.kernel for word in words)
