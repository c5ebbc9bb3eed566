#!/usr/bin/env python3
"""Cycles of a matrix product's main loop, measured for each tile, beside what the scheduler and the cost model say.

    python3 tests/gpu/gemm_predict.py --library build/release/lib/libtilejit.so --json out.json --markdown out.md
    python3 tests/gpu/gemm_predict.py --self-test      (no GPU)

One wave of tiles fills the GPU at two lengths of K that L2 holds: the difference of their times, over the difference of their
iterations, is one iteration. It becomes cycles by the SM clock that nvidia-smi reads meanwhile. Needs the library's build with tj-warm and
tj-schedule beside it (lib/, bin/). Exit codes: 0 measured, 1 a tile could not be, 2 bad use, 77 no GPU. Ratios never decide it.
"""
import argparse
import json
import os
import pty
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tuning  # noqa: E402

WITHIN = 0.15
ITERATIONS = (16, 64)      # of the shorter and the longer K
OPERAND_BYTES = 32 << 20   # of the longer one, at most: L2 has 50 MiB
ELEMENT_BYTES = {"f16": 2, "bf16": 2, "e4m3": 1}


def parse_tile(name):
    """"128x256x64c2x1" -> (128, 256, 64, 2, 1)."""
    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)(?:c(\d+)x(\d+))?", name)
    if not found:
        raise ValueError(f"'{name}' is no tile")
    return tuple(int(number or 1) for number in found.groups())


def grid_of(tile, sms):
    """Rows and columns of tiles: one wave, as square as clusters and low tiles let it be."""
    rows, columns, _, cluster_m, cluster_n = tile
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


# ---- the clock ----------------------------------------------------------------------------------------------------------
class Clock:
    """Reads the SM clock and the power while it lives. Through a terminal: into a pipe, lines would wait in a buffer that dies with the process."""

    COMMAND = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "--id=0", "--loop-ms=20"]

    def __init__(self, command=None):
        self.samples, self._process = [], None  # pieces of text
        ours, theirs = pty.openpty()
        try:
            self._process = subprocess.Popen(command or self.COMMAND, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL)
        except OSError:
            os.close(ours)
            return
        finally:
            os.close(theirs)
        self._reader = threading.Thread(target=self._read, args=(ours,))
        self._reader.start()

    def _read(self, terminal):
        with open(terminal, "rb", buffering=0) as file:
            try:
                while block := file.read(4096):
                    self.samples.append(block.decode(errors="replace"))
            except OSError:  # how a terminal ends
                pass

    def stop(self):
        """GHz under load, and watts; None when nothing could be read."""
        if self._process is None:
            return None
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        return loaded_clock("".join(self.samples))


def loaded_clock(text):
    samples = []
    for line in text.splitlines():
        try:
            clock, power = (float(word) for word in line.split(","))
            samples.append((power, clock))
        except ValueError:  # a line that was cut, or a field that this GPU does not have
            continue
    if not samples:
        return None
    limit = (min(samples)[0] + max(samples)[0]) / 2  # idle while the process starts, loaded while it measures
    loaded = [sample for sample in samples if sample[0] >= limit]
    return statistics.median(clock for _, clock in loaded) / 1e3, statistics.median(power for power, _ in loaded)


# ---- one tile -----------------------------------------------------------------------------------------------------------
def row_of(dtype, name, problems, iterations, schedule, clock):
    """Cycles of one iteration from the two problems' times, and what they were predicted to be."""
    short, long = (problem["kernels"][0] for problem in problems)
    steps = iterations[1] - iterations[0]
    seconds = (long["measured_us"] - short["measured_us"]) * 1e-6 / steps
    if seconds <= 0:
        raise tuning.ToolError(f"{iterations[1]} iterations took no longer than {iterations[0]}")
    predicted = (long["predicted_cycles"] - short["predicted_cycles"]) / steps
    ghz, watts = clock
    measured = seconds * ghz * 1e9
    block_m, block_n, block_k = parse_tile(name)[:3]
    return {"dtype": dtype, "tile": name, "ii": schedule["ii"], "predicted_cycles": predicted, "measured_cycles": measured,
            "predicted_over_measured": predicted / measured, "ii_over_measured": schedule["ii"] / measured, "clock_ghz": ghz, "watts": watts,
            "flops_per_cycle_and_sm": 2.0 * block_m * block_n * block_k / measured, "iterations": list(iterations),
            "whole_predicted_over_measured": long["predicted_cycles"] / (long["measured_us"] * ghz * 1e3), "measured_us": [short["measured_us"], long["measured_us"]]}


def measure(library, cache_dir, dtype, name, options):
    shapes, iterations = shapes_of(parse_tile(name), options.sms, ELEMENT_BYTES[dtype])
    clock = Clock()
    try:
        document = tuning.tune(library, cache_dir, dtype, shapes, only=[name], rounds=options.rounds)
    finally:
        read = clock.stop()
    failed = [problem["error"] for problem in document["problems"] if not problem["ok"]]
    if failed:
        raise tuning.ToolError(failed[0])
    counted = document["problems"][0]["sm_count"]
    if counted != options.sms:
        raise tuning.ToolError(f"{document['device']} has {counted} SMs; give --sms {counted}")
    if options.clock_ghz:
        read = (options.clock_ghz, read[1] if read else 0.0)
    if read is None:
        raise tuning.ToolError("nvidia-smi gives no clock; give --clock-ghz as the GPU runs under this load")
    return document["device"], row_of(dtype, name, document["problems"], iterations, tuning.schedule_of(library, dtype, name), read)


# ---- the report ---------------------------------------------------------------------------------------------------------
def line(row):
    return (f"{row['dtype']:5} {row['tile']:16} II {row['ii']:5}  predicted {row['predicted_cycles']:7.1f}  measured {row['measured_cycles']:7.1f} cycles"
            f"  predicted/measured {row['predicted_over_measured']:.3f}  II/measured {row['ii_over_measured']:.3f}"
            f"  {row['flops_per_cycle_and_sm']:6.0f} FLOP/cycle/SM  at {row['clock_ghz']:.3f} GHz, {row['watts']:.0f} W")


def summary(rows):
    inside = sum(abs(row["predicted_over_measured"] - 1) <= WITHIN for row in rows)
    worst = max(rows, key=lambda row: abs(row["predicted_over_measured"] - 1))
    return (f"{inside} of {len(rows)} main loops predicted within {WITHIN:.0%} of measured; farthest {worst['dtype']} {worst['tile']} at "
            f"{worst['predicted_over_measured']:.3f}")


def markdown(document):
    lines = ["# Main loops of matrix products: predicted and measured", "", f"{document['device']}, `{document['command']}`", "",
             "| type | tile | II | predicted cycles | measured cycles | predicted/measured | II/measured | whole call | GHz |", "|---|---|---|---|---|---|---|---|---|"]
    for row in document["rows"]:
        lines.append(f"| {row['dtype']} | {row['tile']} | {row['ii']} | {row['predicted_cycles']:.1f} | {row['measured_cycles']:.1f} | "
                     f"{row['predicted_over_measured']:.3f} | {row['ii_over_measured']:.3f} | {row['whole_predicted_over_measured']:.3f} | {row['clock_ghz']:.3f} |")
    lines += ["", summary(document["rows"]) + "."] if document["rows"] else []
    lines += [f"- {failure}" for failure in document["failures"]]
    return "\n".join(lines) + "\n"


def self_test():
    assert parse_tile("128x256x64") == (128, 256, 64, 1, 1) and parse_tile("128x256x64c2x1") == (128, 256, 64, 2, 1)
    for name, wanted in (("128x256x64", (12, 11)), ("16x32x128", (1, 132)), ("128x256x64c2x1", (12, 11)), ("128x256x64c1x2", (22, 6))):
        rows, columns = grid_of(parse_tile(name), 132)
        assert rows * columns == 132 and (rows, columns) == wanted, (name, rows, columns)
    for name in ("128x256x64", "64x64x128", "16x32x128"):
        shapes, iterations = shapes_of(parse_tile(name), 132, 2)
        assert shapes[0][:2] == shapes[1][:2] and iterations[0] < iterations[1] and shapes[1][2] == iterations[1] * parse_tile(name)[2]
        assert sum(shapes[1][:2]) * shapes[1][2] * 2 <= OPERAND_BYTES, shapes
    assert loaded_clock("1980, 90.5\n1980, 91\n1500, 690\n1520, 700\n1510, 705\ncut") == (1.51, 700.0) and loaded_clock("[N/A], [N/A]\n") is None
    endless = "import time\nwhile True: print('1750, 600.5'); time.sleep(0.01)"
    clock = Clock([sys.executable, "-c", endless])
    while not clock.samples:
        time.sleep(0.01)
    assert clock.stop() == (1.75, 600.5)
    assert Clock(["/nowhere/nvidia-smi"]).stop() is None
    problems = [{"kernels": [{"measured_us": 20.0, "predicted_cycles": 20000.0}]}, {"kernels": [{"measured_us": 50.0, "predicted_cycles": 68000.0}]}]
    row = row_of("f16", "128x256x64", problems, (16, 64), {"ii": 1024}, (1.5, 650.0))
    assert abs(row["measured_cycles"] - 937.5) < 1e-9 and row["predicted_cycles"] == 1000.0, row
    text = markdown({"device": "d", "command": "c", "rows": [row], "failures": ["x"]})
    assert "| f16 | 128x256x64 | 1024 | 1000.0 | 937.5 | 1.067 |" in text and "1 of 1 main loops predicted within 15% of measured" in text and "II  1024" in line(row), text
    print("self-test passed")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--library", help="libtilejit.so of a build with its tools")
    parser.add_argument("--tiles", type=words, help="default: all")
    parser.add_argument("--dtype", type=words, default=["f16", "bf16"])
    parser.add_argument("--rounds", type=int, default=60, help="rounds of timing for each problem")
    parser.add_argument("--sms", type=int, default=132)
    parser.add_argument("--clock-ghz", type=float, help="in place of what nvidia-smi reads")
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
        for dtype in options.dtype:
            for name in tiles[dtype]:
                try:
                    document["device"], row = measure(options.library, cache_dir, dtype, name, options)
                    document["rows"].append(row)
                    print(line(row), flush=True)
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
