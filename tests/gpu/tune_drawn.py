#!/usr/bin/env python3
"""Times every tile of drawn products with tj-warm --tune, into one document for gpu.gemm_facts_bench, which fits an arch's facts to them.

    python3 tests/gpu/tune_drawn.py --count 60 --json tuned.json               (a fresh seed, printed)
    python3 tests/gpu/tune_drawn.py --seed 7 --dtype e4m3 --rows 1 512 --time-limit 500 --json tuned.json

Problems are those of compare.py --op gemm with that seed. --rows keeps those whose M lies between two numbers. Needs the library's build
with tj-warm beside it (--library) and a GPU. Exit codes: 0 done, 2 bad use.
"""
import argparse
import json
import os
import secrets
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import drawing  # noqa: E402
import gemm_speed  # noqa: E402
import tuning  # noqa: E402


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libtilejit.so of a build or an installed tree")
    parser.add_argument("--seed", type=int, help="of the draw; default: a new one, which is printed")
    parser.add_argument("--count", type=int, default=40, help="problems (default: 40)")
    parser.add_argument("--dtype", action="append", choices=drawing.TYPES["gemm"], help="types drawn (default: f16 and bf16); may be repeated")
    parser.add_argument("--rows", type=int, nargs=2, default=(1, drawing.MOST_ROWS), metavar=("LEAST", "MOST"), help="of M, of the problems that are kept")
    parser.add_argument("--cache-dir", help="of kernels; default: one that goes away")
    parser.add_argument("--time-limit", type=float, default=float("inf"), help="seconds after which no further problem is begun")
    parser.add_argument("--json", required=True, help="the document; written after each problem")
    options = parser.parse_args(words)
    if options.count < 1 or not 1 <= options.rows[0] <= options.rows[1]:
        parser.error(f"--count {options.count}, --rows {options.rows[0]} {options.rows[1]}: at least 1, the least number of rows first")
    options.seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    return options


def problems_of(options):
    """The first `count` problems of the draw with so many rows."""
    least, most = options.rows
    number, chosen = 0, []
    every = drawing.draw("gemm", options.seed, 100 * options.count, options.dtype)
    while len(chosen) < options.count and number < len(every):
        if least <= every[number]["m"] <= most:
            chosen.append(every[number])
        number += 1
    return chosen


def row_of(problem, tuned):
    kernels = [[kernel["name"], kernel["measured_us"]] for kernel in tuned["kernels"] if "measured_us" in kernel]
    return {"flags": gemm_speed.tune_words(problem), "dtype": problem["dtype"], "sizes": [problem["m"], problem["n"], problem["k"]],
            "title": drawing.title(problem), "kernels": kernels}


def write(name, document):
    part = f"{name}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(document, file)
        file.write("\n")
    os.replace(part, name)


def main(words=None):
    options = parse(words)
    print(f"seed {options.seed}", flush=True)
    begin, document = time.monotonic(), {"seed": options.seed, "rows": list(options.rows), "problems": []}
    with tempfile.TemporaryDirectory(prefix="tilejit_tune_drawn_") as folder:
        for problem in problems_of(options):
            if time.monotonic() - begin > options.time_limit:
                print("time limit")
                break
            shape = (problem["m"], problem["n"], problem["k"])
            tuned = tuning.tune(options.library, options.cache_dir or folder, problem["dtype"], [shape], options=gemm_speed.tune_words(problem))["problems"][0]
            if not tuned.get("ok"):
                print(f"{drawing.title(problem)}: {tuned.get('error', 'not kept')}", flush=True)
                continue
            document["problems"].append(row_of(problem, tuned))
            write(options.json, document)
            times = {kernel["name"]: kernel["measured_us"] for kernel in tuned["kernels"] if "measured_us" in kernel}
            best = min(times, key=times.get)
            print(f"{drawing.title(problem)}: {best} {times[best]:.1f} us, predicted {tuned['predicted']} "
                  f"{times.get(tuned['predicted'], float('nan')) / times[best]:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except tuning.ToolError as error:
        print(f"tune_drawn.py: {error}", file=sys.stderr)
        sys.exit(2)
