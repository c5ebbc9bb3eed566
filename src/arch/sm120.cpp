// sm_120a: NVIDIA Blackwell, GeForce RTX 50 and RTX PRO, and sm_121a, the GB10 of DGX Spark. Both have the same SM, as
// far as anything here goes, but the GB10 makes products twice as fast. Data only; nothing here was measured by this
// project.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_sm120a() {
  const char* guide =
      "CUDA C++ Best Practices Guide 13, throughput of native arithmetic instructions, compute capability 12.0";
  const char* whitepaper =
      "NVIDIA RTX Blackwell GPU Architecture whitepaper: RTX 5090, 209.5 TFLOP/s dense f16 with f32 sums, 170 SMs, "
      "2.407 GHz";
  const char* hopper = "estimate: as measured on an H200, see sm90a.cpp and sm90.cpp";
  Arch a;
  a.name = "sm_120a";
  a.vendor = "nvidia";
  a.family = "sm80";
  a.primitives = "sm80_tma";
  a.compiler = "nvrtc";
  a.device_major = 12;
  a.device_minor = 0;
  // TC matrix unit, whose instructions hold their warp; EXP special functions, ALU arithmetic pipes, LSU shared memory,
  // TMA copy engine.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"LSU", 1}, {"TMA", 1}};
  a.facts = {
      {"matrix_flops_per_cycle", {512, whitepaper}},
      {"matrix_flops_per_cycle_8bit", {1024, "the same whitepaper: 419 TFLOP/s dense fp8 with f32 sums"}},
      {"matrix_group_cycles", {70, hopper}},
      {"exp2_per_cycle", {16, guide}},
      {"f32_per_cycle", {128, guide}},
      {"minmax_per_cycle", {64, guide}},
      {"shared_bytes_per_cycle", {128, "CUDA C++ Programming Guide 13.0, shared memory: 32 banks of 32 bits a clock"}},
      {"cache_bytes", {96.0 * 1024 * 1024, "the same whitepaper: RTX 5090, 98304 KB of L2"}},
      {"memory_bytes_per_cycle", {744, "the same whitepaper: RTX 5090, 1792 GB/s, at 2.407 GHz"}},
      {"copy_latency_cycles", {490, hopper}},
      {"copy_cycles_per_kb", {16, "estimate: 64 bytes a clock from L2 into an SM"}},
      {"thread_copy_latency_cycles", {350, hopper}},
      {"thread_copy_cycles_per_kb", {16, "estimate: 64 bytes a clock from L2 into an SM"}},
      {"tile_turn_cycles", {930, hopper}},
      {"fragment_store_cycles", {21, hopper}},
      {"next_launch_cycles", {5400, hopper}},
      {"operand_registers",
       {72,
        "tests/ops/gemm/warps_compile_test.cpp, NVRTC 13.0: in 168 registers pieces of 64 x 64 spill 4 bytes with a "
        "bias"}},
  };
  a.smem_per_block_bytes =
      99 * 1024;  // CUDA C++ Programming Guide 13.0, technical specifications, compute capability 12.x
  a.smem_per_sm_bytes = 100 * 1024;  // the same table
  a.smem_reserved_bytes = 1024;      // the same guide: 1 KB of each block is the system's
  a.registers_per_sm = 65536;        // the same table
  a.max_registers_per_thread = 255;  // the same table
  a.register_step = 8;               // PTX ISA, setmaxnreg
  a.register_roles = true;           // PTX ISA, setmaxnreg: sm_120a is a target
  a.overlapped_launch = true;        // PTX ISA, griddepcontrol: sm_90 and later
  a.sm_count = 170;                  // the whitepaper above
  a.clock_ghz = 2.407;               // the whitepaper above: boost; predictions only
  return a;
}

Arch make_sm121a() {
  const char* chip =
      "estimate: GB10 is given 1000 TFLOP/s of sparse fp4 and 31 TFLOP/s of f32 from 6144 lanes in 48 SMs (NVIDIA, Hot "
      "Chips 2025), so 2.52 GHz; "
      "an eighth of the first in dense f16, as RTX PRO 6000 has, is 1033 a cycle and SM";
  Arch a = make_sm120a();
  a.name = "sm_121a";
  a.device_minor = 1;
  a.facts["matrix_flops_per_cycle"] = {1024, chip};
  a.facts["matrix_flops_per_cycle_8bit"] = {2048, "estimate: twice as many as of 16 bits, as sm_120a has"};
  a.facts["memory_bytes_per_cycle"] = {108, "NVIDIA DGX Spark datasheet: 273 GB/s, at 2.52 GHz"};
  a.facts["cache_bytes"] = {24.0 * 1024 * 1024, "estimate: 24 MB of L2 for the GPU of GB10 (NVIDIA, Hot Chips 2025)"};
  a.sm_count = 48;     // the talk above
  a.clock_ghz = 2.52;  // the talk above: boost; predictions only
  return a;
}

}  // namespace tj::arch
