// gfx12: AMD RDNA 4, Radeon RX 9000. Data only; nothing here was measured by this project.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_gfx1100();

namespace {

/// Facts that are the same as in the generation before come from there.
Arch gfx12(const char* name, const char* source, int compute_units, double ghz, double gigabytes_per_second,
           double cache_megabytes) {
  Arch a = make_gfx1100();
  a.name = name;
  a.primitives = "gfx12";
  a.device_names = {name};
  a.facts["matrix_flops_per_cycle"] = {1024,
                                       "AMD Radeon RX 9070 XT, product specifications: 195 TFLOP/s of f16 by matrices, "
                                       "64 compute units, 2.97 GHz boost"};
  a.facts["matrix_flops_per_cycle_8bit"] = {
      2048,
      "the same specifications: 389 TFLOP/s of FP8 by matrices; AMD RDNA 4 ISA reference guide: FP8 is e4m3 of OCP"};
  a.facts["matrix_issue_cycles"] = {16, "the same specifications: 16 x 16 x 16 x 2 flop at 512 a clock and SIMD"};
  a.facts["operand_copies"] = {1, "AMD RDNA 4 ISA reference guide, WMMA: each element of an operand is in one lane"};
  a.facts["operand_registers"] = {32, "estimate: pieces of 64 x 64 of two operands, in fragments of 4 registers"};
  a.facts["memory_bytes_per_cycle"] = {gigabytes_per_second / ghz, source};
  a.facts["cache_bytes"] = {cache_megabytes * 1024 * 1024, source};
  // 1536 vector registers of a SIMD as on gfx1100: LLVM, Feature1_5xVGPRs. 64 KB of LDS for a work-group: AMD RDNA 4
  // ISA reference guide.
  a.sm_count = compute_units;
  a.clock_ghz = ghz;  // boost; predictions only
  return a;
}

}  // namespace

Arch make_gfx1200() {
  return gfx12("gfx1200",
               "AMD Radeon RX 9060 XT, product specifications: 32 compute units, 3.13 GHz boost, 320 GB/s, 32 MB of "
               "Infinity Cache",
               32, 3.13, 320, 32);
}
Arch make_gfx1201() {
  return gfx12("gfx1201",
               "AMD Radeon RX 9070 XT, product specifications: 64 compute units, 2.97 GHz boost, 640 GB/s, 64 MB of "
               "Infinity Cache",
               64, 2.97, 640, 64);
}

}  // namespace tj::arch
