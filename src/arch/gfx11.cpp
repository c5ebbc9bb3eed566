// gfx11: AMD RDNA 3 and 3.5, Radeon RX 7000, Radeon 700M, 800M and 8000S. Data only; nothing here was measured by this
// project.
//
// An SM is a compute unit: kernels are compiled for CU mode. A block then stays in one compute unit of a work-group
// processor's two.
#include "arch/arch.hpp"

namespace tj::arch {
namespace {

constexpr std::int64_t kLanes = 32,
                       kSimds = 2;  // of a wave and of a compute unit: RDNA 3 ISA reference guide, "Introduction"

/// Facts that all of them share.
Arch gfx11(const char* name) {
  const char* wmma =
      "AMD GPUOpen, 'How to accelerate AI applications on RDNA 3 using WMMA': 512 f16 and bf16 flop a clock and "
      "compute unit";
  const char* lanes =
      "AMD RDNA 3 ISA reference guide: two SIMDs of 32 lanes in a compute unit; that two f32 operations may share an "
      "instruction is not counted";
  const char* transcendental =
      "AMD RDNA architecture whitepaper: a quarter of the rate of f32 for transcendental functions";
  const char* guess = "estimate: nobody here has run it";
  Arch a;
  a.name = name;
  a.vendor = "amd";
  a.family = "amd";
  a.primitives = "gfx11";
  a.compiler = "hiprtc";
  a.device_names = {name};
  // TC matrix instructions, which run on the lanes that do arithmetic and hold their wave; EXP transcendental
  // functions, ALU arithmetic, LSU shared memory (LDS).
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"LSU", 1}};
  a.facts = {
      {"matrix_flops_per_cycle", {512, wmma}},
      {"matrix_issue_cycles", {32, "the same page: 16 x 16 x 16 x 2 flop at 256 a clock and SIMD"}},
      {"matrix_group_cycles", {40, guess}},
      {"matrix_lane_share", {1, "the same page: a matrix instruction runs on the lanes that do arithmetic"}},
      {"operand_copies", {2, "AMD RDNA 3 ISA reference guide, WMMA: both halves of a wave hold all of an operand"}},
      {"exp2_per_cycle", {16, transcendental}},
      {"f32_per_cycle", {64, lanes}},
      {"minmax_per_cycle", {64, lanes}},
      {"convert_per_cycle", {21, "estimate: two roundings and one instruction that joins them, at the rate of f32"}},
      {"shared_bytes_per_cycle",
       {128,
        "AMD RDNA 3 ISA reference guide, LDS: 64 banks of 32 bits in a work-group processor, half of them for each "
        "compute unit"}},
      {"thread_copy_latency_cycles", {500, guess}},
      {"thread_copy_cycles_per_kb", {16, "estimate: 64 bytes a clock from L2 into a compute unit"}},
      {"tile_turn_cycles", {930, guess}},
      {"fragment_store_cycles", {21, guess}},
      {"next_launch_cycles", {5400, guess}},
      {"operand_registers",
       {48, "estimate: pieces of 64 x 64 of two operands, each held twice, in fragments of 8 registers"}},
  };
  a.smem_per_block_bytes = 64 * 1024;  // AMD RDNA 3 ISA reference guide, LDS: 64 KB for a work-group
  a.smem_per_sm_bytes =
      64 * 1024;  // the same guide: 128 KB in a work-group processor, a half for each compute unit in CU mode
  a.smem_reserved_bytes = 0;
  a.registers_per_sm = 1024 * kLanes * kSimds;  // LLVM, user guide of the AMDGPU backend, processors: 1024 vector
                                                // registers of a SIMD unless it says more
  a.max_registers_per_thread = 256;             // the same ISA guide: v0 to v255
  a.register_step = 16;                         // LLVM, AMDGPUBaseInfo, granule of vector registers for waves of 32
  a.shared_barriers = false;                    // the same ISA guide: S_BARRIER, for a whole work-group
  a.warp_size = 32;
  a.warps_per_group = 1;
  return a;
}

/// 1536 vector registers of a SIMD in place of 1024, given out in steps of 24: LLVM, Feature1_5xVGPRs of gfx1100,
/// gfx1101 and gfx1151.
Arch large(Arch a) {
  a.registers_per_sm = 1536 * kLanes * kSimds;
  a.register_step = 24;
  return a;
}

Arch product(Arch a, const char* source, int compute_units, double ghz, double gigabytes_per_second,
             double cache_megabytes) {
  a.facts["memory_bytes_per_cycle"] = {gigabytes_per_second / ghz, source};
  a.facts["cache_bytes"] = {cache_megabytes * 1024 * 1024, source};
  a.sm_count = compute_units;
  a.clock_ghz = ghz;  // boost; predictions only
  return a;
}

}  // namespace

Arch make_gfx1100() {
  return product(large(gfx11("gfx1100")),
                 "AMD Radeon RX 7900 XTX, product specifications: 96 compute units, 2.5 GHz boost, 960 GB/s, 96 MB of "
                 "Infinity Cache",
                 96, 2.5, 960, 96);
}
Arch make_gfx1101() {
  return product(large(gfx11("gfx1101")),
                 "AMD Radeon RX 7800 XT, product specifications: 60 compute units, 2.43 GHz boost, 624 GB/s, 64 MB of "
                 "Infinity Cache",
                 60, 2.43, 624, 64);
}
Arch make_gfx1102() {
  return product(gfx11("gfx1102"),
                 "AMD Radeon RX 7600, product specifications: 32 compute units, 2.655 GHz boost, 288 GB/s, 32 MB of "
                 "Infinity Cache",
                 32, 2.655, 288, 32);
}
Arch make_gfx1103() {
  return product(gfx11("gfx1103"),
                 "AMD Ryzen 7 8700G (Radeon 780M), product specifications: 12 compute units, 2.9 GHz, two channels of "
                 "DDR5-5200; 2 MB of L2 are an estimate",
                 12, 2.9, 83.2, 2);
}
Arch make_gfx1150() {
  return product(gfx11("gfx1150"),
                 "AMD Ryzen AI 9 HX 370 (Radeon 890M), product specifications: 16 compute units, 2.9 GHz, LPDDR5X-8000 "
                 "of 128 bits; 2 MB of L2 are an estimate",
                 16, 2.9, 128, 2);
}
Arch make_gfx1151() {
  return product(large(gfx11("gfx1151")),
                 "AMD Ryzen AI Max+ 395 (Radeon 8060S), product specifications: 40 compute units, 2.9 GHz, "
                 "LPDDR5X-8000 of 256 bits; 32 MB of memory-side cache",
                 40, 2.9, 256, 32);
}

}  // namespace tj::arch
