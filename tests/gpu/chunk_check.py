#!/usr/bin/env python3
"""Chunk output of the gated delta rule, and the list of chunks, against f64: problems, memory with guard bands, one run after the other.

    python3 tests/gpu/chunk_check.py --cases 100 [--seed N] [--json FILE]
    python3 tests/gpu/chunk_check.py --cases 12 --model       (the CPU model, small problems, no GPU)

Random lengths (zero and one around every edge), head ratios, gates from none to ones that overflow above the diagonal, strides with gaps.
What no result may depend on is NaN: padded rows of v_new, states behind the last chunk, tokens outside all sequences. o is poisoned.
Needs libtilejit.so (--library, else the newest below build/), PyTorch, and but for --model a GPU. Exit codes: 0 all right, 1 a result was
wrong, 2 bad use, 77 something that is needed is missing.
"""
import argparse
import glob
import json
import math
import os
import random
import secrets
import sys

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "c_api")]
import chunk_reference  # noqa: E402
from chunk_reference import CHUNK, DIM, LIMIT, ROW_LIMIT  # noqa: E402
from fmha_check import GUARD_ELEMENTS, Guarded, double  # noqa: E402

EDGES = [0, 1, 2, 31, 63, 64, 65, 100, 127, 128, 129, 191, 192, 193, 320]
HEADS = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 2), (2, 4), (2, 6), (2, 8), (3, 9), (4, 16), (8, 16), (16, 32)]
GATES = ["absent", "none", "weak", "usual", "strong", "mixed"]
CAPTURED = [[429, 0, 0, 0], [1, 1, 1, 426]]  # as many tokens in other numbers of chunks
PADDING = [0, 0, 0, 8, 64]  # elements between rows, heads, tokens: multiples of 16 bytes


# ---- problems ----------------------------------------------------------------------------------------------------------
def random_lengths(generator, most_tokens):
    lengths, count = [], generator.choice([1, 1, 2, 3, 5, 9, 33])
    for _ in range(count):
        length = generator.choice(EDGES) if generator.random() < 0.6 else int(math.exp(generator.uniform(0, math.log(1500))))
        lengths.append(min(length, max(0, most_tokens - sum(lengths))))
    return lengths


def random_case(generator, most_tokens=3000, heads=None):
    """One problem as a dictionary that fits on a line of a report."""
    equal = generator.random() < 0.25
    lengths = [min(generator.choice(EDGES[1:]), most_tokens)] * generator.randint(1, 4) if equal else random_lengths(generator, most_tokens)
    lengths = lengths[:max(1, most_tokens // max(1, lengths[0]))] if equal else lengths
    return {
        "heads": list(generator.choice(heads or HEADS)), "equal": equal, "lengths": lengths, "gates": generator.choice(GATES),
        "states": generator.choice(["random", "random", "computed"]), "h_transposed": generator.random() < 0.3,
        "scale": generator.choice([None, None, None, 1.0, 0.5, -0.3, 0.01]),
        "outside": [0, 0] if equal else [generator.choice([0, 0, 3, 70]) for _ in range(2)],  # tokens before and behind all sequences
        "room": generator.choice([0, 0, 1, 100]), "spare": generator.choice([0, 0, 2]),  # rows of chunk_indices, chunks of h and v_new, more than needed
        "padding": {name: [generator.choice(PADDING) for _ in range(2)] for name in ("q", "k", "v_new", "h", "o")}, "g_padding": generator.choice([0, 0, 1, 4]),
    }


def covering_cases(generator, count, most_tokens=3000, heads=None):
    """`count` cases; those that matter most are there whatever the seed."""
    cases = [random_case(generator, most_tokens, heads) for _ in range(count)]
    many = [generator.randint(1, 129) for _ in range(257)]
    forced = [{"lengths": [0]}, {"lengths": [1]}, {"lengths": [63]}, {"lengths": [64]}, {"lengths": [65]}, {"lengths": [0, 0, 64, 0, 65, 0]},
              {"lengths": many if most_tokens >= 3000 else many[:5]}, {"lengths": [most_tokens]}, {"lengths": [130, 64], "gates": "strong"},
              {"lengths": [65, 1], "gates": "mixed", "states": "computed"}, {"lengths": [129], "gates": "absent"}]
    for number, change in enumerate(forced[:count]):
        cases[number].update(change, equal=False)
    for number, pair in enumerate((heads or HEADS)[:count]):
        cases[-1 - number]["heads"] = list(pair)
    return cases


def chunks_of(lengths, first=0):
    """(sequence, chunk of it, first token, tokens) of every chunk, in order."""
    found = []
    for sequence, length in enumerate(lengths):
        found += [(sequence, c, first + c * CHUNK, min(CHUNK, length - c * CHUNK)) for c in range(-(-length // CHUNK))]
        first += length
    return found


def random_gates(torch, kind, shape, place, generator):
    """g, natural log, f32."""
    uniform = torch.rand(shape, generator=generator, device=place)
    if kind == "strong":
        return -30.0 * uniform
    if kind == "mixed":
        return torch.where(uniform < 0.1, -100.0 * torch.ones_like(uniform), torch.zeros_like(uniform))
    return {"weak": -0.01, "usual": -1.0}.get(kind, 0.0) * uniform


# ---- memory ------------------------------------------------------------------------------------------------------------
class Problem:
    """The tensors of a case on a GPU or, for the model, in host memory; fill() may give them other lengths of the same sum."""

    def __init__(self, torch, tj, device, case):
        self.torch, self.tj, self.device, self.case = torch, tj, device, case
        self.place = "cuda" if device.kind == tj.CUDA else "cpu"
        heads, v_heads = case["heads"]
        self.tokens = max(1, sum(case["outside"]) + sum(case["lengths"]))
        chunks = max(1, case.get("most_chunks") or len(chunks_of(case["lengths"])))
        padding = case["padding"]
        self.q, self.k = (self.strided([self.tokens, heads, DIM], padding[name]) for name in "qk")
        self.o = self.strided([self.tokens, v_heads, DIM], padding["o"])
        self.v_new = self.strided([(chunks + case["spare"]) * CHUNK, v_heads, DIM], padding["v_new"])
        self.h = self.strided([chunks + case["spare"], v_heads, DIM, DIM], padding["h"])
        self.g_cu = None if case["gates"] == "absent" else self.strided([self.tokens, v_heads], [case["g_padding"]], torch.float32)
        if case["equal"]:
            return
        self.cu_seqlens = self.strided([len(case["lengths"]) + 1], [], torch.int32)
        self.chunk_indices, self.total = self.strided([chunks + case["room"], 2], [0], torch.int32), self.strided([1], [], torch.int32)

    def strided(self, shape, padding, dtype=None):
        """Dense but for gaps behind the two outermost dimensions, outermost first."""
        strides = [1]
        for i in range(len(shape) - 2, -1, -1):
            strides.insert(0, strides[0] * shape[i + 1] + (padding[i] if i < len(padding) else 0))
        return Guarded(self.torch, dtype or self.torch.bfloat16, shape, strides, shape[0] * strides[0], self.place)

    def bound(self, t, dtype):
        return None if t is None else self.tj.tensor(t.view.data_ptr(), self.device, dtype, t.shape, list(t.strides))

    def fill(self, lengths, seed):
        torch, case = self.torch, self.case
        generator = torch.Generator(device=self.place).manual_seed(seed)
        normal = lambda shape: torch.randn(shape, generator=generator, device=self.place)  # noqa: E731
        self.first = case["outside"][0]
        self.chunks, self.lengths, self.inside = chunks_of(lengths, self.first), lengths, slice(self.first, self.first + sum(lengths))
        for t in (self.q, self.k, self.v_new, self.h, self.o) + (() if self.g_cu is None else (self.g_cu,)):
            t.buffer.fill_(t.poison)
        for t in (self.q, self.k):
            rows = normal(t.view[self.inside].shape)
            t.view[self.inside] = (rows / rows.norm(dim=-1, keepdim=True)).to(torch.bfloat16)
        g = random_gates(torch, case["gates"], [self.tokens, case["heads"][1]], self.place, generator)
        states = self.states(g, normal) if case["states"] == "computed" else None
        for c, (_, _, token, rows) in enumerate(self.chunks):
            v_new, h = states[c] if states else (normal([rows, *self.v_new.shape[1:]]), normal(self.h.shape[1:]))
            self.v_new.view[c * CHUNK:c * CHUNK + rows] = v_new.to(torch.bfloat16)
            self.h.view[c] = (h.swapaxes(1, 2) if case["h_transposed"] else h).to(torch.bfloat16)
            if self.g_cu is not None:
                self.g_cu.view[token:token + rows] = torch.cumsum(g[token:token + rows], 0)
        if not case["equal"]:
            ends = [self.first]
            for length in lengths:
                ends.append(ends[-1] + length)
            self.cu_seqlens.view.copy_(torch.tensor(ends, dtype=torch.int32))
            for t in (self.chunk_indices, self.total):
                t.buffer.fill_(t.poison)

    def states(self, g, normal):
        """The states that the kernels before chunk output leave of the same tokens and random values."""
        torch, found, token = self.torch, [], self.first
        for length in self.lengths:
            rows = slice(token, token + length)
            token += length
            if length == 0:
                continue
            v = normal([length, self.case["heads"][1], DIM]).double()
            beta = torch.sigmoid(normal([length, self.case["heads"][1]])).double()
            found += chunk_reference.chunk_states(torch, self.k.view[rows].double(), v, beta, g[rows].double())
        return found

    # ---- the calls, and what they left ---------------------------------------------------------------------------------
    def enqueue(self, runtime, stream):
        case, tj = self.case, self.tj
        arguments = [self.bound(t, tj.BF16) for t in (self.q, self.k, self.v_new, self.h, self.o)]
        more = {"g_cu": self.bound(self.g_cu, tj.F32)}
        if case["equal"]:
            more["seq_length"] = case["lengths"][0]
        else:
            lists = [self.bound(t, tj.I32) for t in (self.cu_seqlens, self.chunk_indices, self.total)]
            runtime.chunk_indices(*lists, stream=stream)
            more.update(zip(("cu_seqlens", "chunk_indices", "total_chunks"), lists))
        runtime.chunk_o(*arguments, scale=case["scale"], h_transposed=case["h_transposed"], stream=stream, **more)

    def listed_wrong(self):
        """Elements of total_chunks and chunk_indices that are not as a loop over the sequences makes them."""
        if self.case["equal"]:
            return 0
        wanted = self.torch.full_like(self.chunk_indices.view, self.chunk_indices.poison)
        if self.chunks:
            wanted[:len(self.chunks)] = self.torch.tensor([chunk[:2] for chunk in self.chunks], dtype=self.torch.int32)
        wrong = int((self.chunk_indices.view != wanted).sum()) + int(self.total.view[0] != len(self.chunks))
        return wrong + self.chunk_indices.written_outside() + self.total.written_outside()

    def check(self):
        metric = chunk_reference.Metric()
        torch, scale = self.torch, DIM ** -0.5 if self.case["scale"] is None else self.case["scale"]
        for c, (_, _, token, rows) in enumerate(self.chunks):
            part = slice(token, token + rows)
            q, k, v_new, h = (double(torch, x) for x in (self.q.view[part], self.k.view[part], self.v_new.view[c * CHUNK:c * CHUNK + rows], self.h.view[c]))
            g = torch.zeros([rows, v_new.shape[1]], dtype=torch.float64, device=self.place) if self.g_cu is None else double(torch, self.g_cu.view[part])
            metric.add(double(torch, self.o.view[part]), *chunk_reference.chunk_parts(torch, q, k, v_new, h.swapaxes(1, 2) if self.case["h_transposed"] else h, g, scale))
        rest = self.o.buffer.clone()
        rest.as_strided(self.o.shape, self.o.strides, GUARD_ELEMENTS)[self.inside] = self.o.poison
        outside, unwritten = int((rest != self.o.poison).sum()), int((self.o.bits[self.inside] == self.o.poison).sum())
        listed_wrong = self.listed_wrong()
        return {"error": metric.error, "row_error": metric.row_error, "max_error": metric.largest, "rms": metric.rms, "unwritten": unwritten,
                "written_outside": outside, "listed_wrong": listed_wrong,
                "ok": metric.error <= LIMIT and metric.row_error <= ROW_LIMIT and unwritten == 0 and outside == 0 and listed_wrong == 0}


def run_case(torch, runtime, tj, device, case, seed):
    """Runs one case; returns its figures. Raises binding.TilejitError when the library refuses it."""
    problem = Problem(torch, tj, device, case)
    problem.fill(case["lengths"], seed)
    problem.enqueue(runtime, torch.cuda.current_stream().cuda_stream if problem.place == "cuda" else None)
    if problem.place == "cuda":
        torch.cuda.synchronize()
    return problem.check()


def run_captured(torch, runtime, tj, device, seed):
    """Both calls in one CUDA graph, replayed after the lengths have changed, and with them the number of chunks: nothing of them may come
    from the host."""
    lengths = CAPTURED[0]
    most = max(len(chunks_of(each)) for each in CAPTURED)
    case = {**random_case(random.Random(seed)), "equal": False, "lengths": lengths, "gates": "usual", "outside": [0, 0], "room": 0, "most_chunks": most}
    problem = Problem(torch, tj, device, case)
    problem.fill(lengths, seed)
    problem.enqueue(runtime, torch.cuda.current_stream().cuda_stream)  # kernels are made before a capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        problem.enqueue(runtime, torch.cuda.current_stream().cuda_stream)
    for turn in (1, 2):  # more chunks than when it was captured, and as many again
        problem.fill(CAPTURED[turn % 2], seed + turn)
        graph.replay()
        torch.cuda.synchronize()
        result = {"lengths": CAPTURED[turn % 2], **problem.check()}
        if not result["ok"]:
            break
    return result


def run_correctness(torch, runtime, tj, device, count, seed, report, most_tokens=3000, heads=None):
    """All cases. `report` is called with a line for each failure. Returns the section of the JSON document."""
    cases = covering_cases(random.Random(seed), count, most_tokens, heads)
    work = [(case, lambda case=case, number=number: run_case(torch, runtime, tj, device, case, seed + number)) for number, case in enumerate(cases)]
    if device.kind == tj.CUDA:
        work.append(({"captured": True}, lambda: run_captured(torch, runtime, tj, device, seed)))
    worst, failures = {"o": 0.0, "row": 0.0, "max": 0.0, "max over rms": 0.0}, []
    for number, (case, run) in enumerate(work):
        try:
            result = run()
        except tj.TilejitError as error:
            result = {"ok": False, "refused": str(error)}
        if not result["ok"]:
            failures.append({"number": number, **case, **result})
            report(f"case {number} FAILED: {case} -> {result}")
        if "error" in result:
            relative = result["max_error"] / result["rms"] if result["rms"] else 0.0
            worst = {"o": max(worst["o"], result["error"]), "row": max(worst["row"], result["row_error"]), "max": max(worst["max"], result["max_error"]),
                     "max over rms": max(worst["max over rms"], relative)}
    return {"seed": seed, "cases": len(work), "failed": len(failures), "worst_error": {"o": worst["o"], "row": worst["row"]},
            "limits": {"o": LIMIT, "row": ROW_LIMIT},
            "largest_difference": worst["max"], "largest_difference_over_rms": worst["max over rms"], "failures": failures}


def largest_text(section):
    """A sentence of a report; empty where the section is another op's."""
    if "largest_difference" not in section:
        return ""
    return f" Largest difference {section['largest_difference']:.2e}; of the root mean square of its reference at most {section['largest_difference_over_rms']:.2e}."


# ---- without a GPU -----------------------------------------------------------------------------------------------------
def self_test(np):
    """Checks problems and reference with NumPy; raises AssertionError."""
    chunk_reference.self_test(np)
    first, second = CAPTURED  # what the graph must read on the device: other lengths, another number of chunks, the same tensors
    assert sum(first) == sum(second) and len(first) == len(second) and len(chunks_of(first)) == 7 and len(chunks_of(second)) == 10
    assert chunks_of([0, 65, 0, 64], 3) == [(1, 0, 3, 64), (1, 1, 67, 1), (3, 0, 68, 64)] and chunks_of([0]) == []
    for seed in range(10):
        cases = covering_cases(random.Random(seed), 100)
        assert {tuple(case["heads"]) for case in cases} == set(HEADS) and {case["gates"] for case in cases} == set(GATES)
        lengths = {length for case in cases for length in case["lengths"]}
        assert {0, 1, 63, 64, 65} <= lengths and max(lengths) == 3000 and any(len(case["lengths"]) == 257 for case in cases)
        assert all(0 < min(case["lengths"]) == max(case["lengths"]) for case in cases if case["equal"]) and any(case["equal"] for case in cases)
        small = covering_cases(random.Random(seed), 20, 200, HEADS[:3])
        assert all(sum(case["lengths"]) <= 645 and case["heads"][1] <= 3 for case in small)


# ---- by itself ---------------------------------------------------------------------------------------------------------
def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100, help="random problems")
    parser.add_argument("--seed", type=int, help="default: fresh, and printed")
    parser.add_argument("--model", action="store_true", help="on the CPU model, with small problems")
    parser.add_argument("--library", help="libtilejit.so; default: the newest below build/")
    parser.add_argument("--cache-dir", help="default: the library's own")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.cases < 1:
        parser.error(f"--cases is {options.cases}; allowed: 1 and up")
    return options


def missing(text):
    print(f"chunk_check.py: {text}", file=sys.stderr)
    return 77


def main():
    options = parse()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    built = sorted(glob.glob(os.path.join(root, "build", "*", "lib", "libtilejit.so")), key=os.path.getmtime)
    if not options.library and not built:
        return missing("no libtilejit.so below build/; build the library or name one with --library")
    try:
        import torch
    except ImportError:
        return missing("PyTorch is not installed")
    if not options.model and not torch.cuda.is_available():
        return missing("PyTorch sees no CUDA device; --model runs without one")
    import binding
    seed = secrets.randbits(31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    fields = {"cache_dir": options.cache_dir} if options.cache_dir else {}
    device, more = binding.Device(binding.CUDA, 0), {}
    if options.model:
        fields["target"], device, more = "model:sm_90a", binding.Device(binding.CPU, 0), {"most_tokens": 200, "heads": HEADS[:6]}
    with binding.Runtime(binding.Library(options.library or built[-1]), **fields) as runtime:
        section = run_correctness(torch, runtime, binding, device, options.cases, seed, print, **more)
    print(f"{section['cases']} random problems, {section['failed']} failed; worst relative error {section['worst_error']['o']:.2e} (limit {LIMIT:.0e}), of a row {section['worst_error']['row']:.2e} (limit {ROW_LIMIT:.0e}).{largest_text(section)}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": "model:sm_90a" if options.model else torch.cuda.get_device_name(0), "correctness": section}, file, indent=2)
    return 1 if section["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
