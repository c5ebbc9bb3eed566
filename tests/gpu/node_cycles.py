#!/usr/bin/env python3
"""Cycles of the attention node bodies on the GPU at hand: the source of the cost facts in src/arch/.

Compiles small kernels around the shipped node bodies with NVRTC, runs one block a multiprocessor, and prints the
cycles of one call as clock64 counts them: alone (one warpgroup) and with as many warpgroups as a kernel has consumers.
Needs an NVIDIA driver, NVRTC and a device of compute capability 9.0. Usage: tests/gpu/node_cycles.py [--json FILE]
"""
import argparse
import ctypes
import ctypes.util
import json
import pathlib
import random

from cuda_driver import NVRTC_NAMES, check, compile_kernel, load_library

REPEATS = 64

KERNEL = """
#include "arch/sm90.cuh"
#include "pipeline.cuh"
#include "ops/fmha/sm90.cuh"
namespace {
namespace dev = tj::dev;
using namespace tj::ops::fmha;
struct Config {
  using Element = tj::dev::F16;
  static constexpr int kHeadDim = %(head_dim)d, kBlockN = %(block_n)d, kRowsPerBlock = %(rows)d;
  static constexpr bool kCausal = false, kGeneralScale = false;
};
}
TJ_KERNEL(measure, %(threads)d, tj::ops::fmha::Params, params) {
  const unsigned shared = dev::shared_base();
  unsigned state = threadIdx.x * 2654435761u + static_cast<unsigned>(params.keys);
  for (unsigned at = threadIdx.x * 4; at < %(smem)du; at += blockDim.x * 4) {
    state = state * 1664525u + 1013904223u;
    const unsigned half_pair = (state & 0x83ff83ffu) | 0x38003800u;  // two halves of magnitude 0.5 to 1
    asm volatile("st.shared.u32 [%%0], %%1;" ::"r"(shared + at), "r"(half_pair));
  }
  dev::proxy_fence<1>();
  dev::block_sync();
  Tile tile = tile_at<Config>(params, 0);
  dev::complete<Config>(params, tile);
  tile.first_block = 0, tile.trip_count = 4;
  Consumer<Config> consumer(params, 0);
  begin(consumer, tile);
  for (int i = 0; i < Config::kBlockN / 2; ++i) consumer.scores[i] = static_cast<float>((threadIdx.x * 37 + i * 11) %% 64) * 0.1f;
  for (auto& w : consumer.weights) w = 0x38003900u;
  const unsigned q = shared, kv = shared + Config::kRowsPerBlock * Config::kHeadDim * 2;
  long long best = 1ll << 62;
  float keep = 0;  // what makes every call's result needed
  const int member = static_cast<int>(threadIdx.x / 128);
  const unsigned barrier = shared + %(smem)du - 16;
  if (threadIdx.x == 0) {
    dev::mbarrier_init(barrier, 1);
    dev::mbarrier_init_done();
  }
  for (int round = 0; round < 4; ++round) {
    dev::block_sync();
    if (%(groups)d > 1 && member == %(groups)d - 1 && round == 0) dev::named_arrive<10>(1, 256);
    const long long start = clock64();
#pragma unroll 1
    for (int i = 0; i < %(repeats)d; ++i) {
      %(body)s
      dev::hold(consumer.scores);
    }
    const long long cycles = clock64() - start;
    best = cycles < best ? cycles : best;
  }
  keep += consumer.row_sum[0] + consumer.row_max[1];
  for (float x : consumer.scores) keep += x;
  for (float x : consumer.output) keep += x;
  for (unsigned x : consumer.weights) keep += static_cast<float>(x & 1u);
  if (keep == 123.456f) params.lse[0] = keep;
  if (threadIdx.x %% 128 == 0 && blockIdx.x == 0) static_cast<long long*>(params.o)[threadIdx.x / 128] = best;
}
"""

BODIES = {
    "softmax": "softmax(consumer, tile, i, dev::Fast{});",
    "softmax_general": "softmax(consumer, tile, 0, dev::General{});",
    "softmax_rescale": "softmax(consumer, tile, i, dev::Fast{}); rescale(consumer, tile, i); dev::hold(consumer.weights);",
    "qk": "dev::matrix_fence<2>(); qk(consumer, tile, i, q, kv + (i & 1) * 1024); dev::matrix_commit<3>(); dev::matrix_wait<4, 0>(); "
          "qk_done(consumer); for (float x : consumer.scores) keep += x;",
    "pv": "dev::matrix_fence<2>(); pv(consumer, tile, i, kv); dev::matrix_commit<3>(); dev::matrix_wait<4, 0>(); pv_done(consumer);",
    "qk_pv": "dev::matrix_fence<2>(); qk(consumer, tile, i, q, kv + (i & 1) * 1024); dev::matrix_commit<3>(); dev::matrix_fence<5>(); "
             "pv(consumer, tile, i, kv); dev::matrix_commit<6>(); dev::matrix_wait<4, 0>(); qk_done(consumer); pv_done(consumer); "
             "for (float x : consumer.scores) keep += x;",
}
# One thread copies a block of keys from L2 and waits for it: latency and rate together.
COPY = ("if (threadIdx.x == 0) { dev::mbarrier_expect<11>(barrier, Config::kBlockN * Config::kHeadDim * 2); "
        "load_keys_or_values<Config>(&params.k, params, tile, i & 3, kv, barrier); dev::mbarrier_wait<12>(barrier, (round * %(repeats)d + i) & 1); }")
TURN = "if (%(groups)d > 1) dev::named_%(act)s<%(site)d>(1 + (member + %(ahead)d) %% %(groups)d, 256);"
QK = "dev::matrix_fence<2>(); qk(consumer, tile, i, q, kv); dev::matrix_commit<3>();"
PV = "dev::matrix_fence<5>(); pv(consumer, tile, i, kv); dev::matrix_commit<6>();"
# One step of the steady state without copies: what II is on this machine, for both orders of the products.
STEPS = {
    "step": ["sync", QK, PV, "arrive", "dev::matrix_wait<4, 1>(); qk_done(consumer); softmax(consumer, tile, i, dev::Fast{});",
             "dev::matrix_wait<7, 0>(); pv_done(consumer); rescale(consumer, tile, i);"],
    "step_pv_first": ["sync", PV, QK, "arrive", "dev::matrix_wait<4, 0>(); qk_done(consumer); pv_done(consumer);",
                      "softmax(consumer, tile, i, dev::Fast{}); rescale(consumer, tile, i);"],
}


def body_text(name, groups):
    if name in BODIES:
        return BODIES[name]
    if name == "copy":
        return COPY % dict(repeats=REPEATS)
    turns = {"sync": TURN % dict(groups=groups, act="sync", site=8, ahead=0), "arrive": TURN % dict(groups=groups, act="arrive", site=9, ahead=1)}
    return " ".join(turns.get(part, part) for part in STEPS[name])


class Params(ctypes.Structure):
    _fields_ = [("maps", ctypes.c_uint64 * 48), ("o", ctypes.c_void_p), ("lse", ctypes.c_void_p), ("strides", ctypes.c_longlong * 6),
                ("sizes", ctypes.c_int * 8), ("scale", ctypes.c_float), ("scale_log2", ctypes.c_float), ("sign", ctypes.c_float)]


def key_map(cuda, address, keys, head_dim, block_n):
    """The 16 words of a tensor map over [1, 1, keys, head_dim] f16 with boxes of block_n rows and 64 columns."""
    raw = ctypes.create_string_buffer(192)
    place = (ctypes.addressof(raw) + 63) // 64 * 64
    dims = (ctypes.c_uint64 * 4)(head_dim, keys, 1, 1)
    strides = (ctypes.c_uint64 * 3)(head_dim * 2, keys * head_dim * 2, keys * head_dim * 2)
    box, ones = (ctypes.c_uint32 * 4)(64, block_n, 1, 1), (ctypes.c_uint32 * 4)(1, 1, 1, 1)
    # 6: f16; then interleave none, swizzle 128 bytes (3), L2 promotion 256 bytes (3), zero fill.
    check(cuda.cuTensorMapEncodeTiled(ctypes.c_void_p(place), 6, 4, ctypes.c_void_p(address), dims, strides, box, ones, 0, 3, 3, 0), "cuTensorMapEncodeTiled")
    return (ctypes.c_uint64 * 16).from_buffer_copy(ctypes.string_at(place, 128))


def measure(cuda, nvrtc, head_dim, block_n, body, groups, blocks, seed):
    smem = groups * 64 * head_dim * 2 + block_n * head_dim * 2 + 1024
    text = KERNEL % dict(head_dim=head_dim, block_n=block_n, rows=64 * groups, threads=128 * groups, smem=smem, repeats=REPEATS, body=body_text(body, groups), groups=groups)
    module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuModuleLoadData(ctypes.byref(module), compile_kernel(nvrtc, text)), "cuModuleLoadData")
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"measure"), "cuModuleGetFunction")
    check(cuda.cuFuncSetAttribute(function, 8, smem), "cuFuncSetAttribute")  # 8: dynamic shared memory limit
    keys = 4 * block_n
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096 + keys * head_dim * 2)), "cuMemAlloc")
    check(cuda.cuMemsetD16_v2(ctypes.c_uint64(memory.value + 4096), ctypes.c_ushort(0x3555), ctypes.c_size_t(keys * head_dim)), "cuMemsetD16")
    params = Params(o=memory.value, lse=memory.value + 2048, scale=0.1, scale_log2=0.1442695, sign=1.0)
    params.sizes[:] = [1, 1, 1, 64 * groups, seed, 1, 1, 1]
    params.maps[16:32] = key_map(cuda, memory.value + 4096, keys, head_dim, block_n)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(params))
    check(cuda.cuLaunchKernel(function, blocks, 1, 1, 128 * groups, 1, 1, smem, None, arguments, None), "cuLaunchKernelEx")
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    result = (ctypes.c_longlong * groups)()
    check(cuda.cuMemcpyDtoH_v2(result, memory, ctypes.sizeof(result)), "cuMemcpyDtoH")
    cuda.cuMemFree_v2(memory)
    cuda.cuModuleUnload(module)
    return max(result) / REPEATS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="also write the numbers to this file")
    options = parser.parse_args()
    cuda = load_library(["libcuda.so.1"], "the NVIDIA driver")
    nvrtc = load_library(NVRTC_NAMES, "NVRTC")
    device, context, sms = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuDeviceGetAttribute(ctypes.byref(sms), 16, device), "cuDeviceGetAttribute")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    seed = random.randrange(1, 1 << 30)
    print(f"seed {seed}, {sms.value} multiprocessors; cycles of one call, best of 4 rounds of {REPEATS}")
    rows = []
    for head_dim, block_n, consumers in ((128, 128, 2), (128, 160, 2), (128, 176, 2), (64, 128, 3), (64, 128, 2), (64, 176, 2)):
        for body in [*BODIES, *STEPS, "copy"]:
            alone = measure(cuda, nvrtc, head_dim, block_n, body, 1, sms.value, seed)
            together = measure(cuda, nvrtc, head_dim, block_n, body, consumers, sms.value, seed)
            rows.append(dict(head_dim=head_dim, block_n=block_n, body=body, alone=alone, consumers=consumers, together=together))
            print(f"D {head_dim:3d} N {block_n:3d} {body:16s} alone {alone:8.1f}   {consumers} together {together:8.1f}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(dict(seed=seed, rows=rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
