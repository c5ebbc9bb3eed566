// gfx90a, gfx942, gfx950: AMD CDNA 2, 3 and 4, Instinct MI200, MI300 and MI350. Data only; nothing here was measured by
// this project.
#include "arch/arch.hpp"

namespace tj::arch {
namespace {

constexpr std::int64_t kLanes = 64, kSimds = 4;  // of a wave and of a compute unit: AMD CDNA 2 ISA reference guide

/// Facts that all of them share.
Arch gfx9(const char* name) {
  const char* lanes =
      "AMD CDNA 2 ISA reference guide: four SIMDs of 16 lanes in a compute unit; that two f32 operations may share an "
      "instruction is not counted";
  const char* guess = "estimate: nobody here has run it";
  Arch a;
  a.name = name;
  a.vendor = "amd";
  a.family = "amd";
  a.primitives = "gfx9";
  a.compiler = "hiprtc";
  a.device_names = {name};
  // TC matrix cores, one of each SIMD, which work beside its lanes; EXP transcendental functions, ALU arithmetic, LSU
  // shared memory (LDS).
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"LSU", 1}};
  a.facts = {
      {"matrix_group_cycles", {40, guess}},
      {"operand_copies",
       {1,
        "AMD CDNA 2 ISA reference guide, matrix arithmetic instructions: each element of an operand is in one lane"}},
      {"exp2_per_cycle",
       {16, "AMD CDNA ISA reference guides: transcendental functions take four times as long as f32"}},
      {"f32_per_cycle", {64, lanes}},
      {"minmax_per_cycle", {64, lanes}},
      {"convert_per_cycle", {21, "estimate: two roundings and one instruction that joins them, at the rate of f32"}},
      {"shared_bytes_per_cycle", {128, "AMD CDNA 2 ISA reference guide, LDS: 32 banks of 32 bits"}},
      {"thread_copy_latency_cycles", {700, guess}},
      {"thread_copy_cycles_per_kb", {16, "estimate: 64 bytes a clock from L2 into a compute unit"}},
      {"tile_turn_cycles", {930, guess}},
      {"fragment_store_cycles", {21, guess}},
      {"next_launch_cycles", {5400, guess}},
      {"operand_registers",
       {32, "estimate: pieces of 64 x 64 of two operands, in fragments of 2 registers, several on their way"}},
  };
  a.smem_per_block_bytes = 64 * 1024;  // AMD CDNA 2 and 3 ISA reference guides, LDS: 64 KB a compute unit
  a.smem_per_sm_bytes = 64 * 1024;     // the same guides
  a.smem_reserved_bytes = 0;
  a.registers_per_sm =
      512 * kLanes *
      kSimds;  // AMD CDNA 2 ISA reference guide: 512 vector registers of a SIMD, accumulation registers among them
  a.max_registers_per_thread = 512;  // the same guide: a wave has up to 512, half of them accumulation registers
  a.register_step = 8;               // the same guide: allocated in units of 8
  a.shared_barriers = false;         // the same guide: S_BARRIER, for a whole work-group
  a.warp_size = 64;
  a.warps_per_group = 1;
  return a;
}

}  // namespace

Arch make_gfx90a() {
  const char* source =
      "AMD Instinct MI250X, product specifications: 383 TFLOP/s of f16 and bf16 by matrices, 220 compute units in two "
      "devices, 1.7 GHz, 3.2 TB/s, 8 MB of L2 a device";
  Arch a = gfx9("gfx90a");
  a.facts["matrix_flops_per_cycle"] = {1024, source};
  a.facts["matrix_issue_cycles"] = {32, "the same specifications: 16 x 16 x 16 x 2 flop at 256 a clock and SIMD"};
  a.facts["matrix_flushes_subnormals"] = {1,
                                          "ROCm documentation, MIOpen, 'MI200 matrix fused multiply-add (MFMA) "
                                          "behavior specifics': inputs and outputs of f16 and bf16"};
  a.primitives = "gfx90a";
  a.facts["memory_bytes_per_cycle"] = {963, source};
  a.facts["cache_bytes"] = {8.0 * 1024 * 1024, source};
  a.sm_count = 110;
  a.clock_ghz = 1.7;  // peak; predictions only
  return a;
}

Arch make_gfx942() {
  const char* source =
      "AMD Instinct MI300X, product specifications: 1307 TFLOP/s of f16 and bf16 by matrices, 304 compute units, 2.1 "
      "GHz, 5.3 TB/s, 256 MB of Infinity Cache";
  Arch a = gfx9("gfx942");
  const char* narrow =
      "AMD CDNA 3 ISA reference guide, data formats: FP8 and BF8 have a NaN in the place of -0 and no infinity";
  a.facts["matrix_flops_per_cycle"] = {2048, source};
  a.facts["other_8bit_bias"] = {8, narrow};
  a.facts["other_8bit_largest"] = {240, narrow};
  a.facts["matrix_issue_cycles"] = {16, "the same specifications: 16 x 16 x 16 x 2 flop at 512 a clock and SIMD"};
  a.facts["memory_bytes_per_cycle"] = {2524, source};
  a.facts["cache_bytes"] = {256.0 * 1024 * 1024, source};
  a.sm_count = 304;
  a.clock_ghz = 2.1;  // peak; predictions only
  return a;
}

Arch make_gfx950() {
  const char* source =
      "AMD Instinct MI355X, product specifications: 2.5 PFLOP/s of f16 and bf16 by matrices, 256 compute units, 2.4 "
      "GHz, 8 TB/s, 256 MB of Infinity Cache";
  Arch a = gfx9("gfx950");
  a.facts["matrix_flops_per_cycle"] = {2048,
                                       "half of what the specifications of MI355X say, as the primitives here multiply "
                                       "16 of K at once, not 32: 1024 flop a clock and SIMD with the latter"};
  a.facts["matrix_issue_cycles"] = {16, "as gfx942, whose instruction it is"};
  a.facts["memory_bytes_per_cycle"] = {3333, source};
  a.facts["cache_bytes"] = {256.0 * 1024 * 1024, source};
  a.smem_per_block_bytes = 160 * 1024;  // AMD CDNA 4 architecture whitepaper: 160 KB of LDS
  a.smem_per_sm_bytes = 160 * 1024;     // the same whitepaper
  a.sm_count = 256;
  a.clock_ghz = 2.4;  // peak; predictions only
  return a;
}

}  // namespace tj::arch
