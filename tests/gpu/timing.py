"""Side-by-side timing: interleaved rounds, event-timed single runs after a cache flush or replays of graphs; and cold starts.

Decides how a time is taken, not what is timed. Nothing here passes or fails anything. Candidates are PyTorch's calls and ours through ctypes,
whose hosts take unlike long: single calls wait behind a spin until all of them are enqueued, and replays need no host at all.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

FLUSH_BYTES = 256 << 20
SPIN_CYCLES = 150_000  # for each call that is enqueued meanwhile: more than 75 us, of which a call of PyTorch's attention needs some 30


def first_line(error):
    """The first line of an error's text; its kind when it has none."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def order_of(names, turn):
    """The order of a round. Over 2 n rounds each of n candidates comes as often behind each other one; fewer rounds come as close as they can.

    At the power limit a call is slower behind a hungry neighbour than behind a frugal one, so an order that only rotates favours whoever follows
    the slowest. These are the rows of Williams's design, forth and back: 0, 1, n - 1, 2, n - 2, ... moved on by one from round to round."""
    count = len(names)
    places = [(step + 1) // 2 if step % 2 else (count - step // 2) % count for step in range(count)]
    row = [names[(place + turn) % count] for place in places]
    return row if turn // count % 2 == 0 else row[::-1]


def time_side_by_side(torch, candidates, rounds, runs):
    """candidates: name -> function that enqueues one run. Returns name -> sorted times in milliseconds.

    Every round times each candidate `runs` times in the order of order_of(), so that drifting clocks meet all alike. Before each run a buffer larger
    than the L2 cache is written."""
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    names = list(candidates)
    for name in names:
        for _ in range(3):
            candidates[name]()
    torch.cuda.synchronize()
    times = {name: [] for name in names}
    for turn in range(rounds):
        for name in order_of(names, turn):
            events = []
            torch.cuda._sleep(SPIN_CYCLES * runs)
            for _ in range(runs):
                flush.zero_()
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                candidates[name]()
                end.record()
                events.append((begin, end))
            torch.cuda.synchronize()
            times[name] += [begin.elapsed_time(end) for begin, end in events]
    return {name: sorted(values) for name, values in times.items()}


def graph_of(torch, enqueue, calls):
    """A graph of so many calls; enqueue() puts one on the current stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            enqueue()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            enqueue()
    return graph


def graphs_of(torch, candidates, calls, refusals=(RuntimeError,)):
    """name -> graph of so many calls, and name -> why there is none: one of the refusals."""
    graphs, refused = {}, {}
    for name, enqueue in candidates.items():
        try:
            graphs[name] = graph_of(torch, enqueue, calls)
        except refusals as error:
            refused[name] = f"no graph: {first_line(error)}"
    return graphs, refused


def time_graphs(torch, graphs, calls, rounds, runs):
    """graphs: name -> graph of so many calls. Returns name -> sorted times of one call in milliseconds. Each graph is replayed `runs` times a round,
    in the order of order_of()."""
    names = list(graphs)
    times = {name: [] for name in names}
    for turn in range(rounds):
        for name in order_of(names, turn):
            graphs[name].replay()  # caches and clocks as in the replays that count
            events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(runs)]
            for begin, end in events:
                begin.record()
                graphs[name].replay()
                end.record()
            torch.cuda.synchronize()
            times[name] += [begin.elapsed_time(end) / calls for begin, end in events]
    return {name: sorted(values) for name, values in times.items()}


# ---- the SM clock: two kernels that spin for so many cycles, whose times differ by those alone ---------------------------
CLOCK_CYCLES = (20_000, 220_000)


def enqueue_clock(torch):
    """Puts a measurement of the clock on the current stream: what clock_ghz() reads once the stream has come so far."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
    events[0].record()
    for event, cycles in zip(events[1:], CLOCK_CYCLES):
        torch.cuda._sleep(cycles)
        event.record()
    return events


def clock_of(short_ms, long_ms):
    return (CLOCK_CYCLES[1] - CLOCK_CYCLES[0]) / (long_ms - short_ms) * 1e-6


def clock_ghz(events):
    return clock_of(events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2]))


def summary(times):
    """Median and spread of one candidate's sorted milliseconds, in microseconds."""
    us = [round(time * 1e3, 3) for time in times]
    return {"median_us": statistics.median(us), "p10_us": us[len(us) // 10], "p90_us": us[len(us) * 9 // 10], "runs": len(us)}


# ---- cold starts: one process, one kernel ------------------------------------------------------------------------------
def cold_child(binding, library_path, cache_dir, fields):
    """Runs in a process of its own: CUDA first, then the time of prepare(). Prints one JSON line."""
    import ctypes
    library = binding.Library(library_path)
    with binding.Runtime(library, cache_dir=cache_dir) as runtime:
        device = runtime.default_device()
        warm = ctypes.c_void_p()
        library.check(library.c.tj_allocate(runtime.handle, device, 256, ctypes.byref(warm)))  # CUDA's own start
        begin = time.perf_counter()
        report = runtime.prepare(device, **fields)
        wall_ms = (time.perf_counter() - begin) * 1e3
        library.check(library.c.tj_free(runtime.handle, warm))
        with open("/proc/self/maps", encoding="utf-8") as maps:
            nvrtc = any("nvrtc" in line for line in maps)
        print(json.dumps({"name": report.name.decode(), "target": report.target.decode(), "wall_ms": wall_ms,
                          "origin": ["memory", "disk", "compiled"][report.origin], "schedule_ms": report.schedule_ms,
                          "codegen_ms": report.codegen_ms, "compile_ms": report.compile_ms, "load_ms": report.load_ms,
                          "nvrtc_opened": nvrtc}))


def cold_starts(script, library_path, repeats, words):
    """`repeats` times: an empty cache directory, a first process that compiles, a second that loads. `words` tell the child
    which kernel."""
    results = {"first": [], "second": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for process in results:
                command = [sys.executable, "-B", script, "--cold-child", os.path.join(folder, "cache"), "--library", library_path, *words]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode != 0:
                    return {"error": (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]}
                results[process].append(json.loads(done.stdout.splitlines()[-1]))
    return {process: {"name": runs[0]["name"], "target": runs[0]["target"], "origin": sorted({r["origin"] for r in runs}),
                      "nvrtc_opened": any(r["nvrtc_opened"] for r in runs),
                      **{key: statistics.median(r[key] for r in runs) for key in ("wall_ms", "schedule_ms", "codegen_ms", "compile_ms", "load_ms")}}
            for process, runs in results.items()}
