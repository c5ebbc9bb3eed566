#!/usr/bin/env python3
"""Initiation intervals of shipped loops, as the scheduler predicts them, beside measured ones.

    python3 tests/gpu/loops.py --library build/release/lib/libtilejit.so --json loops.json
    python3 tests/gpu/loops.py --library build/release/lib/libtilejit.so --target sm_90 --json loops_sm90.json
    python3 tests/gpu/loops.py --library build/release/lib/libtilejit.so --list     # the loops of a target; no GPU
    python3 tests/gpu/loops.py --report loops.json       # the table of a document again; no GPU

One wave of tiles fills the GPU, once with n iterations each and once with twice as many. The difference of both times over the difference of
iterations is one iteration. It becomes cycles by the SM clock, which a small kernel measures right behind each way's samples
(`tj-bench --cycles`). Kernels are those that calls get, without marks. Each way of tj-bench has a row: replays, which the summary takes, and
single calls behind a flush of the caches.

Needs the tools of the library's build (bin/ beside lib/) and a GPU. Exit codes: 0 measured, 1 a loop could not be, 2 bad use. Errors of
predictions never decide it.
"""
import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import gemm_predict  # noqa: E402
import tuning  # noqa: E402

WAYS = ("replayed", "single")
MEDIAN, EACH = 0.05, 0.12  # what errors should be at most


class Loop:
    """A kernel's loop, and the sizes at which one wave has so many iterations."""

    def __init__(self, title, words, sizes, n):
        """words: of tj-bench and tj-schedule, which name the kernel; sizes(graph, blocks, n): words that name sizes, and their iterations.
        blocks: of one wave; graph: the schedule's name, which has the tile."""
        self.title, self.words, self.sizes, self.n = title, words, sizes, n


def numbers_of(pattern, graph):
    found = re.search(pattern, graph)
    if not found:
        raise tuning.ToolError(f"graph {graph} names no tile that this script knows")
    return [int(number) for number in found.groups()]


def tile_of_fmha(graph):
    """Rows and keys: fmha_f16_d64_3x64x128 has three consumers of 64 rows, fmha_f16_d64_128x80_4warps 128 rows."""
    if re.search(r"_\d+x\d+_\d+warps", graph):
        return tuple(numbers_of(r"_(\d+)x(\d+)_\d+warps", graph))
    consumers, rows, keys = numbers_of(r"_(\d+)x(\d+)x(\d+)$", graph)
    return consumers * rows, keys


def divided(blocks, most):
    """The largest divisor of blocks that is at most so many."""
    return max(part for part in range(1, most + 1) if blocks % part == 0)


def fmha_sizes(graph, blocks, n):
    """A tile for each head: under a causal mask, too, all have n blocks of keys. At most twelve heads of keys: blocks that share one run side by
    side, so L2 brings them."""
    rows, keys = tile_of_fmha(graph)
    return ["--batch", "1", "--heads", str(blocks), "--kv-heads", str(divided(blocks, 12)), "--seq-q", str(rows), "--seq-k", str(n * keys)], n


def gemm_sizes(graph, blocks, n):
    name = re.search(r"_(\d+x\d+x\d+(?:c\d+x\d+)?)$", graph)
    if not name:
        raise tuning.ToolError(f"graph {graph} names no tile that this script knows")
    tile = gemm_predict.parse_tile(name.group(1))
    rows, columns = gemm_predict.grid_of(tile, blocks)
    return ["--m", str(rows * tile[0]), "--n", str(columns * tile[1]), "--k", str(n * tile[2]), "--tile", name.group(1)], n


def item_sizes(value_heads, of_item):
    """Items, of a chunk and so many value heads, are dealt to all blocks: an iteration is an item."""
    def sizes(graph, blocks, n):
        heads = of_item(graph)
        chunks = max(1, round(blocks * n / (value_heads // heads)))
        return ["--lengths", str(64 * chunks)], chunks * (value_heads // heads) / blocks
    return sizes


def state_sizes(graph, blocks, n):
    """A block has a head's 64 or 128 rows of V, of 128, and goes from chunk to chunk."""
    heads = blocks if "wide" in graph else blocks // 2
    return ["--heads", str(max(1, heads // 2)), "--v-heads", str(2 * max(1, heads // 2)), "--lengths", str(64 * n)], n


def loops_of(target):
    """Those of a target: stages and steps of the gated delta rule have loops of their own on sm_90a alone."""
    loops = []
    for head_dim in (64, 128, 192, 256):
        for causal in ("false", "true"):
            words = ["--op", "fmha", "--dtype", "f16", "--head-dim", str(head_dim), "--causal", causal]
            loops.append(Loop(f"fmha {head_dim}{' causal' if causal == 'true' else ''}", words, fmha_sizes, 32))
    on_warpgroups = target.split("+")[0].split(":")[-1] == "sm_90a"
    for dtype in ("f16", "bf16", *(("e4m3",) if on_warpgroups else ())):
        words = ["--op", "gemm", "--dtype", dtype, *(("--out", "bf16") if dtype == "e4m3" else ())]
        loops.append(Loop(f"gemm {dtype}", words, gemm_sizes, 16))
    heads = ["--heads", "6", "--head-ratio", "2"]
    loops.append(Loop("chunk_o 6/12 heads", ["--op", "chunk_o", *heads], item_sizes(12, lambda graph: numbers_of(r"_h(\d+)$", graph)[0]), 16))
    if on_warpgroups:
        heads = ["--heads", "6", "--v-heads", "12"]
        for op in (["chunk_solve"], ["chunk_wu"], ["delta_chunks", "--step", "solve"]):
            title = " ".join(word for word in op if not word.startswith("--"))
            loops.append(Loop(title, ["--op", *op, *heads], item_sizes(12, lambda graph: 1), 16))
        for op in (["chunk_states"], ["delta_chunks", "--step", "state"], ["delta_chunks", "--step", "wide-state"]):
            title = " ".join(word for word in op if not word.startswith("--"))
            loops.append(Loop(title, ["--op", *op], state_sizes, 32))
    return loops


# ---- one loop -----------------------------------------------------------------------------------------------------------
def kernel_words(loop):
    """Words of tj-schedule: it knows kernels, and no sizes but the ratio of heads."""
    words = list(loop.words)
    for name in ("--heads", "--v-heads"):
        if name in words:
            at = words.index(name)
            del words[at:at + 2]
    return words


def schedule_of(options, loop):
    return tuning.run([tuning.tool(options.library, "tj-schedule"), *kernel_words(loop), "--target", options.target, "--json"])


def bench(options, words):
    """The device, tj-bench's only problem, and the schedule of its only launch."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "bench.json")
        command = [tuning.tool(options.library, "tj-bench"), *words, "--target", options.target, "--cycles", "--rounds", str(options.rounds), "--json", file,
                   *(["--driver", options.driver] if options.driver else []), *(["--cache-dir", options.cache_dir] if options.cache_dir else [])]
        done = subprocess.run(command, capture_output=True, text=True)
        if not os.path.exists(file):
            raise tuning.ToolError(f"tj-bench said: {done.stderr.strip() or f'exit code {done.returncode}'}")
        with open(file, encoding="utf-8") as written:
            document = json.load(written)
    problem = document["problems"][0]
    if not problem["ok"]:
        raise tuning.ToolError(problem["error"])
    if len(problem["schedules"]) != 1:
        raise tuning.ToolError(f"{problem['problem']} is launches of {problem['kernels']}; one was expected")
    return document["device"], problem, problem["schedules"][0]


def lengths(options, loop, schedule):
    """Words and iterations of both lengths."""
    return [loop.sizes(schedule["graph"], options.sms * schedule["blocks_per_sm"], n) for n in (loop.n, 2 * loop.n)]


def pair_of(options, loop):
    """Problems of n and of 2 n iterations of the same kernel: device, [(problem, iterations)], schedule. The first schedule is a guess of
    what a call of such sizes gets; where it gets another tile, sizes are made again for that one."""
    schedule = schedule_of(options, loop)
    for _ in range(3):
        asked, pair, taken = lengths(options, loop, schedule), [], []
        for words, iterations in asked:
            device, problem, of = bench(options, [*loop.words, *words])
            pair.append((problem, iterations))
            taken.append(of)
        if taken[0]["graph"] == taken[1]["graph"] and lengths(options, loop, taken[1]) == asked:
            return device, pair, taken[1]
        schedule = taken[1]
    raise tuning.ToolError(f"calls take {taken[0]['graph']} for {loop.n} iterations and {taken[1]['graph']} for {2 * loop.n}; no sizes were found for one kernel")


def row_of(loop, way, pair, schedule):
    """What one way of timing says of the loop."""
    (short, few), (long, many) = pair
    for problem in (short, long):
        if "clock_mhz" not in problem[way]:
            raise tuning.ToolError("the SM clock could not be measured")
    cycles = [problem[way]["us"]["median"] * problem[way]["clock_mhz"]["median"] for problem in (short, long)]
    measured = (cycles[1] - cycles[0]) / (many - few)
    if measured <= 0:
        raise tuning.ToolError(f"{many:g} iterations took no longer than {few:g}")
    return {"loop": loop.title, "way": way, "kernel": schedule["kernel"], "graph": schedule["graph"], "ii": schedule["ii"], "proven": schedule["proven_ii"],
            "certificate": schedule["certificate"], "measured_cycles": measured, "error": schedule["ii"] / measured - 1, "iterations": [few, many],
            "us": [problem[way]["us"]["median"] for problem in (short, long)], "clock_mhz": long[way]["clock_mhz"]["median"],
            "rest_cycles": cycles[0] - few * measured}


def measure(options, loop):
    device, pair, schedule = pair_of(options, loop)
    return device, [row_of(loop, way, pair, schedule) for way in WAYS]


# ---- the report ---------------------------------------------------------------------------------------------------------
def line(row):
    return (f"{row['loop']:24} {row['way']:8} II {row['ii']:5}  measured {row['measured_cycles']:8.1f}  error {row['error']:+7.1%}  beside {row['rest_cycles']:7.0f} "
            f"cycles  {row['us'][0]:7.2f} {row['us'][1]:7.2f} us at {row['clock_mhz']:4.0f} MHz  {row['graph']}")


def summary(rows):
    rows = [row for row in rows if row["way"] == WAYS[0]]
    if not rows:
        return ["no loop was measured"]
    errors = [abs(row["error"]) for row in rows]
    far = sorted((row for row in rows if abs(row["error"]) > EACH), key=lambda row: -abs(math.log1p(row["error"])))
    lines = [f"{len(rows)} loops: error of II {statistics.median(errors):.1%} on the median (wanted {MEDIAN:.0%}), {len(far)} beyond {EACH:.0%}"]
    return lines + [f"  {row['loop']}: {row['error']:+.1%}; bound by {row['certificate']}" for row in far]


def markdown(document):
    lines = ["| loop | II | measured | error | graph |", "|---|---|---|---|---|"]
    for row in document["rows"]:
        if row["way"] == WAYS[0]:
            lines.append(f"| {row['loop']} | {row['ii']} | {row['measured_cycles']:.0f} | {row['error']:+.1%} | `{row['graph']}` |")
    return "\n".join(lines) + "\n"


def print_report(document):
    print(f"{document['device']}, {document['target']}")
    for text in [line(row) for row in document["rows"]] + summary(document["rows"]) + [f"not measured: {text}" for text in document["failures"]]:
        print(text)


def list_loops(options):
    """Sizes and intervals of the guesses."""
    for loop in loops_of(options.target):
        schedule = schedule_of(options, loop)
        words, iterations = lengths(options, loop, schedule)[0]
        print(f"{loop.title:24} II {schedule['ii']:5}  {schedule['graph']}  {iterations:g} iterations: {' '.join(words)}")


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtilejit.so of a build with its tools")
    parser.add_argument("--target", default="sm_90a", help="sm_90a, sm_90, sm_90+smem=99K, ...")
    parser.add_argument("--only", default="", help="loops whose names contain this")
    parser.add_argument("--rounds", type=int, default=10, help="of tj-bench, for each length")
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count() or 1), help="compilers side by side, before anything is timed; 0: none")
    parser.add_argument("--sms", type=int, default=132)
    parser.add_argument("--seconds", type=float, default=math.inf, help="no loop is begun later than this")
    parser.add_argument("--cache-dir", help="keep kernels here; default: TJ_CACHE_DIR or the usual one")
    parser.add_argument("--driver", help="a libcuda.so.1 in place of the system's")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--report", metavar="FILE")
    options = parser.parse_args(words)
    if not options.report and not options.library:
        parser.error("--library is needed")
    for name in ("rounds", "sms"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}; allowed: 1 and more")
    if not any(options.only in loop.title for loop in loops_of(options.target)):
        parser.error(f"--only is '{options.only}'; no loop's name contains it: {', '.join(loop.title for loop in loops_of(options.target))}")
    return options


def make_kernels(options, chosen):
    """All compilers work side by side before anything is timed. What fails does so again, and is told then."""
    once = argparse.Namespace(**{**vars(options), "rounds": 1})

    def make(loop):
        with contextlib.suppress(tuning.ToolError):
            pair_of(once, loop)
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        list(pool.map(make, chosen))


def run(options):
    document = {"device": "", "target": options.target, "rows": [], "failures": []}
    begin = time.monotonic()
    chosen = [loop for loop in loops_of(options.target) if options.only in loop.title]
    if options.jobs > 0:
        make_kernels(options, chosen)
    for loop in chosen:
        try:
            if time.monotonic() - begin > options.seconds:
                raise tuning.ToolError("the time was over")
            document["device"], rows = measure(options, loop)
            document["rows"] += rows
            print("\n".join(line(row) for row in rows), flush=True)
        except tuning.ToolError as error:
            document["failures"].append(f"{loop.title}: {error}")
            print(f"not measured: {loop.title}: {error}", flush=True)
        if options.json:  # after each loop: a run that is ended leaves what it has
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(json.dumps(document, indent=2) + "\n")
    print("\n".join(summary(document["rows"])))
    return 1 if document["failures"] else 0


def main(words):
    options = parse(words)
    if options.report:
        with open(options.report, encoding="utf-8") as file:
            document = json.load(file)
        print_report(document)
        print(markdown(document))
        return 0
    try:
        if options.list:
            list_loops(options)
            return 0
        return run(options)
    except tuning.ToolError as error:
        print(f"loops.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
