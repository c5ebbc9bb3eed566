// sm_120a: NVIDIA Blackwell, GeForce RTX 50 and RTX PRO. Data only; nothing here was measured by this project.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_sm120a() {
  const char* guide = "CUDA C++ Programming Guide 13.0, arithmetic throughput table, compute capability 12.0";
  Arch a;
  a.name = "sm_120a";
  a.vendor = "nvidia";
  a.family = "sm120";
  a.primitives = "sm120";
  a.compiler = "nvrtc";
  a.device_major = 12;
  a.device_minor = 0;
  // TC matrix unit, whose instructions hold their warp; EXP special functions, ALU arithmetic pipes, TMA copy engine.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"TMA", 1}};
  a.facts = {
      {"matrix_flops_per_cycle",
       {512, "NVIDIA RTX Blackwell GPU Architecture whitepaper: RTX 5090, 209.5 TFLOP/s dense f16 with f32 sums, 170 SMs, 2.407 GHz"}},
      {"exp2_per_cycle", {16, guide}},
      {"f32_per_cycle", {128, guide}},
      {"minmax_per_cycle", {64, guide}},
  };
  a.smem_per_block_bytes = 99 * 1024;  // CUDA C++ Programming Guide 13.0, technical specifications, compute capability 12.0
  a.registers_per_sm = 65536;          // the same table
  a.max_registers_per_thread = 255;    // the same table
  a.register_step = 8;                 // PTX ISA, setmaxnreg
  a.register_roles = true;             // PTX ISA, setmaxnreg: sm_120a is a target
  a.overlapped_launch = true;  // PTX ISA, griddepcontrol: sm_90 and later
  a.sm_count = 170;                    // the whitepaper above
  a.clock_ghz = 2.407;                 // the whitepaper above: boost; predictions only
  return a;
}

}  // namespace tj::arch
