// sm_89: NVIDIA Ada Lovelace, GeForce RTX 40. Cards for workstations and servers multiply twice as fast. Data only;
// nothing here was measured by this project.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_sm89() {
  const char* guide =
      "CUDA C++ Best Practices Guide 13, throughput of native arithmetic instructions, compute capability 8.9";
  const char* whitepaper =
      "NVIDIA Ada GPU Architecture whitepaper: RTX 4090, 165.2 TFLOP/s dense f16 with f32 sums, 128 SMs, 2.52 GHz";
  const char* eight = "the same whitepaper: RTX 4090, 330.3 TFLOP/s dense fp8 with f32 sums";
  const char* banks =
      "CUDA C++ Programming Guide 13.0, shared memory of compute capability 5.x, to which 8.x refers: 32 banks of 32 "
      "bits a clock";
  const char* hopper = "estimate: as measured on an H200, see sm90a.cpp and sm90.cpp";
  Arch a;
  a.name = "sm_89";
  a.vendor = "nvidia";
  a.family = "sm80";
  a.primitives = "sm80";
  a.compiler = "nvrtc";
  a.device_major = 8;
  a.device_minor = 9;
  // TC matrix unit, whose instructions hold their warp; EXP special functions, ALU arithmetic pipes, LSU shared memory.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"LSU", 1}};
  a.facts = {
      {"matrix_flops_per_cycle", {512, whitepaper}},
      {"matrix_flops_per_cycle_8bit", {1024, eight}},
      {"matrix_group_cycles", {70, hopper}},
      {"exp2_per_cycle", {16, guide}},
      {"f32_per_cycle", {128, guide}},
      {"minmax_per_cycle", {64, guide}},
      {"shared_bytes_per_cycle", {128, banks}},
      {"cache_bytes", {72.0 * 1024 * 1024, "the same whitepaper: 73728 KB of L2"}},
      {"memory_bytes_per_cycle", {400, "the same whitepaper: 1008 GB/s, at 2.52 GHz"}},
      {"thread_copy_latency_cycles", {350, hopper}},
      {"thread_copy_cycles_per_kb", {16, "estimate: 64 bytes a clock from L2 into an SM"}},
      {"tile_turn_cycles", {930, hopper}},
      {"fragment_store_cycles", {21, hopper}},
      {"next_launch_cycles", {5400, hopper}},
      {"operand_registers",
       {40, "tests/ops/gemm/warps_compile_test.cpp, NVRTC 13.0: pieces of 64 x 64 fit 168 registers"}},
  };
  a.smem_per_block_bytes =
      99 * 1024;  // CUDA C++ Programming Guide 13.0, technical specifications, compute capability 8.9
  a.smem_per_sm_bytes = 100 * 1024;  // the same table
  a.smem_reserved_bytes = 1024;      // the same guide, compute capability 8.x: 1 KB of each block is the system's
  a.registers_per_sm = 65536;        // technical specifications
  a.max_registers_per_thread = 255;  // the same table
  a.register_step = 8;               // registers are given to warps in units of 256: CUDA occupancy data
  a.sm_count = 128;                  // the whitepaper above
  a.clock_ghz = 2.52;                // the whitepaper above: boost; predictions only
  return a;
}

}  // namespace tj::arch
