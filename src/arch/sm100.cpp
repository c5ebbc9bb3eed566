// sm_100, sm_103 and sm_110 without a suffix: NVIDIA Blackwell, data center (B200; B300) and Jetson Thor. They use the
// instructions that every GPU from sm_90 on has. They serve these devices unless a target asks for tensor memory
// (sm100a.cpp), whose kernels have never run on one. Data only; nothing here was measured by this project.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_sm100() {
  const char* guide =
      "CUDA C++ Best Practices Guide 13, throughput of native arithmetic instructions, compute capability 10.0";
  const char* twill = "costs calibrated on a B200, see sm100a.cpp: bulk load, 460 + 6 a KB";
  const char* hopper = "estimate: as measured on an H200, see sm90a.cpp and sm90.cpp";
  const char* device = "device properties of a B200 in github.com/pytorch/ao, pull request 4002";
  Arch a;
  a.name = "sm_100";
  a.vendor = "nvidia";
  a.family = "sm80";
  a.primitives = "sm80_tma";
  a.compiler = "nvrtc";
  a.device_major = 10;
  a.device_minor = 0;
  // TC matrix unit, whose instructions hold their warp; EXP special functions, ALU arithmetic pipes, LSU shared memory,
  // TMA copy engine.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"LSU", 1}, {"TMA", 1}};
  a.facts = {
      {"matrix_flops_per_cycle",
       {2709,
        "estimate: what sm_90 was measured to reach, as nothing is published of mma.sync on sm_100; "
        "tests/gpu/warp_cycles.py --rate measures it"}},
      {"matrix_group_cycles", {70, hopper}},
      {"exp2_per_cycle", {16, guide}},
      {"f32_per_cycle", {128, guide}},
      {"minmax_per_cycle",
       {64, "estimate: as sm_100a is given by that table of CUDA 13.0; the one of 13.4 is said to have 128"}},
      {"shared_bytes_per_cycle", {128, "CUDA C++ Programming Guide 13.0, shared memory: 32 banks of 32 bits a clock"}},
      {"cache_bytes", {126.5 * 1024 * 1024, std::string(device) + ": 126.5 MB of L2"}},
      {"memory_bytes_per_cycle",
       {3904, std::string(device) + ": 7680 bits at 3996 MHz, twice a clock, 7.67 TB/s, at 1.965 GHz"}},
      {"copy_latency_cycles", {460, twill}},
      {"copy_cycles_per_kb", {6, twill}},
      {"thread_copy_latency_cycles", {350, hopper}},
      {"thread_copy_cycles_per_kb", {11, "estimate: as measured on an H200 (10.8 by threads)"}},
      {"tile_turn_cycles", {930, hopper}},
      {"fragment_store_cycles", {21, hopper}},
      {"next_launch_cycles", {5400, hopper}},
      {"operand_registers",
       {72, "tests/ops/gemm/warps_compile_test.cpp, NVRTC 13.0: in 168 registers pieces of 64 x 64 spill 16 bytes"}},
  };
  a.smem_per_block_bytes = 227 * 1024;  // Blackwell Tuning Guide
  a.smem_per_sm_bytes = 228 * 1024;     // Blackwell Tuning Guide
  a.smem_reserved_bytes = 1024;         // Blackwell Tuning Guide: 1 KB of each block is the system's
  a.registers_per_sm = 65536;           // Blackwell Tuning Guide
  a.max_registers_per_thread = 255;     // Blackwell Tuning Guide
  a.register_step = 8;                  // registers are given to warps in units of 256: CUDA occupancy data
  a.register_roles = false;             // PTX ISA, setmaxnreg: not without a suffix
  a.max_cluster = 8;                    // CUDA C++ Programming Guide, thread block clusters: the portable size
  a.overlapped_launch = true;           // PTX ISA, griddepcontrol: sm_90 and later
  a.sm_count = 148;                     // the properties above
  a.clock_ghz = 1.965;                  // estimate: the boost clock that is reported of a B200; predictions only
  return a;
}

Arch make_sm103() {
  Arch a = make_sm100();
  a.name = "sm_103";
  a.device_minor = 3;
  a.facts["exp2_per_cycle"] = {
      32, "NVIDIA technical blog, Inside NVIDIA Blackwell Ultra: twice the exponentials of Blackwell, which makes 16"};
  for (const char* fact : {"cache_bytes", "memory_bytes_per_cycle"})
    a.facts[fact].source =
        "estimate: B200's, of the same memory stacks in number and kind of bus; " + a.facts[fact].source;
  return a;
}

Arch make_sm110() {
  const char* thor = "estimate: Jetson T5000, 273 GB/s (NVIDIA Jetson Thor datasheet), at 1.575 GHz";
  Arch a = make_sm100();
  a.name = "sm_110";
  a.device_major = 11;
  a.device_minor = 0;
  a.facts["minmax_per_cycle"].source = "estimate: what that table gives for every arch from 8.0 to 9.0 and for 12.0";
  a.facts["cache_bytes"] = {32.0 * 1024 * 1024,
                            "NVIDIA developer forum, topic 356355: device properties of a Jetson AGX Thor, 32 MiB of "
                            "L2, 20 SMs of 228 KiB shared memory"};
  a.facts["memory_bytes_per_cycle"] = {173, thor};
  for (const char* fact : {"copy_latency_cycles", "copy_cycles_per_kb"})
    a.facts[fact].source = "estimate: B200's; " + a.facts[fact].source;
  a.sm_count = 20;      // the topic above
  a.clock_ghz = 1.575;  // estimate: the greatest clock of a Jetson T5000; predictions only
  return a;
}

}  // namespace tj::arch
