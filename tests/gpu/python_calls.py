#!/usr/bin/env python3
"""What each way of calling attention costs the host in Python, over a bare launch of the driver: the package, its operators for torch, torch's own.

    python3 tests/gpu/python_calls.py
    python3 tests/gpu/python_calls.py --rows 1024 --dtype float16 --library build/release/lib/libtilejit.so

Decides how the host's time is taken. Nothing here passes or fails anything. A sample is the mean of calls that are enqueued one behind the other
while the GPU keeps up; ways take turns. "Bare launch" is cuLaunchKernel with an empty kernel through ctypes, less a call through ctypes that does
nothing: what C would pay. It needs a GPU of NVIDIA and PyTorch; without one it says so, and the exit status is 77.
"""
import argparse
import ctypes
import pathlib
import statistics
import sys
import time

import cuda_driver

ROOT = pathlib.Path(__file__).resolve().parents[2]
EMPTY = 'extern "C" __global__ void measure(int) {}'


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtilejit.so; the newest below build/ without it")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"))
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--rows", type=int, default=128, help="of a sequence; small, so that the GPU is never behind")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--calls", type=int, default=64, help="of a sample")
    return parser.parse_args()


def skip(why):
    print(f"nothing was measured: {why}")
    sys.exit(77)


def nvidia_torch(why_nvidia):
    """torch on a GPU of NVIDIA; leaves with a reason where there is none."""
    try:
        import torch
    except ImportError as error:
        skip(f"{error}; PyTorch is needed")
    if not torch.cuda.is_available():
        skip("PyTorch finds no GPU here")
    if torch.version.hip:
        skip(why_nvidia)
    return torch


def open_package(library):
    """The package of this tree over a library of its build; an installed one where there is none."""
    found = [pathlib.Path(library)] if library else sorted(ROOT.glob("build/*/lib/libtilejit.so"), key=lambda path: path.stat().st_mtime)
    if found:
        ctypes.CDLL(str(found[-1]))  # which the loader then finds under its name
        sys.path.insert(0, str(ROOT / "src" / "python"))
    import tilejit.torch
    return tilejit


def bare_launches(torch):
    """(a launch of an empty kernel, a call that does nothing), both through ctypes."""
    driver = cuda_driver.Driver()
    nvrtc = cuda_driver.load_library(cuda_driver.NVRTC_NAMES, "NVRTC")
    _, function = driver.load(cuda_driver.compile_kernel(nvrtc, EMPTY, f"sm_{driver.major}{driver.minor}"))
    number = ctypes.c_int(0)
    params = (ctypes.c_void_p * 1)(ctypes.addressof(number))
    launch, nothing, stream = driver.cuda.cuLaunchKernel, ctypes.CDLL(None).getppid, torch.cuda.current_stream().cuda_stream
    nothing.argtypes = launch.argtypes  # which it never looks at
    return ((lambda: launch(function, 1, 1, 1, 32, 1, 1, 0, stream, params, None)),
            (lambda: nothing(function, 1, 1, 1, 32, 1, 1, 0, stream, params, None)))


def ways_of(torch, tilejit, options):
    kind = getattr(torch, options.dtype)
    q, k, v = (torch.randn(1, options.heads, options.rows, 64, device="cuda", dtype=kind) for _ in range(3))
    o, a, d = torch.empty_like(q), torch.randn(64, 64, device="cuda", dtype=kind), torch.empty(64, 64, device="cuda", dtype=kind)
    plan, ops, torchs = tilejit.plan("fmha", q, k, v, out=o), torch.ops.tilejit, torch.nn.functional.scaled_dot_product_attention
    return {
        "tilejit.fmha(q, k, v, out=o)": lambda: tilejit.fmha(q, k, v, out=o),
        "tilejit.fmha(q, k, v)": lambda: tilejit.fmha(q, k, v),
        "plan.run(q, k, v, o)": lambda: plan.run(q, k, v, o),
        "torch.ops.tilejit.fmha(q, k, v)": lambda: ops.fmha(q, k, v),
        "torch.ops.tilejit.fmha_out(q, k, v, o)": lambda: ops.fmha_out(q, k, v, o),
        "tilejit.torch.sdpa(q, k, v)": lambda: tilejit.torch.sdpa(q, k, v, fallback=False),
        "torch's scaled_dot_product_attention": lambda: torchs(q, k, v),
        "torch.ops.tilejit.gemm(a, a)": lambda: ops.gemm(a, a),
        "torch.mm(a, a, out=d)": lambda: torch.mm(a, a, out=d),
    }


def measure(torch, ways, samples, calls):
    """Way -> microseconds of the host for a call, one number a sample."""
    times = {name: [] for name in ways}
    for way in ways.values():
        for _ in range(calls):
            way()
    names = list(ways)
    for turn in range(samples):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            way = ways[name]
            torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            for _ in range(calls):
                way()
            times[name].append((time.perf_counter_ns() - begin) / calls / 1000)
    torch.cuda.synchronize()
    return times


def main():
    options = options_of()
    torch = nvidia_torch("a bare launch is measured with NVIDIA's driver alone")
    tilejit = open_package(options.library)
    launch, nothing = bare_launches(torch)
    with torch.no_grad():
        times = measure(torch, {"launch": launch, "nothing": nothing, **ways_of(torch, tilejit, options)}, options.samples, options.calls)
    bare = statistics.median(times.pop("launch")) - statistics.median(times.pop("nothing"))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, tilejit {tilejit.__version__} ({tilejit.build_id()[:12]}): "
          f"[1, {options.heads}, {options.rows}, 64] {options.dtype}, medians of {options.samples} samples of {options.calls} calls")
    print(f"{'us of the host':42}{'over a bare launch':>20}{'call':>10}{'p10':>10}{'p90':>10}\n{'bare launch':42}{'':20}{bare:10.2f}")
    for name, found in times.items():
        found.sort()
        print(f"{name:42}{statistics.median(found) - bare:20.2f}{statistics.median(found):10.2f}{found[len(found) // 10]:10.2f}{found[len(found) * 9 // 10]:10.2f}")


if __name__ == "__main__":
    main()
