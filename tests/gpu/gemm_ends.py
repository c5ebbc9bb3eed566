#!/usr/bin/env python3
"""What a bias and an activation at a product's end cost, beside the plain product of the same size.

    python3 tests/gpu/gemm_ends.py --library build/release/lib/libtilejit.so --json ends.json
    python3 tests/gpu/gemm_ends.py --report ends.json      # no GPU

The plain product and its three ends take turns, as single calls behind a flush of the caches and as replays of graphs. Ratios are of medians,
ends over plain, apart for products of three waves of tiles and more, and of fewer: there an end stands bare. A wave is a tile for each SM. Each
variant has the tile that a call takes. Results are not checked here; gemm_check.py does that. Needs PyTorch with CUDA and a GPU, but for --report.
Exit codes: 0 measured, 1 a product could not be, 2 bad use, 77 something that is needed is missing. Ratios never decide it.
"""
import argparse
import concurrent.futures
import json
import math
import os
import re
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "c_api")]
import binding  # noqa: E402
import gemm_check  # noqa: E402
import timing  # noqa: E402

# Name: activation, and what it may cost: three waves and more, fewer.
ENDS = {"bias_gelu_tanh": ("gelu_tanh", 1.03, 1.08), "bias_silu": ("silu", 1.03, 1.08), "bias_gelu": ("gelu", 1.06, 1.15)}
SIZES = ((4096, 4096, 4096), (8192, 4096, 1024), (8192, 8192, 2048), (10266, 1536, 1536), (2614, 4096, 1024),
         (2048, 2048, 2048), (1024, 4096, 4096), (152, 7168, 2304), (512, 2048, 8192), (64, 4096, 4096))
MANY = 3.0  # waves
WAYS = ("flushed", "graph")


def waves_of(size, kernel, sms):
    """By the tile in a kernel's name: gemm_f16_kk_128x256x64c2x1_gelu."""
    found = re.search(r"_(\d+)x(\d+)x\d+", kernel)
    if not found:
        raise ValueError(f"kernel {kernel} names no tile")
    rows, columns = (int(number) for number in found.groups())
    return -(-size[0] // rows) * -(-size[1] // columns) / sms


def flags_of(size, dtype, end):
    m, n, k = size
    code = {"f16": binding.F16, "bf16": binding.BF16}[dtype]
    more = {} if end == "plain" else {"bias": True, "activation": gemm_check.ACTIVATIONS.index(ENDS[end][0])}
    return {"dtype": code, "out": code, "m": m, "n": n, "k": k, **more}


def row_of(size, dtype, kernels, sms, times):
    """times: way -> name -> sorted milliseconds. Ratios are over the plain product."""
    medians = {way: {name: statistics.median(values) * 1e3 for name, values in of.items()} for way, of in times.items()}
    return {"size": list(size), "dtype": dtype, "waves": waves_of(size, kernels["plain"], sms), "kernels": kernels, "us": medians,
            "ratios": {way: {name: us / of["plain"] for name, us in of.items() if name != "plain"} for way, of in medians.items()}}


def line(row):
    ratios = "  ".join(f"{way} " + " ".join(f"{name[5:]} {ratio:.3f}" for name, ratio in row["ratios"][way].items()) for way in WAYS)
    others = sorted({kernel for name, kernel in row["kernels"].items() if tile(kernel) != tile(row["kernels"]["plain"])})
    return (f"{row['dtype']} {'x'.join(map(str, row['size'])):16} {row['waves']:5.2f} waves  plain {row['us']['flushed']['plain']:7.2f} {row['us']['graph']['plain']:7.2f} us  "
            f"{ratios}  {tile(row['kernels']['plain'])}" + (f"; other tiles: {', '.join(others)}" if others else ""))


def tile(kernel):
    found = re.search(r"\d+x\d+x\d+[a-z0-9]*", kernel)
    return found.group(0) if found else kernel


def summary(rows):
    lines = []
    for many, title in ((True, f"{MANY:g} waves and more"), (False, "fewer waves")):
        of_class = [row for row in rows if (row["waves"] >= MANY) == many]
        for name, (_, most, most_few) in ENDS.items():
            for way in WAYS:
                ratios = [row["ratios"][way][name] for row in of_class]
                if ratios:
                    mean = math.exp(statistics.mean(math.log(ratio) for ratio in ratios))
                    wanted = most if many else most_few
                    lines.append(f"{title}: {name} over plain, {way}: mean {mean:.3f}, worst {max(ratios):.3f} of {len(ratios)} (wanted {wanted}), "
                                 f"{sum(ratio > wanted for ratio in ratios)} beyond")
    return lines or ["no product was timed"]


# ---- on a GPU -----------------------------------------------------------------------------------------------------------
def candidates_of(torch, runtime, device, size, dtype):
    """name -> function that enqueues a call. All share operands; each has a result of its own."""
    m, n, k = size
    kind, code = {"f16": (torch.float16, binding.F16), "bf16": (torch.bfloat16, binding.BF16)}[dtype]
    bind = lambda tensor: binding.tensor(tensor.data_ptr(), device, code, list(tensor.shape))  # noqa: E731
    a, b, bias = (torch.randn(shape, device="cuda").to(kind) for shape in ((m, k), (n, k), (n,)))
    kept = [a, b, bias]

    def call(end):
        d = torch.empty((m, n), dtype=kind, device="cuda")
        kept.append(d)
        more = {} if end == "plain" else {"bias": bind(bias), "activation": gemm_check.ACTIVATIONS.index(ENDS[end][0])}
        bound = [bind(tensor) for tensor in (a, b, d)]
        return lambda: runtime.gemm(*bound, stream=torch.cuda.current_stream().cuda_stream, **more)
    return {end: call(end) for end in ("plain", *ENDS)}, kept


def measure(torch, runtime, device, size, dtype, options):
    kernels = {end: runtime.prepare(device, op=b"gemm", **flags_of(size, dtype, end)).name.decode() for end in ("plain", *ENDS)}
    candidates, kept = candidates_of(torch, runtime, device, size, dtype)
    calls = max(2, min(40, int(4e12 // (2.0 * size[0] * size[1] * size[2]))))
    graphs = {name: timing.graph_of(torch, enqueue, calls) for name, enqueue in candidates.items()}
    times = {"flushed": timing.time_side_by_side(torch, candidates, options.rounds, options.runs),
             "graph": timing.time_graphs(torch, graphs, calls, options.rounds, options.runs)}
    torch.cuda.synchronize()
    del graphs, kept
    return row_of(size, dtype, kernels, options.sms, times)


def compile_all(runtime, device, options):
    """Compilers work side by side, before anything is timed."""
    kinds = [(size, dtype, end) for size in options.sizes for dtype in options.dtype for end in ("plain", *ENDS)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1)) as pool:
        list(pool.map(lambda kind: runtime.prepare(device, op=b"gemm", **flags_of(*kind)), kinds))


def sizes_of(text):
    sizes = []
    for word in text.split(","):
        if not re.fullmatch(r"[1-9]\d*x[1-9]\d*x[1-9]\d*", word):
            raise argparse.ArgumentTypeError(f"'{word}' is no size; allowed: M x N x K, as 4096x4096x1024")
        sizes.append(tuple(int(number) for number in word.split("x")))
    return sizes


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library")
    parser.add_argument("--sizes", type=sizes_of, default=list(SIZES))
    parser.add_argument("--dtype", type=lambda text: text.split(","), default=["f16"])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--sms", type=int, default=132)
    parser.add_argument("--cache-dir")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--report", metavar="FILE")
    options = parser.parse_args(words)
    if not options.report and not options.library:
        parser.error("--library is needed")
    for dtype in options.dtype:
        if dtype not in ("f16", "bf16"):
            parser.error(f"--dtype is '{dtype}'; allowed: f16, bf16")
    for name in ("rounds", "runs", "sms"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}; allowed: 1 and more")
    return options


def run(torch, options):
    document = {"device": torch.cuda.get_device_name(), "rows": [], "failures": []}
    more = {"cache_dir": options.cache_dir} if options.cache_dir else {}
    with binding.Runtime(binding.Library(options.library), **more) as runtime:
        device = binding.Device(binding.CUDA, 0)
        compile_all(runtime, device, options)
        for dtype in options.dtype:
            for size in options.sizes:
                try:
                    row = measure(torch, runtime, device, size, dtype, options)
                    document["rows"].append(row)
                    print(line(row), flush=True)
                except (binding.TilejitError, RuntimeError, ValueError) as error:
                    document["failures"].append(f"{dtype} {'x'.join(map(str, size))}: {timing.first_line(error)}")
                    print(f"not timed: {document['failures'][-1]}", flush=True)
                if options.json:
                    with open(options.json, "w", encoding="utf-8") as file:
                        file.write(json.dumps(document, indent=2) + "\n")
    print("\n".join(summary(document["rows"])))
    return 1 if document["failures"] else 0


def main(words):
    options = parse(words)
    if options.report:
        with open(options.report, encoding="utf-8") as file:
            document = json.load(file)
        print("\n".join([line(row) for row in document["rows"]] + summary(document["rows"])))
        return 0
    try:
        import torch
    except ImportError:
        print("gemm_ends.py: PyTorch is not installed", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("gemm_ends.py: PyTorch sees no GPU", file=sys.stderr)
        return 77
    return run(torch, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
