#!/usr/bin/env python3
"""Calls beside a kernel that takes multiprocessors: whether bits stay the same, and whether max_sms leaves room to others and at which cost.

    python3 tests/gpu/beside.py
    python3 tests/gpu/beside.py --runs 200 --seed 7 --json beside.json --library build/release/lib/libtilejit.so
    python3 tests/gpu/beside.py --cases 'grouped|quantise' --skip-room   # part 1 of the cases whose names match

Part 1: each op runs alone, then --runs times beside a taker of random size, length and begin. A run counts as beside if a block of the taker ran
for the whole of the op, or for 4 us of it, by stamps of the GPU's clock. Stamps stand around the op's launches, so gaps between launches count as
the op's time. Part 2: a taker of 32 blocks is launched while a long call runs. Its wait is from an event before it to its blocks' own stamps, and
so has some us of launch. The exit status is 1 if bits differed or a call failed. Without a GPU of NVIDIA or PyTorch it is 77.
"""
import argparse
import concurrent.futures
import json
import random
import re
import statistics
import sys
import tempfile
import time

from beside_cases import Call, all_cases, attention, product
from python_calls import nvidia_torch, open_package

GATE_NS = 400_000  # longer than the host takes to enqueue a run
LEAST_NS = 4_000   # a run is beside the taker if they shared so much
ROOM = 32          # multiprocessors that part 2 leaves and takes
MAKERS = 8         # threads that make kernels
ROOM_HEAD = f"""
A taker of {ROOM} blocks is launched while the op runs; each block has an SM's shared memory. us: waits of the first and of the last block,
medians, and the longest of all runs. begun: the least number of blocks that began before the op ended. runs: those in which all began, of
those in which the launch came in time. on SMs: the least number of SMs that the blocks were on. cost: the op's time alone with the limit,
over that without it; share: all SMs over those of the limit.
{'op':24} {'SMs':>5} {'alone ms':>9} {'beside ms':>9} {'first us':>9} {'last us':>9} {'worst us':>9} {'begun':>6} {'runs':>7} {'on SMs':>7} \
{'differed':>9} {'cost':>6} {'share':>6}  kernel"""


def one_run(machine, call, op_late=0, blocks=0, length=0, other_late=0):
    """The call, with a taker of so many blocks or none: what Machine.read() gives."""
    with machine.torch.cuda.stream(machine.gate):
        call.poison()
        machine.cells.zero_()
    machine.open_gate_behind(GATE_NS)
    if op_late:
        machine.hold(machine.op, op_late)
    machine.stamp(machine.op, 0)
    call.run(machine.op)
    machine.stamp(machine.op, 1)
    if other_late:
        machine.hold(machine.other, other_late)
    if blocks:
        machine.take(machine.other, blocks, length)
    machine.wait(machine.op, machine.other)
    return machine.read(blocks)


def is_beside(begin, end, taken):
    return any(min(end, last) - max(begin, first) >= LEAST_NS or first <= begin and last >= end for first, last, _ in taken)


def compare_bits(machine, call, runs, draw):
    """The op alone, then beside takers: a row of the first table."""
    def settled():
        machine.wait(machine.torch.cuda.current_stream())
    settled()
    times = [end - begin for begin, end, _ in (one_run(machine, call) for _ in range(3))]
    filled, wanted = call.filled(), call.bits()
    settled()
    alone, beside, differed = statistics.median(times), 0, 0
    for _ in range(runs):
        blocks, length = draw.randint(1, machine.driver.sms // 2), max(20_000, draw.uniform(0.3, 1.5) * alone)
        if draw.random() < 0.75:  # the taker is there first
            late = draw.randint(5_000, 25_000)
            found = one_run(machine, call, op_late=late, blocks=blocks, length=length + late)
        else:
            found = one_run(machine, call, blocks=blocks, length=length, other_late=1 + draw.uniform(0, alone))
        beside += is_beside(*found)
        differed += not call.same(wanted)
    return {"alone_us": alone / 1000, "runs": runs, "beside": beside, "differed": differed, "filled": filled}


def make_kernels(torch, tilejit, rows, runtime, seed):
    """Those of all calls, several at once. What fails here is told where the call is made again."""
    def make(row):
        case, max_sms = row
        try:
            Call(torch, tilejit, case, max_sms, runtime, seed=seed)
        except (tilejit.Error, RuntimeError):
            pass
    with concurrent.futures.ThreadPoolExecutor(MAKERS) as pool:
        list(pool.map(make, [(case, max_sms) for case, max_sms in rows if not case.only]))


def rows_of(pattern, limit):
    """Cases whose names match, with limits. Walks of attention are measured without a limit alone."""
    return [(case, max_sms) for case in all_cases() if re.search(pattern, case.name) for max_sms in (0, limit)
            if not (case.op == "fmha" and case.only and max_sms)]


def first_part(torch, tilejit, machine, options, document):
    draw = random.Random(options.seed)
    limit = 100 if machine.driver.sms > 100 else max(1, machine.driver.sms * 3 // 4)
    with tempfile.TemporaryDirectory() as folder, tilejit.Runtime(cache_dir=folder) as runtime, tilejit.Runtime(use_tuning=False) as usual:
        rows = rows_of(options.cases, limit)
        make_kernels(torch, tilejit, rows, usual, options.seed)
        for case, max_sms in rows:
            row = {"case": case.name, "max_sms": max_sms, "kernel": ""}
            document["bits"].append(row)
            try:
                call = Call(torch, tilejit, case, max_sms, runtime if case.only else usual, seed=options.seed)
                row["kernel"], row["forced"] = call.kernel, call.forced()
                row.update(compare_bits(machine, call, options.runs, draw))
            except (tilejit.Error, RuntimeError) as error:
                row["error"] = str(error)
                row["passed_over"] = bool(case.only) and "does not serve" in str(error)
            print(bits_line(row), flush=True)


def bits_line(row):
    start = f"{row['case']:34} {row['max_sms'] or 'all':>5} "
    if "error" in row:
        return start + ("passed over: " if row["passed_over"] else "FAILED: ") + row["error"][:200]
    notes = ("" if row["filled"] else "  POISON OR INFINITY IN THE RESULT") + ("" if row["forced"] else "  NOT THE WALK THAT WAS ASKED FOR")
    return start + f"{row['alone_us']:9.1f} {row['runs']:6} {row['beside']:8} {row['differed']:9}  {row['kernel']}{notes}"


def time_alone(machine, call):
    first = machine.event(machine.op)
    call.run(machine.op)
    last = machine.event(machine.op)
    machine.wait_event(last)
    return first.elapsed_time(last)


def taken_while_running(machine, call, alone_ms):
    """The call, and a taker that the host launches when a fifth of the call is done."""
    with machine.torch.cuda.stream(machine.gate):
        call.poison()
        machine.cells.zero_()
    machine.wait(machine.gate)
    machine.stamp(machine.op, 0)
    first = machine.event(machine.op)
    call.run(machine.op)
    last = machine.event(machine.op)
    machine.wait_event(first)
    until = time.perf_counter() + alone_ms * 0.2e-3
    while time.perf_counter() < until:
        pass
    launched = machine.event(machine.other)
    machine.take(machine.other, ROOM, alone_ms * 0.3e6)
    machine.wait(machine.op, machine.other)
    zero, _, taken = machine.read(ROOM)
    asked, end = zero + first.elapsed_time(launched) * 1e6, zero + first.elapsed_time(last) * 1e6
    waits = [(begin - asked) / 1000 for begin, _, _ in taken]
    return {"op_ms": first.elapsed_time(last), "in_time": asked < end, "first_wait_us": min(waits), "last_wait_us": max(waits),
            "begun": sum(begin < end for begin, _, _ in taken), "sms": len({sm for _, _, sm in taken})}


def measure_room(machine, calls, rounds):
    """calls: limit -> call. A row of the second table for each."""
    times, beside, differed = {limit: [] for limit in calls}, {limit: [] for limit in calls}, dict.fromkeys(calls, 0)
    for _ in range(rounds + 2):
        for limit, call in calls.items():
            times[limit].append(time_alone(machine, call))
    times = {limit: found[2:] for limit, found in times.items()}  # the first ones warm up
    for limit, call in calls.items():
        wanted = call.bits()
        machine.wait(machine.torch.cuda.current_stream())
        for _ in range(rounds):
            beside[limit].append(taken_while_running(machine, call, statistics.median(times[limit])))
            differed[limit] += not call.same(wanted)
    return [{"max_sms": limit, "kernel": call.kernel, "alone_ms": statistics.median(times[limit]), "beside_ms": statistics.median(x["op_ms"] for x in runs),
             "runs": rounds, "in_time": sum(x["in_time"] for x in runs), "first_wait_us": statistics.median(x["first_wait_us"] for x in runs),
             "last_wait_us": statistics.median(x["last_wait_us"] for x in runs), "worst_wait_us": max(x["last_wait_us"] for x in runs),
             "all_begun": sum(x["begun"] == ROOM for x in runs if x["in_time"]),
             "least_begun": min(x["begun"] for x in runs), "least_sms": min(x["sms"] for x in runs),
             "differed": differed[limit], "each": runs}
            for (limit, call), runs in zip(calls.items(), beside.values())]


def second_part(torch, tilejit, machine, options, document):
    sms = machine.driver.sms
    if sms < 2 * ROOM:
        document["room_left_out"] = f"{sms} multiprocessors are too few to leave {ROOM}"
        print(document["room_left_out"])
        return
    print(ROOM_HEAD, flush=True)
    with tilejit.Runtime(use_tuning=False) as usual:
        for case in (product("gemm 8192", 8192, 8192, 8192), product("gemm 12288", 12288, 12288, 12288),
                     attention("attention 16384 causal", 32, 16384, True)):
            try:
                calls = {limit: Call(torch, tilejit, case, limit, usual) for limit in (0, sms - ROOM)}
                machine.wait(torch.cuda.current_stream())
                rows = [{"case": case.name, **row} for row in measure_room(machine, calls, options.rounds)]
                rows[1]["cost"], rows[1]["share"] = rows[1]["alone_ms"] / rows[0]["alone_ms"], sms / (sms - ROOM)
            except (tilejit.Error, RuntimeError) as error:
                rows = [{"case": case.name, "error": str(error)}]
            document["room"] += rows
            calls = None
            for row in rows:
                print(room_line(row), flush=True)


def room_line(row):
    if "error" in row:
        return f"{row['case']:24} FAILED: {row['error'][:200]}"
    cost = f"{row['cost']:6.3f} {row['share']:6.3f}" if "cost" in row else " " * 13
    return (f"{row['case']:24} {row['max_sms'] or 'all':>5} {row['alone_ms']:9.3f} {row['beside_ms']:9.3f} {row['first_wait_us']:9.1f} "
            f"{row['last_wait_us']:9.1f} {row['worst_wait_us']:9.1f} {row['least_begun']:6} {row['all_begun']:3}/{row['in_time']:<3} {row['least_sms']:7} "
            f"{row['differed']:9} {cost}  {row['kernel']}")


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtilejit.so; the newest below build/ without it")
    parser.add_argument("--runs", type=int, default=50, help="of part 1, beside a taker")
    parser.add_argument("--rounds", type=int, default=10, help="of part 2")
    parser.add_argument("--cases", default="", metavar="PATTERN", help="a regular expression: of part 1, the cases whose names match; all without it")
    parser.add_argument("--skip-room", action="store_true", help="without part 2")
    parser.add_argument("--seed", type=int, help="of the takers; a fresh one without it")
    parser.add_argument("--json", help="a file for all figures")
    options = parser.parse_args()
    if not rows_of(options.cases, 1):
        parser.error(f"--cases {options.cases}: no case's name matches; allowed: a pattern of one of {'; '.join(case.name for case in all_cases())}")
    return options


def main():
    options = options_of()
    torch = nvidia_torch("the taker is a kernel for NVIDIA's GPUs")
    tilejit = open_package(options.library)
    import taker
    options.seed = random.randrange(2**32) if options.seed is None else options.seed
    machine = taker.Machine(torch)
    document = {"gpu": torch.cuda.get_device_name(), "sms": machine.driver.sms, "torch": torch.__version__, "tilejit": tilejit.__version__,
                "build": tilejit.build_id(), "seed": options.seed, "bits": [], "room": []}
    print(f"{document['gpu']}, {machine.driver.sms} SMs, PyTorch {torch.__version__}, tilejit {tilejit.__version__} ({document['build'][:12]}), "
          f"seed {options.seed}\n")
    print(f"{'op':34} {'SMs':>5} {'alone us':>9} {'runs':>6} {'beside':>8} {'differed':>9}  kernel", flush=True)
    try:
        with torch.no_grad():
            first_part(torch, tilejit, machine, options, document)
            if not options.skip_room:
                second_part(torch, tilejit, machine, options, document)
    finally:
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
    failed = [row for row in document["bits"]
              if "error" in row and not row["passed_over"] or row.get("differed") or not row.get("filled", True) or not row.get("forced", True)]
    failed += [row for row in document["room"] if "error" in row or row["differed"]]
    print(f"{sum(row.get('runs', 0) for row in document['bits'])} runs, {sum(row.get('beside', 0) for row in document['bits'])} of them beside the taker; "
          f"{len(failed)} rows failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
