// sm_100a and sm_103a: NVIDIA Blackwell, data center (B200, GB200; B300), with tensor memory. Data only; nothing here
// was measured by this project.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_sm100();

namespace {

std::map<std::string, Fact> facts_of_sm100a() {
  const char* fa4 =
      "FlashAttention-4 (Zadouri, Hoehnerbach, Shah, Liu, Thakkar, Dao; 2026), section on B200's rates: 8192 f16 flop "
      "and 16 exponentials an SM and clock";
  const char* guide =
      "CUDA C++ Best Practices Guide 13, throughput of native arithmetic instructions, compute capability 10.0";
  const char* twill =
      "costs calibrated on a B200 in the public reproduction of 'Optimal Software Pipelining and Warp Specialization "
      "for Tensor Core GPUs' (OSDI 2026)";
  std::map<std::string, Fact> facts = {
      {"matrix_flops_per_cycle", {8192, fa4}},
      {"exp2_per_cycle", {16, fa4}},
      {"f32_per_cycle", {128, guide}},
      {"minmax_per_cycle", {64, guide}},
      {"minmax_operands", {3, "PTX ISA 8.8, max.f32: a third operand from sm_100 on"}},
      {"convert_per_cycle", {64, guide}},
      {"integer_per_cycle", {64, guide}},
      {"matrix_drain_cycles",
       {388, std::string(twill) + ": latency of 128 x 128 x 128 in f16, 900, less its rate, 128^3 / 4096 = 512"}},
      {"matrix_issue_cycles",
       {11.2,
        "Microbenchmarking NVIDIA's Blackwell Architecture (arXiv 2512.02189): one tcgen05.mma, 11.0 to 11.4 cycles "
        "whatever the tile"}},
      {"copy_latency_cycles", {460, std::string(twill) + ": bulk load, 460 + 6 a KB"}},
      {"copy_cycles_per_kb", {6, std::string(twill) + ": bulk load, 460 + 6 a KB"}},
      {"tensor_memory_bytes_per_cycle",
       {228,
        "public microbenchmark catalogue of a B300, TMEM bandwidth: tcgen05.ld x16 reads 57 bytes a cycle and warp, 4 "
        "warps; stores are taken as no faster"}},
      {"barrier_cycles", {92, std::string(twill) + ": mbarrier, one way"}},
      {"exchange_cycles", {61, std::string(twill) + ": registers to shared memory and back, 61 + 16.1 a KB"}},
      {"exchange_cycles_per_kb", {16.1, std::string(twill) + ": registers to shared memory and back, 61 + 16.1 a KB"}},
  };
  const Arch base = make_sm100();
  // Facts about a product's end and about its operands, as for sm_100 (sm100.cpp).
  for (const char* fact :
       {"cache_bytes", "memory_bytes_per_cycle", "tile_turn_cycles", "fragment_store_cycles", "next_launch_cycles"})
    facts[fact] = base.facts.at(fact);
  facts["cluster_start_cycles"] = {480, "estimate: as measured on an H200, see sm90a.cpp"};
  return facts;
}

}  // namespace

Arch make_sm100a() {
  Arch a;
  a.name = "sm_100a";
  a.vendor = "nvidia";
  a.family = "sm100";
  a.primitives = "sm100";
  a.compiler = "nvrtc";
  a.device_major = 10;
  a.device_minor = 0;
  // TC matrix unit, EXP special functions, ALU arithmetic pipes, TMA copy engine, TMEM the path between tensor memory
  // and registers.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"TMA", 1}, {"TMEM", 1}};
  a.facts = facts_of_sm100a();
  a.smem_per_block_bytes = 227 * 1024;     // Blackwell Tuning Guide
  a.smem_per_sm_bytes = 228 * 1024;        // Blackwell Tuning Guide
  a.smem_reserved_bytes = 1024;            // Blackwell Tuning Guide: 1 KB of each block is the system's
  a.memory_bytes["TMEM"] = 512 * 128 * 4;  // PTX ISA, tensor memory: 512 columns of 128 lanes of 32 bits
  a.registers_per_sm = 65536;              // Blackwell Tuning Guide
  a.max_registers_per_thread = 255;        // Blackwell Tuning Guide
  a.register_step = 8;                     // PTX ISA, setmaxnreg
  a.register_roles = true;                 // PTX ISA, setmaxnreg: sm_100a is a target
  a.max_cluster = 8;                       // CUDA C++ Programming Guide, thread block clusters: the portable size
  a.overlapped_launch = true;              // PTX ISA, griddepcontrol: sm_90 and later
  a.sm_count = 148;                        // B200, CUDA device properties
  a.clock_ghz =
      1.85;  // estimate: 2.25 PFLOP/s dense f16 (NVIDIA Blackwell datasheet) / 148 SMs / 8192; predictions only
  return a;
}

Arch make_sm103a() {
  Arch a = make_sm100a();
  a.name = "sm_103a";
  a.device_minor = 3;
  a.facts["exp2_per_cycle"] = {
      32, "NVIDIA technical blog, Inside NVIDIA Blackwell Ultra: twice the exponentials of Blackwell, which makes 16"};
  return a;
}

}  // namespace tj::arch
