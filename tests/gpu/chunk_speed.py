"""Chunk output beside a copy that moves as many bytes, a Triton kernel and plain PyTorch: all replayed from CUDA graphs, interleaved in one
run; the table of it.

The floor is memory, so what is in the cache would decide: every candidate, the copy too, goes round copies of the problem that are together
several times as large as L2, and finds its inputs cold.
"""
import itertools
import math
import random

import chunk_check
import chunk_peer
import timing

CHUNK, DIM = 64, 128
HEADS = [(16, 32), (16, 48), (16, 64), (8, 32), (4, 16)]
TOKENS = [8192, 32768]
SEQUENCES = 4                          # that cu_seqlens cuts these tokens into
RAGGED_SEQUENCES, RAGGED_MOST = 257, 129
COLD_BYTES = 512 << 20                 # before anything is read again; L2 of an H200 has 60 MB
GRAPH_BYTES = 4e9                      # moved by the calls of one graph: a millisecond, beside which its start does not count
WANTED = {"over_copy": {(16, 32): 1.11}, "over_copy_others": 1.2, "ragged_over_triton": 1.0}
PEERS = ["triton", "torch"]
DIFFERENCE = 2 * chunk_check.LIMIT     # between two results that are each as near to f64 as chunk_check wants


def parse_heads(text):
    """"16/32,4/16" -> [(16, 32), (4, 16)]."""
    pairs = []
    for word in text.split(","):
        heads, slash, v_heads = word.partition("/")
        if not slash or int(heads) < 1 or int(v_heads) % int(heads) != 0 or int(v_heads) < 1:
            raise ValueError(f"'{word}' is not H/Hv with Hv a multiple of H")
        pairs.append((int(heads), int(v_heads)))
    return pairs


def problems(heads, tokens):
    """(form, lengths) of every row, for each pair of heads."""
    found = [{"heads": pair, "form": form, "lengths": [size // count] * count}
             for pair in heads for size in tokens for form, count in (("equal", 1), ("cu_seqlens", SEQUENCES))]
    generator = random.Random(RAGGED_SEQUENCES)
    ragged = [generator.randint(1, RAGGED_MOST) for _ in range(RAGGED_SEQUENCES)]
    return found + [{"heads": pair, "form": "ragged", "lengths": ragged} for pair in heads[:1]]


def bytes_of(heads, lengths):
    """Read and written, each element once: q, k, v_new, g_cu and o of every token, h of every chunk."""
    tokens, chunks = sum(lengths), sum(-(-length // CHUNK) for length in lengths)
    return tokens * (2 * 2 * heads[0] * DIM + 2 * 2 * heads[1] * DIM + 4 * heads[1]) + chunks * 2 * heads[1] * DIM * DIM


def sets_of(size):
    """Copies of a problem that calls go round."""
    return max(1, math.ceil(COLD_BYTES / size))


def calls_of(size):
    """Calls in one graph: each copy of the problem as often as the others."""
    sets = sets_of(size)
    return sets * max(1, math.ceil(GRAPH_BYTES / (sets * size)))


def wanted_of(row):
    return WANTED["over_copy"].get((row["heads"], row["v_heads"]), WANTED["over_copy_others"]) if row["form"] != "ragged" else None


def missed(row):
    """Is a row not what is wanted? One without its figure is not."""
    if row["form"] == "ragged":
        return not row.get("over_triton", 0.0) > WANTED["ragged_over_triton"]
    return not row.get("over_copy", math.inf) <= row["wanted_over_copy"]


def wrong(row):
    """What is wrong with what tilejit did, in words; empty when nothing is."""
    if "tilejit" not in row:
        return "no result of tilejit"
    if "list" in row["refused"]:
        return "no list of chunks"
    far = [f"{row[f'difference_{name}']:.1e} from {name}" for name in PEERS if not row.get(f"difference_{name}", 0.0) <= DIFFERENCE]
    return ", ".join(far)


# ---- on the GPU --------------------------------------------------------------------------------------------------------
class Inputs:
    """One copy of a problem: dense tensors, each form of the call on it."""

    def __init__(self, torch, binding, device, row, generator):
        (heads, v_heads), lengths = row["heads"], row["lengths"]
        chunks, tokens = chunk_check.chunks_of(lengths), sum(lengths)
        normal = lambda *shape: torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)  # noqa: E731
        self.torch, self.chunks, self.scale, self.variable = torch, len(chunks), DIM ** -0.5, row["form"] != "equal"
        self.q, self.k = (torch.nn.functional.normalize(normal(tokens, heads, DIM).float(), dim=-1).to(torch.bfloat16) for _ in range(2))
        self.v_new, self.h = normal(self.chunks * CHUNK, v_heads, DIM), normal(self.chunks, v_heads, DIM, DIM)
        gates = -0.1 * torch.rand((self.chunks, CHUNK, v_heads), generator=generator, device="cuda")
        rows = torch.tensor([c * CHUNK + i for c, chunk in enumerate(chunks) for i in range(chunk[3])], device="cuda")
        self.g_cu = torch.cumsum(gates, 1).reshape(-1, v_heads)[rows].contiguous()
        self.o, self.triton_o, self.torch_o = (torch.full((tokens, v_heads, DIM), math.nan, dtype=torch.bfloat16, device="cuda") for _ in range(3))
        half = (bytes_of(row["heads"], lengths) // 2 + 255) // 256 * 256  # a copy of odd sizes may take half as long again
        self.source, self.target = (torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2))
        self.source.copy_(torch.randint(0, 256, (half,), generator=generator, device="cuda", dtype=torch.uint8))
        self.seq_length = lengths[0]
        bound = lambda t, code: binding.tensor(t.data_ptr(), device, code, list(t.shape))  # noqa: E731
        self.bound = [bound(t, binding.BF16) for t in (self.q, self.k, self.v_new, self.h, self.o)]
        self.more = {"g_cu": bound(self.g_cu, binding.F32)}
        if self.variable:
            ends = list(itertools.accumulate(lengths, initial=0))
            self.ends = torch.tensor(ends, dtype=torch.int32, device="cuda")
            self.indices, self.total = torch.full((self.chunks, 2), -1, dtype=torch.int32, device="cuda"), torch.full((1,), -1, dtype=torch.int32, device="cuda")
            self.lists = [bound(t, binding.I32) for t in (self.ends, self.indices, self.total)]
            self.more.update(zip(("cu_seqlens", "chunk_indices", "total_chunks"), self.lists))
        else:
            self.more["seq_length"] = self.seq_length

    def stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def list_chunks(self, runtime):
        runtime.chunk_indices(*self.lists, stream=self.stream())

    def tilejit(self, runtime):
        runtime.chunk_o(*self.bound, scale=self.scale, stream=self.stream(), **self.more)

    def triton(self, peer):
        lists = {"cu_seqlens": self.ends, "chunk_indices": self.indices} if self.variable else {}
        peer(self.q, self.k, self.v_new, self.h, self.g_cu, self.triton_o, self.scale, chunks=self.chunks, **lists)

    def plain(self, plain):
        plain(self.q, self.k, self.v_new, self.h, self.g_cu, self.torch_o, self.scale)

    def copy(self):
        self.target.copy_(self.source)


def in_turn(functions):
    """One of them a call, round and round."""
    turns = itertools.cycle(functions)
    return lambda: next(turns)()


def difference(ours, theirs):
    return float((ours.float() - theirs.float()).norm() / theirs.float().norm())


def time_problem(torch, runtime, binding, device, problem, peer, options, generator):
    (heads, v_heads), lengths = problem["heads"], problem["lengths"]
    row = {"heads": heads, "v_heads": v_heads, "form": problem["form"], "tokens": sum(lengths), "sequences": len(lengths)}
    size = bytes_of(problem["heads"], lengths)
    inputs = [Inputs(torch, binding, device, problem, generator) for _ in range(sets_of(size))]
    row.update(bytes=size, copies=len(inputs), refused={})
    plain = chunk_peer.Plain(torch, lengths)
    candidates = {"copy": [one.copy for one in inputs]}
    forms = {"list": lambda one: one.list_chunks(runtime), "tilejit": lambda one: one.tilejit(runtime), "triton": lambda one: one.triton(peer),
             "torch": lambda one: one.plain(plain)}
    for name, call in forms.items():
        if (name == "list" and problem["form"] == "equal") or (name == "triton" and peer is None):
            continue
        try:
            for one in inputs:
                call(one)
            torch.cuda.synchronize()
            candidates[name] = [lambda call=call, one=one: call(one) for one in inputs]
        except (binding.TilejitError, RuntimeError) as error:
            row["refused"][name] = str(error).splitlines()[0]
    calls = calls_of(size)
    times = timing.time_graphs(torch, {name: in_turn(functions) for name, functions in candidates.items()}, calls, options.rounds, options.runs)
    for name, values in times.items():
        row[name] = {**timing.summary(values, 0), "gb_per_s": size / timing.statistics.median(values) * 1e-6}
        del row[name]["tflops"]
    if "tilejit" in row:
        row["over_copy"] = row["tilejit"]["median_ms"] / row["copy"]["median_ms"]
        for name, result in (("triton", inputs[0].triton_o), ("torch", inputs[0].torch_o)):
            if name in row:
                row[f"over_{name}"] = row[name]["median_ms"] / row["tilejit"]["median_ms"]
                row[f"difference_{name}"] = difference(inputs[0].o, result)
    if "triton" in row:
        row["triton_kernel"] = peer.chosen()
    row["wanted_over_copy"] = wanted_of(row)
    return row


def find_peer(options):
    """The Triton kernel, or None and why not."""
    if options.skip_triton:
        return None, "left out"
    try:
        import triton
        return chunk_peer.Peer(triton), None
    except ImportError as error:
        return None, str(error)


def run(torch, runtime, binding, device, options):
    generator = torch.Generator(device="cuda").manual_seed(options.seed)
    peer, no_peer = find_peer(options)
    rows = []
    for problem in problems(options.chunk_heads, options.chunk_tokens):
        rows.append(time_problem(torch, runtime, binding, device, problem, peer, options, generator))
        print(line(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    return {"seed": options.seed, "rounds": options.rounds, "runs_a_round": options.runs, "rows": rows, "no_triton": no_peer,
            "missed": [line(row) for row in rows if missed(row)], "wrong": sum(1 for row in rows if wrong(row)),
            "geometric_mean_over_triton": timing.geometric_mean(row["over_triton"] for row in rows if "over_triton" in row)}


# ---- the table ---------------------------------------------------------------------------------------------------------
def title(row):
    return f"{row['heads']}/{row['v_heads']}, {row['tokens']} tokens, " + {"equal": "equal", "cu_seqlens": f"cu_seqlens of {row['sequences']}",
                                                                            "ragged": f"{row['sequences']} sequences of 1 to {RAGGED_MOST}"}[row["form"]]


def line(row):
    text = title(row) + ":"
    for name in ("tilejit", "copy", *PEERS):
        text += f"  {name} {row[name]['median_ms'] * 1e3:.1f} us" if name in row else f"  {name} refused: {row['refused'][name]}" if name in row["refused"] else ""
    if "over_copy" in row:
        text += f"  x{row['over_copy']:.3f} of the copy" + (f" (wanted {row['wanted_over_copy']})" if row["wanted_over_copy"] else "")
        text += f", {row['tilejit']['gb_per_s']:.0f} GB/s" + (f", x{row['over_triton']:.3f} over Triton" if "over_triton" in row else "")
    text += f"  list {row['list']['median_ms'] * 1e3:.1f} us" if "list" in row else f"  list refused: {row['refused']['list']}" if "list" in row["refused"] else ""
    return text + (f"  WRONG: {wrong(row)}" if wrong(row) else "")


def markdown(section):
    lines = ["## Speed", "",
             f"Microseconds a call, replayed from CUDA graphs (launch excluded): medians of {section['rounds']} x {section['runs_a_round']} replays, interleaved "
             f"in one run. Every candidate goes round copies of the problem of {COLD_BYTES >> 20} MB or more, so that no input is in L2; the copy is device to "
             "device and moves as many bytes, read and written (GB/s: those bytes over the time). Random data "
             f"(seed {section['seed']}). Triton: one program for each chunk, head and block of V, autotuned a row. List: making chunk_indices, not part of "
             "tilejit's time.", "",
             "| H/Hv, problem | MB | tilejit us | copy us | time over copy | wanted | GB/s | Triton us | over Triton | PyTorch us | over PyTorch | list us |",
             "|" + "---|" * 12]
    for row in section["rows"]:
        time = lambda name: f"{row[name]['median_ms'] * 1e3:.1f}" if name in row else "-"  # noqa: E731
        ratio = lambda name: f"{row[name]:.3f}" if name in row else "-"  # noqa: E731
        speed = f"{row['tilejit']['gb_per_s']:.0f}" if "tilejit" in row else "refused"
        cells = [f"{row['bytes'] / 1e6:.1f}", time("tilejit"), time("copy"), ratio("over_copy"), str(row["wanted_over_copy"] or "-"), speed, time("triton"),
                 ratio("over_triton"), time("torch"), ratio("over_torch"), time("list")]
        lines.append(f"| {title(row)}{f' (WRONG: {wrong(row)})' if wrong(row) else ''} | " + " | ".join(cells) + " |")
    chosen = sorted({row["triton_kernel"] for row in section["rows"] if "triton_kernel" in row})
    if chosen:
        lines += ["", f"Triton's choices: {'; '.join(chosen)}. Geometric mean over it: {section['geometric_mean_over_triton'] or 0:.3f}."]
    if section["no_triton"]:
        lines += ["", f"No Triton: {section['no_triton']}."]
    if section["wrong"]:
        lines += ["", f"{section['wrong']} of {len(section['rows'])} rows are wrong: refused, or further than {DIFFERENCE:.0e} (relative) from a peer's result."]
    return lines + ["", f"{len(section['missed'])} of {len(section['rows'])} rows are not what is wanted." if section["missed"] else "Every row is what is wanted.", ""]


def self_test():
    assert parse_heads("16/32,4/16") == [(16, 32), (4, 16)]
    for bad in ("16", "16/33", "0/0"):
        try:
            parse_heads(bad)
        except (ValueError, ZeroDivisionError):
            continue
        raise AssertionError(bad)
    assert bytes_of((16, 32), [8192]) == 8192 * 41088 and bytes_of((16, 32), [4096] * 2) == 8192 * 41088 and bytes_of((1, 1), [1]) == 1028 + 32768
    rows = problems(HEADS, TOKENS)
    assert len(rows) == 21 and rows[1]["lengths"] == [2048] * 4 and len(rows[-1]["lengths"]) == 257 and max(rows[-1]["lengths"]) <= 129
    for row in rows:
        size = bytes_of(row["heads"], row["lengths"])
        assert size * sets_of(size) >= COLD_BYTES and calls_of(size) % sets_of(size) == 0 and calls_of(size) <= 64
    seen = []
    turn = in_turn([lambda: seen.append(1), lambda: seen.append(2)])
    turn(), turn(), turn()
    assert seen == [1, 2, 1]
    timed = {"median_ms": 0.1, "gb_per_s": 3366.0}
    row = {"heads": 16, "v_heads": 32, "form": "equal", "tokens": 8192, "sequences": 1, "bytes": 336592896, "refused": {}, "tilejit": timed, "copy": timed,
           "triton": timed, "over_copy": 1.0, "over_triton": 1.5, "wanted_over_copy": 1.11, "triton_kernel": "BV 64"}
    ragged = {**row, "form": "ragged", "sequences": 257, "wanted_over_copy": None, "list": timed}
    refused = {key: row[key] for key in ("heads", "v_heads", "form", "tokens", "sequences", "bytes", "copy", "wanted_over_copy")}
    refused["refused"] = {"tilejit": "strides"}
    text = "\n".join(markdown({"rounds": 1, "runs_a_round": 3, "seed": 1, "rows": [row, ragged, refused], "no_triton": None, "missed": [],
                              "wrong": 1, "geometric_mean_over_triton": 1.5}))
    assert "| 16/32, 8192 tokens, equal | 336.6 | 100.0 | 100.0 | 1.000 | 1.11 | 3366 | 100.0 | 1.500 | - | - | - |" in text, text
    assert "257 sequences of 1 to 129" in text and "| refused |" in text and "Every row" in text and "1 of 3 rows are wrong" in text, text
    assert "16/32, 8192 tokens, equal (WRONG: no result of tilejit) |" in text, text
    assert "x1.000 of the copy (wanted 1.11)" in line(row) and "tilejit refused: strides" in line(refused)
    assert wanted_of(row) == 1.11 and wanted_of({**row, "heads": 8}) == 1.2 and wanted_of(ragged) is None
    # A figure that is not there, or is no number, is not what is wanted; a peer that is not there is not tilejit's fault.
    assert not missed(row) and not missed(ragged) and missed(refused) and missed({**row, "over_copy": 1.12}) and missed({**row, "over_copy": math.nan})
    without_triton = {key: value for key, value in ragged.items() if key != "over_triton"}
    assert missed(without_triton) and missed({**ragged, "over_triton": 1.0}) and not wrong(without_triton) and not wrong(row)
    near, far = {**row, "difference_triton": 3e-3, "difference_torch": 4e-3}, {**row, "difference_triton": 3e-3, "difference_torch": 0.7}
    assert not wrong(near) and wrong(far) == "7.0e-01 from torch" and wrong({**row, "difference_triton": math.nan}) == "nan from triton"
    assert "WRONG: 7.0e-01 from torch" in line(far) and wrong(refused) == "no result of tilejit" and wrong({**ragged, "refused": {"list": "strides"}}) == "no list of chunks"
