// sm_90 without its suffix: the same chips as sm_90a (H100, H200), by the instructions that every later GPU has. Data only; what the
// instructions do not change is sm_90a's.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_sm90a();

Arch make_sm90() {
  const Arch chip = make_sm90a();
  Arch a = chip;
  a.name = "sm_90";
  a.family = "sm80";
  a.primitives = "sm80_tma";
  // TC matrix unit, whose instructions hold their warp; EXP special functions, ALU arithmetic pipes, LSU shared memory, TMA copy engine.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"LSU", 1}, {"TMA", 1}};
  a.facts.clear();
  for (const char* kept : {"exp2_per_cycle", "f32_per_cycle", "minmax_per_cycle", "convert_per_cycle", "copy_latency_cycles", "copy_cycles_per_kb", "copy_outside_row_cycles",
                           "unaligned_copy_bytes_per_cycle", "sustained_copy_bytes_per_cycle", "cache_bytes", "memory_bytes_per_cycle",
                           "tile_turn_cycles", "fragment_store_cycles", "next_launch_cycles"})
    a.facts[kept] = chip.facts.at(kept);
  a.facts["matrix_flops_per_cycle"] = {2576, "estimate, until tests/gpu/warp_cycles.py has run: Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking (arXiv 2402.13499): mma "
                                             "reaches 62.9% of the peak on average, which is 4096"};
  a.facts["shared_bytes_per_cycle"] = {128, "CUDA C++ Programming Guide 13.0, shared memory: 32 banks of 32 bits a clock"};
  a.max_registers_per_thread = 255;  // CUDA C++ Programming Guide 13.0, technical specifications, compute capability 9.0
  a.register_roles = false;          // PTX ISA, setmaxnreg: not without the suffix
  return a;
}

}  // namespace tj::arch
