#!/usr/bin/env python3
"""Cycles of a warp's matrix instructions, loads of matrices and copies by threads on the GPU at hand: what the archs of family sm80 cost.

Compiles small kernels around the primitives with NVRTC, runs one block a multiprocessor, and prints rates of a multiprocessor and
latencies as clock64 counts them, the best of some rounds. Products: from registers alone, in one chain, and fed by load_matrices, of which
each serves as many of them as rows of 16 a warp has, twice. Copies: a tile from L2 by all threads, and its wait.
Needs an NVIDIA driver, NVRTC and a device of compute capability 8.0 or more; with --compile NVRTC alone.
Usage: tests/gpu/warp_cycles.py [--json FILE] [--compile]
"""
import argparse
import ctypes
import json
import pathlib
import statistics

from node_cycles import check, compile_kernel, load_library

REPEATS = 32   # of a body that holds COUNT instructions
COUNT = 16
ROUNDS = 5
SMEM = 72 * 1024

KERNEL = """
#include "arch/%(primitives)s.cuh"
#include "pipeline.cuh"
#include "tiles.cuh"
using namespace tj::dev;
struct Params { long long* out; const char* in; float one; };
TJ_KERNEL(measure, %(threads)d, Params, p) {
  const u32 base = shared_base();
  for (u32 at = 4 * thread_index(); at < %(smem)du; at += 4 * %(threads)d) store_shared(base + at, 0u);
  const u32 mine = piece_address(base + warp_index() %% 4 * 2048, down_row(), down_piece());
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
      p.out[2 * (round * %(warps)d + warp_index())] = start;
      p.out[2 * (round * %(warps)d + warp_index()) + 1] = stop;
    }
  }
  float keep = static_cast<float>(address + words[0] + words[1] + words[2] + words[3]);  // what makes every result needed
  for (int i = 0; i < %(count)d; ++i) keep += d[i][0] + d[i][1] + d[i][2] + d[i][3] + x[i] + static_cast<float>(b[i][0] + b[i][1] + b[i][2] + b[i][3]);
  if (keep == 123.456f) p.out[0] = 0;
}
"""

PRODUCT = "mma_m16n8k16(%(tag)s{}, d[%(sum)s], a, b[%(right)s][0], b[%(right)s][1]);"
# Another place each time, and a use of every word: the assembler drops a load that another one repeats, and one that nobody needs.
LOAD = "load_matrices%(order)s(mine + 2048 * i + repeat %% 2 * 32768, b[i]);"
USE = " words[0] ^= b[i][0] ^ b[i][1]; words[1] ^= b[i][2] ^ b[i][3];"


def fed(rows):
    """Every load brings two right operands, which meet the left operands of `rows` blocks of 16 rows."""
    products = [f"mma_m16n8k16(F16{{}}, d[(2 * i * {rows} + {2 * r + h}) % {COUNT}], a, b[(i + {COUNT // 2}) % {COUNT}][{2 * h}], b[(i + {COUNT // 2}) % {COUNT}][{2 * h + 1}]);"
                for r in range(rows) for h in range(2)]
    return LOAD % dict(order="") + " " + " ".join(products)


# name: (text of one step, steps in a body, what one step of one warp does, its unit)
BODIES = {
    "product f16": (PRODUCT % dict(tag="F16", sum="i", right="i"), COUNT, 4096, "flop"),
    "product bf16": (PRODUCT % dict(tag="Bf16", sum="i", right="i"), COUNT, 4096, "flop"),
    "product chain": (PRODUCT % dict(tag="F16", sum="0", right="i"), COUNT, 4096, "flop"),
    "load": (LOAD % dict(order="") + USE, COUNT, 512, "bytes"),
    "load transposed": (LOAD % dict(order="_transposed") + USE, COUNT, 512, "bytes"),
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
    return KERNEL % dict(primitives=primitives, threads=32 * warps, warps=warps, smem=SMEM, count=COUNT, rounds=ROUNDS, repeats=REPEATS, steps=steps, body=body)


class Params(ctypes.Structure):
    _fields_ = [("out", ctypes.c_void_p), ("input", ctypes.c_void_p), ("one", ctypes.c_float)]


def measure(cuda, cubin, warps, blocks):
    """Cycles of all repeats: from the first warp's start to the last one's stop, the least of the rounds after the first."""
    module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"measure"), "cuModuleGetFunction")
    check(cuda.cuFuncSetAttribute(function, 8, SMEM), "cuFuncSetAttribute")  # 8: dynamic shared memory limit
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)), "cuMemAlloc")
    check(cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(0), ctypes.c_size_t(1 << 20)), "cuMemsetD8")
    params = Params(out=memory.value, input=memory.value + 65536, one=1.0)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(params))
    check(cuda.cuLaunchKernel(function, blocks, 1, 1, 32 * warps, 1, 1, SMEM, None, arguments, None), "cuLaunchKernel")
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    times = (ctypes.c_longlong * (2 * warps * ROUNDS))()
    check(cuda.cuMemcpyDtoH_v2(times, memory, ctypes.sizeof(times)), "cuMemcpyDtoH")
    cuda.cuMemFree_v2(memory)
    cuda.cuModuleUnload(module)
    rounds = [times[2 * warps * r:2 * warps * (r + 1)] for r in range(1, ROUNDS)]
    return min(max(r[1::2]) - min(r[0::2]) for r in rounds)


def cases():
    for name, (body, steps, amount, unit) in BODIES.items():
        for warps in ([1] if "chain" in name else [4, 8, 16]):
            yield name, body, steps, amount, unit, warps
    for kilobytes in (2, 8, 16, 32):
        yield f"copy {kilobytes} KB", copy_body(kilobytes, 128), 1, kilobytes * 1024 // 4, "bytes", 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--compile", action="store_true", help="compile the kernels for every arch of the family, and run nothing")
    options = parser.parse_args()
    nvrtc = load_library(["libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"], "NVRTC")
    if options.compile:
        for arch, primitives in (("sm_80", "sm80"), ("sm_86", "sm80"), ("sm_89", "sm80"), ("sm_90", "sm80_tma"), ("sm_120a", "sm80_tma"), ("sm_121a", "sm80_tma")):
            sizes = [len(compile_kernel(nvrtc, kernel_text(primitives, case[1], case[2], case[5]), arch)) for case in cases()]
            print(f"{arch}: {len(sizes)} kernels, {sum(sizes)} bytes")
        return
    cuda = load_library(["libcuda.so.1"], "the NVIDIA driver")
    device, context, sms, major, minor = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    for out, attribute in ((sms, 16), (major, 75), (minor, 76)):
        check(cuda.cuDeviceGetAttribute(ctypes.byref(out), attribute, device), "cuDeviceGetAttribute")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    arch = f"sm_{major.value}{minor.value}" + ("a" if major.value >= 10 else "")
    primitives = "sm80" if major.value < 9 else "sm80_tma"
    print(f"{arch}, {sms.value} multiprocessors; cycles of one step of a warp, and what a multiprocessor does in a cycle")
    rows, copies = [], []
    for name, body, steps, amount, unit, warps in cases():
        cycles = measure(cuda, compile_kernel(nvrtc, kernel_text(primitives, body, steps, warps), arch), warps, sms.value)
        step, rate = cycles / REPEATS / steps, amount * warps * REPEATS * steps / cycles
        rows.append(dict(body=name, warps=warps, cycles_a_step=step, rate=rate, unit=unit))
        print(f"{name:18s} {warps:2d} warps  {step:8.1f} cycles  {rate:8.1f} {unit}/cycle", flush=True)
        if unit == "bytes" and name.startswith("copy"):
            copies.append((amount * warps / 1024, step))
    line = statistics.linear_regression(*zip(*copies))
    print(f"copies by threads from L2: {line.intercept:.0f} cycles and {line.slope:.1f} for each KB, the barrier of the block with them")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(dict(arch=arch, rows=rows, copy_cycles=line.intercept, copy_cycles_per_kb=line.slope), indent=1) + "\n")


if __name__ == "__main__":
    main()
