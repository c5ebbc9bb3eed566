#!/usr/bin/env python3
"""Times tiles of drawn products with tj-warm --tune, and says how much slower than the best one the choice is.

    python3 tests/gpu/tune_drawn.py --library build/release/lib/libtilejit.so --count 60 --json tuned.json       (every tile; a fresh seed, printed)
    ... --seed 7 --count 60 --slice 1/2 --limit 60 --rounds 5 --time-limit 380 --json a.json                     (on one GPU; --slice 2/2 on another)
    ... --seed 7 --dtype e4m3 --rows 1 512 --json tuned.json                                                     (products of few rows)
    python3 tests/gpu/tune_drawn.py --report a.json b.json                                                       (both halves; no GPU)

Problems are those of compare.py --op gemm with that seed. --rows keeps those whose M lies between two numbers. A line says which tile is taken, its
time and what was predicted, then the same of the best tile, then the loss. --resume goes on with a document of the same words, whose problems it
leaves out. gpu.gemm_facts_bench fits an arch's facts to documents. Needs the library's build with tj-warm beside it and a GPU. Exit codes: 0 done,
2 bad use.
"""
import argparse
import json
import math
import os
import secrets
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import compare_options  # noqa: E402
import drawing  # noqa: E402
import gemm_speed  # noqa: E402
import tuning  # noqa: E402

WANTED = (0.03, 0.10)  # of the loss: on the mean, at worst


def parse(words):
    whole, seconds = compare_options.whole, compare_options.seconds
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtilejit.so of a build or an installed tree")
    parser.add_argument("--seed", type=whole(0), help="of the draw; default: a new one, which is printed")
    parser.add_argument("--count", type=whole(1), default=40, help="problems (default: 40)")
    parser.add_argument("--slice", type=compare_options.checked(drawing.parse_slice), metavar="I/N", help="only the I-th of N parts of these problems")
    parser.add_argument("--dtype", action="append", choices=drawing.TYPES["gemm"], help="types drawn (default: f16 and bf16); may be repeated")
    parser.add_argument("--rows", type=whole(1), nargs=2, default=(1, drawing.MOST_ROWS), metavar=("LEAST", "MOST"), help="of M, of those kept")
    parser.add_argument("--limit", type=whole(1), help="kernels timed for a problem, best predicted first: tj-warm's --tune-limit (default: all)")
    parser.add_argument("--rounds", type=whole(1), help="rounds of timing: tj-warm's --tune-rounds (default: that of tj-warm)")
    parser.add_argument("--cache-dir", help="of kernels; default: one that goes away")
    parser.add_argument("--time-limit", type=seconds, default=math.inf, help="seconds after which no further problem is begun")
    parser.add_argument("--resume", action="store_true", help="go on with the document in --json")
    parser.add_argument("--json", help="the document; written after each problem")
    parser.add_argument("--report", nargs="+", metavar="FILE", help="print these documents and their sums, and end; needs no GPU")
    options = parser.parse_args(words)
    if not options.report and not (options.library and options.json):
        parser.error("--library and --json are needed, or --report alone")
    if options.rows[0] > options.rows[1]:
        parser.error(f"--rows {options.rows[0]} {options.rows[1]}: the least number of rows comes first")
    if options.resume and options.seed is None:
        parser.error("--resume needs the document's --seed")
    options.seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    return options


def problems_of(options):
    """The first `count` problems of the draw with so many rows, or a part of them."""
    least, most = options.rows
    number, chosen = 0, []
    every = drawing.draw("gemm", options.seed, 100 * options.count, options.dtype)
    while len(chosen) < options.count and number < len(every):
        if least <= every[number]["m"] <= most:
            chosen.append(every[number])
        number += 1
    part, parts = options.slice or (1, 1)
    return chosen[part - 1::parts]


# ---- the document ------------------------------------------------------------------------------------------------------
WORDS_OF_ROWS = ("number", "dtype", "title", "taken", "kernels")


def row_of(problem, tuned):
    kernels = [[kernel["name"], kernel["measured_us"], kernel.get("predicted_us")] for kernel in tuned["kernels"] if "measured_us" in kernel]
    return {"number": problem["number"], "flags": gemm_speed.tune_words(problem), "dtype": problem["dtype"],
            "sizes": [problem["m"], problem["n"], problem["k"]], "title": drawing.title(problem), "taken": tuned["predicted"], "kernels": kernels}


def fault_of(row):
    """What a row of a document lacks, or None."""
    for word in WORDS_OF_ROWS:
        if word not in row:
            return f"has no '{word}'"
    if any(len(kernel) != 3 for kernel in row["kernels"]):
        return "has a kernel that is not its name, its time and its predicted time"
    return None


def words_of(options):
    """What documents have in common that --resume and --report put together."""
    return {"seed": options.seed, "rows": list(options.rows), "dtype": options.dtype, "limit": options.limit, "rounds": options.rounds}


def read(name):
    try:
        with open(name, encoding="utf-8") as file:
            document = json.load(file)
        faults = [f"problem {place} {fault_of(row)}" for place, row in enumerate(document["problems"]) if fault_of(row)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        faults = [str(error)]
    if faults:
        raise tuning.ToolError(f"{name} is no document of this script: {faults[0]}")
    return document


def begun(options):
    """The document that is gone on with, or an empty one."""
    words = words_of(options)
    if not options.resume or not os.path.exists(options.json):
        return {**words, "problems": []}
    document = read(options.json)
    other = [key for key, value in words.items() if document.get(key) != value]
    if other:
        told = ", ".join(f"{key} {document.get(key)} (here {words[key]})" for key in other)
        raise tuning.ToolError(f"--resume: {options.json} has {told}; allowed: a document of the same words")
    return document


def write(name, document):
    part = f"{name}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(document, file)
        file.write("\n")
    os.replace(part, name)


# ---- what it says ------------------------------------------------------------------------------------------------------
def judged(row):
    """(taken, best): a kernel's name, time and predicted time each. Taken is None where it was not timed."""
    kernels = {name: (name, measured, predicted) for name, measured, predicted in row["kernels"]}
    return kernels.get(row["taken"]), min(kernels.values(), key=lambda kernel: kernel[1])


def shown(kernel):
    return f"{kernel[0]} {kernel[1]:.1f} us" + (f" (predicted {kernel[2]:.1f})" if kernel[2] is not None else "")


def line(row):
    taken, best = judged(row)
    if taken is None:
        return f"{row['title']}: takes {row['taken']}, not timed, best {shown(best)}"
    return f"{row['title']}: takes {shown(taken)}, best {shown(best)}, loss {taken[1] / best[1] - 1:.1%}"


def sums(rows):
    """Lines about all problems."""
    pairs = [(taken, best) for taken, best in map(judged, rows) if taken is not None]
    if not pairs:
        return ["no problem was timed"]
    losses = sorted(taken[1] / best[1] - 1 for taken, best in pairs)
    told = [taken[2] / taken[1] for taken, _ in pairs if taken[2]]
    lines = [f"{len(losses)} problems: the choice loses {sum(losses) / len(losses):.1%} on the mean (wanted {WANTED[0]:.0%}), "
             f"{losses[int(0.95 * (len(losses) - 1))]:.1%} at the 95th percentile, {losses[-1]:.1%} at worst (wanted {WANTED[1]:.0%}); "
             f"{sum(loss > WANTED[1] for loss in losses)} lose more than {WANTED[1]:.0%}"]
    if told:
        lines.append(f"predicted over measured of what is taken: {math.exp(sum(map(math.log, told)) / len(told)):.3f} on the geometric mean, "
                     f"{min(told):.3f} to {max(told):.3f}")
    return lines


def report(files):
    rows = {}
    for name in files:
        for row in read(name)["problems"]:
            rows[(row["dtype"], row["title"])] = row
    print("\n".join([line(row) for row in rows.values()] + sums(list(rows.values()))))


def run(options, folder):
    begin, document = time.monotonic(), begun(options)
    done = {row["number"] for row in document["problems"]}
    for problem in problems_of(options):
        if problem["number"] in done:
            continue
        if time.monotonic() - begin > options.time_limit:
            print("time limit")
            break
        shape, words = (problem["m"], problem["n"], problem["k"]), gemm_speed.tune_words(problem)
        words += ["--tune-limit", str(options.limit)] if options.limit else []
        tuned = tuning.tune(options.library, options.cache_dir or folder, problem["dtype"], [shape], rounds=options.rounds, options=words)["problems"][0]
        if not tuned.get("ok"):
            print(f"{drawing.title(problem)}: {tuned.get('error', 'not kept')}", flush=True)
            continue
        document["problems"].append(row_of(problem, tuned))
        write(options.json, document)
        print(line(document["problems"][-1]), flush=True)
    print("\n".join(sums(document["problems"])))


def main(words=None):
    options = parse(words)
    if options.report:
        report(options.report)
        return 0
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tilejit_tune_drawn_") as folder:
        run(options, folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except tuning.ToolError as error:
        print(f"tune_drawn.py: {error}", file=sys.stderr)
        sys.exit(2)
