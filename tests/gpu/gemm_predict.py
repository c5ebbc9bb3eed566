#!/usr/bin/env python3
"""Cycles of a matrix product's main loop, measured for each tile, beside what the scheduler and the cost model say.

    python3 tests/gpu/gemm_predict.py --library build/release/lib/libtilejit.so --json out.json --markdown out.md
    python3 tests/gpu/gemm_predict.py --self-test      (no GPU)

One wave of tiles fills the GPU at two lengths of K that L2 holds: the difference of their times, over the difference of their
iterations, is one iteration. It becomes cycles by the SM clock, which a kernel that spins for a known number of cycles gives just before each
pair of times: nvidia-smi reads it too late, and it falls by a quarter once products have run for some tens of milliseconds. So there are two
measurements: sustained, after as much work as it takes for the clock to settle, and short, with pauses. Needs the library's build with
tj-warm and tj-schedule beside it (lib/, bin/), PyTorch with CUDA and a GPU. Exit codes: 0 measured, 1 a tile could not be, 2 bad use, 77
something that is needed is missing. Ratios never decide it.
"""
import argparse
import json
import math
import os
import re
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "c_api"))
import binding  # noqa: E402
import timing  # noqa: E402
import tuning  # noqa: E402

WITHIN = 0.15
ITERATIONS = (16, 64)      # of the shorter and the longer K
OPERAND_BYTES = 16 << 20   # of the longer one, at most: L2 has 50 MiB in two halves, and what both read lies in both
WAYS = ("short", "sustained")
SETTLE_SECONDS, PAUSE_SECONDS = 0.3, 0.02
ELEMENT_BYTES = {"f16": 2, "bf16": 2, "e4m3": 1}


def parse_tile(name):
    """"128x256x64c2x1" -> (128, 256, 64, 2, 1)."""
    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)(?:c(\d+)x(\d+))?", name)
    if not found:
        raise ValueError(f"'{name}' is no tile")
    return tuple(int(number or 1) for number in found.groups())


def grid_of(tile, sms):
    """Rows and columns of tiles: one wave, as square as clusters and low tiles let it be. Of clusters of more than two a device runs
    fewer blocks than it has SMs: there the wave is three quarters of them."""
    rows, columns, _, cluster_m, cluster_n = tile
    if cluster_m * cluster_n > 2:
        sms = sms * 3 // 64 * 16
    if rows < 64:
        return 1, sms
    pairs = [(r, sms // r) for r in range(1, sms + 1) if sms % r == 0 and r % cluster_m == 0 and sms // r % cluster_n == 0]
    if not pairs:
        raise ValueError(f"no grid of {sms} tiles has clusters of {cluster_m} x {cluster_n}")
    return min(pairs, key=lambda pair: abs(pair[0] * rows - pair[1] * columns))


def shapes_of(tile, sms, element_bytes):
    """The two problems and their iterations."""
    block_m, block_n, block_k = tile[:3]
    rows, columns = grid_of(tile, sms)
    m, n = rows * block_m, columns * block_n
    most = OPERAND_BYTES // ((m + n) * block_k * element_bytes)
    longer = max(8, min(ITERATIONS[1], most))
    shorter = max(2, longer * ITERATIONS[0] // ITERATIONS[1])
    return [(m, n, block_k * i) for i in (shorter, longer)], (shorter, longer)


# ---- one tile -----------------------------------------------------------------------------------------------------------
def row_of(dtype, name, problems, iterations, schedule, pairs):
    """pairs: (GHz, seconds of the shorter, of the longer) of each round. Cycles of one iteration, and what they were predicted to be."""
    steps = iterations[1] - iterations[0]
    cycles = [(long - short) / steps * ghz * 1e9 for ghz, short, long in pairs]
    measured = statistics.median(cycles)
    if measured <= 0:
        raise tuning.ToolError(f"{iterations[1]} iterations took no longer than {iterations[0]}")
    short, long = (problem["kernels"][0] for problem in problems)
    predicted = (long["predicted_cycles"] - short["predicted_cycles"]) / steps
    whole = statistics.median(seconds * ghz * 1e9 for ghz, _, seconds in pairs)
    block_m, block_n, block_k = parse_tile(name)[:3]
    return {"dtype": dtype, "tile": name, "ii": schedule["ii"], "predicted_cycles": predicted, "measured_cycles": measured,
            "spread_cycles": [sorted(cycles)[len(cycles) // 10], sorted(cycles)[len(cycles) * 9 // 10]],
            "predicted_over_measured": predicted / measured, "ii_over_measured": schedule["ii"] / measured,
            "clock_ghz": statistics.median(ghz for ghz, _, _ in pairs), "flops_per_cycle_and_sm": 2.0 * block_m * block_n * block_k / measured,
            "iterations": list(iterations), "whole_predicted_over_measured": long["predicted_cycles"] / whole,
            "iteration_ns": 1e9 * statistics.median((long - short) / steps for _, short, long in pairs)}


def graph_of(torch, runtime, device, dtype, shape):
    """A graph of calls that take a millisecond or two, and their number."""
    kind, code = {"f16": (torch.float16, binding.F16), "bf16": (torch.bfloat16, binding.BF16), "e4m3": (torch.float8_e4m3fn, binding.E4M3)}[dtype]
    out, out_code = (torch.bfloat16, binding.BF16) if dtype == "e4m3" else (kind, code)
    m, n, k = shape
    tensors = [(torch.randn((m, k), device="cuda").to(kind), code), (torch.randn((n, k), device="cuda").to(kind), code),
               (torch.full((m, n), math.nan, dtype=out, device="cuda"), out_code)]
    bound = [binding.tensor(t.data_ptr(), device, c, list(t.shape)) for t, c in tensors]
    calls = max(4, min(64, int(1e12 // (2.0 * m * n * k))))
    enqueue = lambda: runtime.gemm(*bound, stream=torch.cuda.current_stream().cuda_stream)  # noqa: E731
    graph = timing.graph_of(torch, enqueue, calls)
    graph.tensors = tensors  # they live as long as it does
    return graph, calls


def rounds_of(torch, graphs, sustained, rounds):
    """(GHz, seconds of a call of the first, of the second) for each round."""
    if sustained:
        until = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < until:
            for _ in range(20):
                graphs[1][0].replay()
            torch.cuda.synchronize()
    queued = []
    for _ in range(rounds):
        if not sustained:
            torch.cuda.synchronize()
            time.sleep(PAUSE_SECONDS)
            torch.cuda._sleep(1_000_000)  # until all that follows is queued
        clock, marks = timing.enqueue_clock(torch), []
        for graph, _ in graphs:
            marks.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
            marks[-1][0].record()
            graph.replay()
            marks[-1][1].record()
        queued.append((clock, marks))
    torch.cuda.synchronize()
    return [(timing.clock_ghz(clock), *(begin.elapsed_time(end) * 1e-3 / calls for (begin, end), (_, calls) in zip(marks, graphs)))
            for clock, marks in queued]


def measure(torch, library, cache_dir, dtype, name, options):
    """The device's name, and a row for each way of measuring."""
    shapes, iterations = shapes_of(parse_tile(name), options.sms, ELEMENT_BYTES[dtype])
    document = tuning.tune(library, cache_dir, dtype, shapes, only=[name], rounds=1)  # from now on a runtime with this cache takes the tile
    failed = [problem["error"] for problem in document["problems"] if not problem["ok"]]
    if failed:
        raise tuning.ToolError(failed[0])
    counted = document["problems"][0]["sm_count"]
    if counted != options.sms:
        raise tuning.ToolError(f"{document['device']} has {counted} SMs; give --sms {counted}")
    schedule = tuning.schedule_of(library, dtype, name)
    with binding.Runtime(binding.Library(library), cache_dir=cache_dir) as runtime:
        graphs = [graph_of(torch, runtime, binding.Device(binding.CUDA, 0), dtype, shape) for shape in shapes]
        rows = [{"way": way, **row_of(dtype, name, document["problems"], iterations, schedule, rounds_of(torch, graphs, way == "sustained", options.rounds))}
                for way in WAYS]
        torch.cuda.synchronize()
        del graphs
    return document["device"], rows


# ---- the report ---------------------------------------------------------------------------------------------------------
def line(row):
    return (f"{row['dtype']:5} {row['tile']:16} {row['way']:9} II {row['ii']:5}  predicted {row['predicted_cycles']:7.1f}  measured {row['measured_cycles']:7.1f} cycles, "
            f"{row['iteration_ns']:6.1f} ns  predicted/measured {row['predicted_over_measured']:.3f}  II/measured {row['ii_over_measured']:.3f}"
            f"  {row['flops_per_cycle_and_sm']:6.0f} FLOP/cycle/SM  at {row['clock_ghz']:.3f} GHz")


def summary(rows):
    texts = []
    for way in WAYS:
        of_way = [row for row in rows if row["way"] == way]
        inside = sum(abs(row["predicted_over_measured"] - 1) <= WITHIN for row in of_way)
        worst = max(of_way, key=lambda row: abs(math.log(row["predicted_over_measured"])))
        texts.append(f"{way}: {inside} of {len(of_way)} main loops predicted within {WITHIN:.0%} of measured, farthest {worst['dtype']} {worst['tile']} at "
                     f"{worst['predicted_over_measured']:.3f}")
    return "; ".join(texts)


def markdown(document):
    lines = ["# Main loops of matrix products: predicted and measured", "", f"{document['device']}, `{document['command']}`", "",
             "| type | tile | way | II | predicted cycles | measured cycles | ns | predicted/measured | II/measured | whole call | GHz |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in document["rows"]:
        lines.append(f"| {row['dtype']} | {row['tile']} | {row['way']} | {row['ii']} | {row['predicted_cycles']:.1f} | {row['measured_cycles']:.1f} | {row['iteration_ns']:.1f} | "
                     f"{row['predicted_over_measured']:.3f} | {row['ii_over_measured']:.3f} | {row['whole_predicted_over_measured']:.3f} | {row['clock_ghz']:.3f} |")
    lines += ["", summary(document["rows"]) + "."] if document["rows"] else []
    lines += [f"- {failure}" for failure in document["failures"]]
    return "\n".join(lines) + "\n"


def self_test():
    assert parse_tile("128x256x64") == (128, 256, 64, 1, 1) and parse_tile("128x256x64c2x1") == (128, 256, 64, 2, 1)
    for name, wanted in (("128x256x64", (12, 11)), ("128x128x64c2x2", (8, 12)), ("16x32x128", (1, 132)), ("128x256x64c2x1", (12, 11)), ("128x256x64c1x2", (22, 6))):
        rows, columns = grid_of(parse_tile(name), 132)
        assert (rows, columns) == wanted, (name, rows, columns)
    for name in ("128x256x64", "64x64x128", "16x32x128"):
        shapes, iterations = shapes_of(parse_tile(name), 132, 2)
        assert shapes[0][:2] == shapes[1][:2] and iterations[0] < iterations[1] and shapes[1][2] == iterations[1] * parse_tile(name)[2]
        assert sum(shapes[1][:2]) * shapes[1][2] * 2 <= OPERAND_BYTES, shapes
    problems = [{"kernels": [{"predicted_cycles": 20000.0}]}, {"kernels": [{"predicted_cycles": 68000.0}]}]
    row = {"way": "short", **row_of("f16", "128x256x64", problems, (16, 64), {"ii": 1024}, [(1.5, 20e-6, 50e-6)])}
    assert abs(row["measured_cycles"] - 937.5) < 1e-9 and row["predicted_cycles"] == 1000.0 and abs(row["iteration_ns"] - 625.0) < 1e-9, row
    text = markdown({"device": "d", "command": "c", "rows": [row, {**row, "way": "sustained"}], "failures": ["x"]})
    assert "| f16 | 128x256x64 | short | 1024 | 1000.0 | 937.5 | 625.0 | 1.067 |" in text and "sustained: 1 of 1 main loops predicted within 15% of measured" in text, text
    assert "II  1024" in line(row)
    assert abs(timing.clock_of(0.02, 0.12) - (timing.CLOCK_CYCLES[1] - timing.CLOCK_CYCLES[0]) / 0.1e6) < 1e-9
    print("self-test passed")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--library", help="libtilejit.so of a build with its tools")
    parser.add_argument("--tiles", type=words, help="default: all")
    parser.add_argument("--dtype", type=words, default=["f16", "bf16"])
    parser.add_argument("--rounds", type=int, default=25, help="rounds of timing for each tile and way")
    parser.add_argument("--sms", type=int, default=132)
    parser.add_argument("--cache-dir", help="keep kernels here; default: a folder that is removed")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if not options.self_test and not options.library:
        parser.error("--library is needed")
    return options


def main():
    options = parse()
    if options.self_test:
        self_test()
        return 0
    document = {"device": "", "command": "python3 tests/gpu/gemm_predict.py", "rows": [], "failures": []}
    with tempfile.TemporaryDirectory() as folder:
        cache_dir = options.cache_dir or os.path.join(folder, "cache")
        try:
            tiles = {dtype: options.tiles or tuning.all_tiles(options.library, dtype) for dtype in options.dtype}
        except tuning.ToolError as error:
            print(f"gemm_predict.py: {error}", file=sys.stderr)
            return 2
        try:
            import torch
        except ImportError:
            print("gemm_predict.py: PyTorch is not installed", file=sys.stderr)
            return 77
        for dtype in options.dtype:
            for name in tiles[dtype]:
                try:
                    document["device"], rows = measure(torch, options.library, cache_dir, dtype, name, options)
                    document["rows"] += rows
                    print("\n".join(line(row) for row in rows), flush=True)
                except (tuning.ToolError, ValueError) as error:
                    if "measures on a GPU" in str(error):
                        print(f"gemm_predict.py: {error}", file=sys.stderr)
                        return 77
                    document["failures"].append(f"{dtype} {name}: {error}")
                    print(f"failed: {dtype} {name}: {error}", flush=True)
    if document["rows"]:
        print(summary(document["rows"]))
    for file_name, content in ((options.json, json.dumps(document, indent=2) + "\n"), (options.markdown, markdown(document))):
        if file_name:
            with open(file_name, "w", encoding="utf-8") as file:
                file.write(content)
    return 1 if document["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
