// sm_90a: NVIDIA Hopper (H100, H200). Data only.
#include "arch/arch.hpp"

namespace tj::arch {

namespace {

/// Facts by which products on all SMs at once are predicted (ops/gemm/rates.hpp).
std::map<std::string, Fact> joint_facts() {
  const std::string power =
      "compare.py --op gemm, seeds 20261123, 20261125 and 20261127, graph replays of products of more than 500 us on "
      "an H200, 2026-11-23: tiles of 128 x 256 in clusters of 1 x 2 at 620 to 664 TFLOP/s, of 64 x 256 at 524 to 565: ";
  const std::string tiles =
      "tj-warm --tune --op gemm --dtype f16 of 104 sizes drawn with seeds 20261123 and 20261124, all tiles, on an "
      "H200, 2026-11-23: ";
  const std::string alone =
      "tj-warm --tune --op gemm --dtype f16 --sizes 64x1024x2048,64x1024x8192,128x1024x2048,128x1024x8192 on an H200, "
      "2026-11-25, few tiles, by the difference of both lengths, at 1.98 GHz: ";
  const std::string drawn =
      "tj-warm --tune --op gemm --dtype f16 of 72 sizes, most drawn with seed 20261126, all tiles, on an H200, "
      "2026-11-25: ";
  return {
      {"copy_outside_row_cycles",
       {10, drawn + "fit; where all SMs fill rows, joint_outside_rows_per_cycle limits them"}},
      {"copy_issue_cycles",
       {190, alone + "64 x 96 iterates in 379 cycles where one thread asks for both operands, in 261 with a thread "
                     "for each"}},
      {"shared_copy_issue_cycles",
       {330, alone + "64 x 128 in clusters of 2 x 1 iterates in 505 cycles where one thread asks for both operands, in "
                     "330 to 336 "
                     "with a thread for each"}},
      {"loaded_copy_cycles_per_kb",
       {10.75, tiles + "one wave; gemm_predict.py's loops gave 13 to 17, with what SMs share in it"}},
      {"crowded_copy_cycles_per_kb", {19, drawn + "fit; 64 x 256 alone copies a KB in 14"}},
      {"multicast_copy_factor", {1.35, tiles + "fit; main loops alone gave 1.1 (gemm_predict.py)"}},
      {"product_group_cycles", {50, alone + "20 to 87 cycles beyond the products of a group, most of them 35 to 75"}},
      {"burst_clock_ghz", {1.98, "nvidia-smi, the highest clock; kept where SMs wait for memory"}},
      {"matrix_clock_ghz",
       {1.59, power + "713 ns of 1136 cycles, where no byte came from L2, on the line through both tiles"}},
      {"copied_kb_power_cycles",
       {4.5, power + "3.7 ns of an SM for a KB, 6.5 cycles; " + drawn +
                 "replays of 8 ms fit 0.8 to 4.5 alike: the one that is nearest to what lasts"}},
      {"joint_copy_bytes_per_cycle", {20000, drawn + "fit, beside crowded_copy_cycles_per_kb"}},
      {"joint_outside_rows_per_cycle",
       {10, drawn + "fit; 16 to 29 in a nanosecond at M 2 to 26, before boxes outside were left out"}},
      {"wide_row_copy_factor", {1.5, drawn + "fit; 64 x 64 x 128 reaches 10 TB/s where 64 x 128 x 64 reaches 15"}},
      {"cached_operand_bytes",
       {35e6, drawn + "fit; 13 x 7168 x 2048 reads 29 MB at 5.9 TB/s, 87 x 4096 x 4096 reads 34 MB at 3.1"}},
      {"cache_bytes_per_cycle", {3400, drawn + "fit, 6 TB/s; 16 x 64 alone reached 7.1 (gemm_predict.py)"}},
      {"tile_turn_cycles", {200, drawn + "fit, beside what the writes of all SMs take"}},
      {"fragment_store_cycles", {6, tiles + "fit, beside what the writes of all SMs take"}},
      {"part_wave_memory_factor",
       {1.2, drawn + "fit; 16 x 64 x 128 on 80 and 96 SMs reads 2.9 and 3.4 TB/s, on 128 4.3"}},
  };
}

std::map<std::string, Fact> facts() {
  const char* whitepaper =
      "NVIDIA H100 Tensor Core GPU Architecture whitepaper: 989.4 TFLOP/s dense f16, 132 SMs, 1.83 GHz";
  const char* guide =
      "CUDA C++ Best Practices Guide 13, throughput of native arithmetic instructions, compute capability 9.0";
  const std::string measured = "tests/gpu/node_cycles.py on an H200, 2026-11-20";
  const std::string products =
      "graph replays as in tests/gpu/gemm_speed.py, tile set by hand, H200, 2026-11-21, at 1.755 GHz";
  std::map<std::string, Fact> all = {
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
       {24,
        "tj-warm --tune --op gemm --dtype f16 --sizes 64x1024x2048,64x1024x8192 on an H200, 2026-11-25: 64 x 32 x 128 "
        "iterates in 299 cycles, 8 instructions and two groups; less 50 for each group"}},
      {"unaligned_copy_bytes_per_cycle",
       {3540, products + ": 1000^3, tiles of 128 x 64, 50 MB in the 8.1 us that 16 iterations take"}},
      {"sustained_copy_bytes_per_cycle",
       {7800, products + ": 4096^3, 1024 iterations of 24 KB an SM in tiles of 128 x 64 and 512 of 40 KB in tiles of "
                         "64 x 256, 295 and 226 us, tiles' ends taken off"}},
      {"cache_bytes", {50.0 * 1024 * 1024, "NVIDIA H100 Tensor Core GPU Architecture whitepaper: 50 MB of L2"}},
      {"memory_bytes_per_cycle",
       {2390, "a copy on an H200 reads and writes 4.2 TB/s (torch, 2026-11-20), at 1.755 GHz"}},
      {"cluster_start_cycles",
       {480, products + ": 8 x 16 tiles at K 512, two blocks that share a copy less each alone, 0 to 0.71 us, mean of "
                        "14: 0.27 us"}},
      {"next_launch_cycles",
       {3500,
        "tj-warm --tune --op gemm --dtype f16 of 72 sizes, most drawn with seed 20261126, on an H200, 2026-11-25: fit; "
        "3.1 us for a call's second launch and its scratch memory were measured on 2026-11-21"}},
  };
  all.merge(joint_facts());
  return all;
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
  a.least_drawn_waves = 1.5;  // tj-warm --tune --op fmha, causal, on an H200, 2026-11-23: 256 tiles of 128 queries take
                              // 7 to 30% less time when drawn, 128 tiles 2.5 us more
  a.sm_count = 132;
  a.clock_ghz = 1.755;  // estimate: 1.98 GHz boost (nvidia-smi) falls to 1.53 to 1.8 GHz under attention at 700 W;
                        // predictions only
  return a;
}

}  // namespace tj::arch
