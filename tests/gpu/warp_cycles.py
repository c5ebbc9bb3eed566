#!/usr/bin/env python3
"""The cost of a warp's matrix instructions on the GPU at hand: the source of the cost facts of family sm80 in src/arch/.

Compiles small kernels around the primitives with NVRTC. Without --rate it runs one block a multiprocessor and prints rates of a
multiprocessor and latencies as clock64 counts them, the best of some rounds. Products: from registers alone, in one chain, and fed by
load_matrices, of which each serves as many of them as rows of 16 a warp has, twice. Copies: a tile from L2 by all threads, and its wait.
With --rate it prints what products of random numbers from registers alone reach at full load (mma_rate.py).
Needs an NVIDIA driver, a device of compute capability 8.0 or more, and NVRTC or the binaries that --compile has left in a folder.
Usage: tests/gpu/warp_cycles.py [--rate] [--cubins DIR] [--json FILE] | --compile [--cubins DIR] [--arch NAME]
"""
import argparse
import ctypes
import json
import pathlib
import statistics
import time

import mma_rate
from cuda_driver import Binaries, Driver

REPEATS = 32   # of a body that holds COUNT instructions
COUNT = 16
ROUNDS = 5
SMEM = 72 * 1024
ARCHS = dict(dict.fromkeys(["sm_80", "sm_86", "sm_89"], "sm80"), **dict.fromkeys(["sm_90", "sm_100", "sm_103", "sm_110", "sm_120a", "sm_121a"], "sm80_tma"))

KERNEL = """
#include "arch/%(primitives)s.cuh"
#include "pipeline.cuh"
#include "tiles.cuh"
using namespace tj::dev;
struct Params { long long* out; const char* in; float one; };
TJ_KERNEL(measure, %(threads)d, Params, p) {
  const u32 base = shared_base(), warp = warp_index();  // here, where all lanes are: no call that they make together may stand below an if
  for (u32 at = 4 * thread_index(); at < %(smem)du; at += 4 * %(threads)d) store_shared(base + at, 0u);
  const u32 mine = piece_address(base + warp %% 4 * 2048, down_row(), down_piece());
  u32 a[4] = {0x3c003c00u + thread_index(), 0x38003c00u, 0x3c003800u, 0x34003c00u + thread_index()}, b[%(count)d][4];
  float d[%(count)d][4], x[%(count)d];
  for (int i = 0; i < %(count)d; ++i) {
    for (int j = 0; j < 4; ++j) d[i][j] = p.one, b[i][j] = 0x3c003800u + 32 * i + thread_index();
    x[i] = p.one * 0.01f * static_cast<float>(i + lane_index());
  }
  u32 address = mine, words[4] = {};
  for (int round = 0; round < %(rounds)d; ++round) {
    block_sync();
    const long long start = clock64();
#pragma unroll 1
    for (int repeat = 0; repeat < %(repeats)d; ++repeat) {
#pragma unroll
      for (int i = 0; i < %(steps)d; ++i) { %(body)s }
    }
    const long long stop = clock64();
    if (lane_index() == 0 && block_index() == 0) {
      p.out[2 * (round * %(warps)d + warp)] = start;
      p.out[2 * (round * %(warps)d + warp) + 1] = stop;
    }
  }
  float keep = static_cast<float>(address + words[0] + words[1] + words[2] + words[3]);  // what makes every result needed
  for (int i = 0; i < %(count)d; ++i) { %(keep)s }
  if (keep == 123.456f * p.one) p.out[0] = 0;  // not a constant: whole numbers would never be it
}
"""
# A body's changes are kept; anything else would hold registers while it runs.
KEEP = {"d[": "keep += d[i][0] + d[i][1] + d[i][2] + d[i][3];", "x[": "keep += x[i];",
        "b[i])": "keep += static_cast<float>(b[i][0] + b[i][1] + b[i][2] + b[i][3]);"}

PRODUCT = "mma_m16n8k16(%(tag)s{}, d[%(sum)s], a, b[%(right)s][0], b[%(right)s][1]);"
# Another place each time, and a use of every word: the assembler drops a load that another one repeats, and one that nobody needs.
LOAD = "load_matrices%(order)s(mine + 2048 * i + repeat %% 2 * 32768, b[%(place)s]);"
USE = " words[0] ^= b[i][0] ^ b[i][1]; words[1] ^= b[i][2] ^ b[i][3];"
AHEAD = 4  # loads before the products that use what they bring


def fed(rows):
    """Every load brings two right operands, which meet the left operands of `rows` blocks of 16 rows."""
    right = f"b[(i + {AHEAD}) % {2 * AHEAD}]"
    products = [f"mma_m16n8k16(F16{{}}, d[(2 * i * {rows} + {2 * r + h}) % {COUNT}], a, {right}[{2 * h}], {right}[{2 * h + 1}]);"
                for r in range(rows) for h in range(2)]
    return LOAD % dict(order="", place=f"i % {2 * AHEAD}") + " " + " ".join(products)


# name: (text of one step, steps in a body, what one step of one warp does, its unit)
BODIES = {
    "product f16": (PRODUCT % dict(tag="F16", sum="i", right="i"), COUNT, 4096, "flop"),
    "product bf16": (PRODUCT % dict(tag="Bf16", sum="i", right="i"), COUNT, 4096, "flop"),
    "product chain": (PRODUCT % dict(tag="F16", sum="0", right="i"), COUNT, 4096, "flop"),
    "load": (LOAD % dict(order="", place="i") + USE, COUNT, 512, "bytes"),
    "load transposed": (LOAD % dict(order="_transposed", place="i") + USE, COUNT, 512, "bytes"),
    "load chain": ("load_matrices(address, words); address += words[0];", COUNT, 512, "bytes"),
    "load + 2 products": (fed(1), COUNT, 2 * 4096, "flop"),
    "load + 4 products": (fed(2), COUNT, 4 * 4096, "flop"),
    "exp2": ("x[i] = exp2_approx(x[i] * -p.one);", COUNT, 32, "results"),
    "exp2 gradual": ("x[i] = exp2_gradual(x[i] * -p.one);", COUNT, 32, "results"),
}


def copy_body(kilobytes, threads):
    each = kilobytes * 1024 // 16 // threads
    return (f"for (u32 j = 0; j < {each}; ++j) {{ const u32 piece = j * {threads} + thread_index(); "
            f"copy_async<16>(piece_address(base, piece / 8, piece % 8), p.in + (repeat % 4) * {kilobytes * 1024} + 16 * piece); }} "
            "copy_async_commit<1>(); copy_async_wait<2, 0>(); block_sync();")


def kernel_text(primitives, body, steps, warps):
    keep = " ".join(text for what, text in KEEP.items() if what in body)
    return KERNEL % dict(primitives=primitives, threads=32 * warps, warps=warps, smem=SMEM, count=COUNT, rounds=ROUNDS, repeats=REPEATS, steps=steps, body=body, keep=keep)


class Params(ctypes.Structure):
    _fields_ = [("out", ctypes.c_void_p), ("input", ctypes.c_void_p), ("one", ctypes.c_float)]


def measure(driver, binary, warps):
    """Cycles of all repeats: from the first warp's start to the last one's stop, the least of the rounds after the first."""
    module, function = driver.load(binary, smem=SMEM)
    memory = driver.memory(1 << 20)
    driver.run(function, driver.sms, 32 * warps, SMEM, Params(out=memory, input=memory + 65536, one=1.0))
    times = driver.read(memory, ctypes.c_longlong, 2 * warps * ROUNDS)
    driver.free(memory)
    driver.unload(module)
    rounds = [times[2 * warps * r:2 * warps * (r + 1)] for r in range(1, ROUNDS)]
    return min(max(r[1::2]) - min(r[0::2]) for r in rounds)


def cases():
    for name, (body, steps, amount, unit) in BODIES.items():
        for warps in ([1] if "chain" in name else [4, 8, 16]):
            yield name, body, steps, amount, unit, warps
    for kilobytes in (2, 8, 16, 32):
        yield f"copy {kilobytes} KB", copy_body(kilobytes, 128), 1, kilobytes * 1024 // 4, "bytes", 4


def kernels(primitives, rate):
    """(name, text) of what is to be measured, in the order of its cases."""
    if rate:
        return [(f"rate {case}", mma_rate.kernel_text(primitives, case)) for case in mma_rate.CASES]
    return [(f"{case[0]} {case[5]}", kernel_text(primitives, case[1], case[2], case[5])) for case in cases()]


def compile_all(binaries, arch, primitives, rate):
    start = time.monotonic()
    made = [binaries.get(name, text, arch) for name, text in kernels(primitives, rate)]
    print(f"{arch}: {len(made)} kernels, {sum(map(len, made))} bytes, in {time.monotonic() - start:.1f} s", flush=True)
    return made


def print_cycles(driver, made):
    print("cycles of one step of a warp, and what a multiprocessor does in a cycle", flush=True)
    rows, copies = [], []
    for (name, _, steps, amount, unit, warps), binary in zip(cases(), made):
        cycles = measure(driver, binary, warps)
        if cycles < REPEATS * steps:
            raise RuntimeError(f"{name}, {warps} warps: {cycles} cycles for {REPEATS * steps} steps; the assembler has left them out")
        step, rate = cycles / REPEATS / steps, amount * warps * REPEATS * steps / cycles
        rows.append(dict(body=name, warps=warps, cycles_a_step=step, rate=rate, unit=unit))
        print(f"{name:18s} {warps:2d} warps  {step:8.1f} cycles  {rate:8.1f} {unit}/cycle", flush=True)
        if name.startswith("copy"):
            copies.append((amount * warps / 1024, step))
    line = statistics.linear_regression(*zip(*copies))
    print(f"copies by threads from L2: {line.intercept:.0f} cycles and {line.slope:.1f} for each KB, the barrier of the block with them")
    return dict(rows=rows, copy_cycles=line.intercept, copy_cycles_per_kb=line.slope)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", action="store_true", help="products of random numbers from registers alone at full load, in TFLOP/s by events")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers to this file")
    parser.add_argument("--cubins", metavar="DIR", help="take the kernels' binaries from this folder, and leave there those that it lacks")
    parser.add_argument("--compile", action="store_true", help="compile the kernels of both kinds for every arch of the family, and run nothing")
    parser.add_argument("--arch", choices=ARCHS, help="with --compile: for this one only")
    options = parser.parse_args()
    if options.arch and not options.compile:
        parser.error("--arch goes with --compile; a run is on the GPU at hand")
    binaries = Binaries(options.cubins)
    if options.compile:
        for arch in [options.arch] if options.arch else ARCHS:
            for rate in (False, True):
                compile_all(binaries, arch, ARCHS[arch], rate)
        return
    driver = Driver()
    name = f"sm_{driver.major}{driver.minor}"
    arch = next((known for known in ARCHS if known.rstrip("a") == name), name)
    print(f"{arch}, {driver.sms} multiprocessors", flush=True)
    made = compile_all(binaries, arch, ARCHS.get(arch, "sm80" if driver.major < 9 else "sm80_tma"), options.rate)
    found = mma_rate.print_rates(driver, made) if options.rate else print_cycles(driver, made)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(dict(arch=arch, sms=driver.sms, **found), indent=1) + "\n")


if __name__ == "__main__":
    main()
