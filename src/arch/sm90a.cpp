// sm_90a: NVIDIA Hopper (H100, H200). Data only.
#include "arch/arch.hpp"

namespace tj::arch {

namespace {

std::map<std::string, Fact> facts() {
  const char* whitepaper =
      "NVIDIA H100 Tensor Core GPU Architecture whitepaper: 989.4 TFLOP/s dense f16, 132 SMs, 1.83 GHz";
  const char* guide =
      "CUDA C++ Best Practices Guide 13, throughput of native arithmetic instructions, compute capability 9.0";
  const std::string measured = "tests/gpu/node_cycles.py on an H200, 2026-11-20";
  const std::string products =
      "graph replays as in tests/gpu/gemm_speed.py, tile set by hand, H200, 2026-11-21, at 1.755 GHz";
  const std::string loops = "tests/gpu/gemm_predict.py on an H200, 2026-11-21";
  return {
      {"matrix_flops_per_cycle", {4096, whitepaper}},
      {"matrix_flops_per_cycle_8bit", {8192, "the same whitepaper: 1978.9 TFLOP/s dense fp8"}},
      {"exp2_per_cycle", {16, guide}},
      {"f32_per_cycle", {128, guide}},
      {"minmax_per_cycle", {64, guide}},
      {"convert_per_cycle", {64, guide}},
      {"matrix_drain_cycles", {90, measured + ": pv alone less its rate, 599 - 512 at D 128 N 128"}},
      {"shared_unit_cycles",
       {92, measured + ": softmax together less the exponentials of all consumers, 1116 - 1024 at N 128"}},
      {"matrix_group_cycles",
       {88, measured + ": step less the rate of its 4 groups, a group: 65 at N 128, 94 at N 160, 102 at N 176 (D 128), "
                       "their mean"}},
      {"copy_latency_cycles", {490, measured + ": copy at 0 KB, by the line through 16 KB (675) and 44 KB (1000)"}},
      {"copy_cycles_per_kb", {11.6, measured + ": slope of that line, from L2"}},
      {"matrix_least_cycles",
       {32, products + ": tiles of 64 x 32 iterate like those of 64 x 64 (0.219 us), whose instructions take 32"}},
      {"copy_outside_row_cycles",
       {7, products + ": 16 and 1 x 4096 x 4096 less 64 rows, tiles of 64 x 32, 128 bytes: 7.5 and 7.0"}},
      {"unaligned_copy_bytes_per_cycle",
       {3540, products + ": 1000^3, tiles of 128 x 64, 50 MB in the 8.1 us that 16 iterations take"}},
      {"sustained_copy_bytes_per_cycle",
       {7800, products + ": 4096^3, 1024 iterations of 24 KB an SM in tiles of 128 x 64 and 512 of 40 KB in tiles of "
                         "64 x 256, 295 and 226 us, tiles' ends taken off"}},
      {"loaded_copy_cycles_per_kb",
       {15, loops + ": where all SMs copy without a pause, 13 to 17, as tiles are 128 x 64, 64 x 128 or 64 x 64, at "
                    "1.6 to 1.98 GHz"}},
      {"multicast_copy_factor",
       {1.1, loops + ": 64 x 128, 128 x 64 and 64 x 256 in clusters of two, at the clock that lasts: 374 to 427 and "
                     "584 to 638 cycles in six runs"}},
      {"cache_bytes_per_cycle", {4040, loops + ": 16 x 64, whose b no two SMs share: 16.5 KB an SM in 530 cycles"}},
      {"cache_bytes", {50.0 * 1024 * 1024, "NVIDIA H100 Tensor Core GPU Architecture whitepaper: 50 MB of L2"}},
      {"memory_bytes_per_cycle",
       {2390, "a copy on an H200 reads and writes 4.2 TB/s (torch, 2026-11-20), at 1.755 GHz"}},
      {"cluster_start_cycles",
       {480, products + ": 8 x 16 tiles at K 512, two blocks that share a copy less each alone, 0 to 0.71 us, mean of "
                        "14: 0.27 us"}},
      {"tile_turn_cycles",
       {930, products + ": four waves of tiles less one, at K 0 by K 512 and 2048; eight tiles, their line at 0 sums"}},
      {"next_launch_cycles",
       {5400,
        "tj-warm --tune --op gemm --dtype f16 --sizes 256x256x8192 on an H200, 2026-11-21: 64x64x128k8 and "
        "64x32x128k4, 7.2 and 7.8 us, "
        "less the rest of what is predicted: 3.1 us for a call's second launch and its scratch memory"}},
      {"fragment_store_cycles", {21, products + ": slope of that line"}},
  };
}

}  // namespace

Arch make_sm90a() {
  Arch a;
  a.name = "sm_90a";
  a.vendor = "nvidia";
  a.family = "sm90";
  a.primitives = "sm90";
  a.compiler = "nvrtc";
  a.device_major = 9;
  a.device_minor = 0;
  // TC matrix unit, EXP special functions, ALU arithmetic pipes, TMA copy engine.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"TMA", 1}};
  a.facts = facts();
  a.smem_per_block_bytes = 227 * 1024;  // Hopper Tuning Guide
  a.smem_per_sm_bytes = 228 * 1024;     // Hopper Tuning Guide
  a.smem_reserved_bytes = 1024;         // Hopper Tuning Guide: 1 KB of each block is the system's
  a.registers_per_sm = 65536;           // Hopper Tuning Guide
  a.max_registers_per_thread =
      240;              // setmaxnreg with a producer group at 24: (65536 / 128 - 24) / 2, down to a multiple of 8
  a.register_step = 8;  // PTX ISA, setmaxnreg
  a.register_roles = true;
  a.max_cluster = 8;           // CUDA C++ Programming Guide, thread block clusters: the portable size
  a.overlapped_launch = true;  // PTX ISA, griddepcontrol: sm_90 and later
  a.sm_count = 132;
  a.clock_ghz = 1.755;  // estimate: 1.98 GHz boost (nvidia-smi) falls to 1.53 to 1.8 GHz under attention at 700 W;
                        // predictions only
  return a;
}

}  // namespace tj::arch
