// sm_90 without its suffix: the same chips as sm_90a (H100, H200), by the instructions that every later GPU has. Data
// only; sm_90a has what the instructions do not change.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_sm90a();

Arch make_sm90() {
  const Arch chip = make_sm90a();
  Arch a = chip;
  a.name = "sm_90";
  a.family = "sm80";
  a.primitives = "sm80_tma";
  // TC matrix unit, whose instructions hold their warp; EXP special functions, ALU arithmetic pipes, LSU shared memory,
  // TMA copy engine.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"LSU", 1}, {"TMA", 1}};
  a.facts.clear();
  for (const char* kept :
       {"exp2_per_cycle", "f32_per_cycle", "minmax_per_cycle", "convert_per_cycle", "copy_latency_cycles",
        "copy_cycles_per_kb", "unaligned_copy_bytes_per_cycle", "sustained_copy_bytes_per_cycle", "cache_bytes",
        "memory_bytes_per_cycle", "link_bytes_per_cycle", "link_latency_cycles"})
    a.facts[kept] = chip.facts.at(kept);
  const std::string replays =
      "graph replays as in tests/gpu/gemm_speed.py, target sm_90a, tile set by hand, H200, 2026-11-21, at 1.755 GHz";
  a.facts["copy_outside_row_cycles"] = {
      7, replays + ": 16 and 1 x 4096 x 4096 less 64 rows, tiles of 64 x 32, 128 bytes: 7.5 and 7.0"};
  a.facts["tile_turn_cycles"] = {
      930, replays + ": four waves of tiles less one, at K 0 by K 512 and 2048; eight tiles, their line at 0 sums"};
  a.facts["next_launch_cycles"] = {5570,
                                   "a call's second launch and its scratch memory, 3.1 us: fit of 191 sizes of "
                                   "sm_90a, H200, 2026-11-26"};
  a.facts["fragment_store_cycles"] = {21, replays + ": slope of that line"};
  const std::string measured = "tests/gpu/warp_cycles.py on an H200, 2026-11-21";
  a.facts["matrix_flops_per_cycle"] = {2709, measured +
                                                 " with --rate: 8 and 16 warps an SM with tiles of 64 x 32, 2709; 12, "
                                                 "2668; 4, 2587; tiles of 64 x 64, 2654 to 2716"};
  a.facts["shared_bytes_per_cycle"] = {
      124, measured + ": load and load transposed, 8 and 16 warps, 123.7 to 124.0; the banks have 128"};
  a.facts["thread_copy_latency_cycles"] = {350, measured +
                                                    ": copies of 2 to 32 KB by 128 threads from L2 and their barrier, "
                                                    "375 to 702 cycles, by the line through them"};
  a.facts["thread_copy_cycles_per_kb"] = {10.8, measured + ": slope of that line, where all SMs copy"};
  a.facts["matrix_group_cycles"] = {70,
                                    "tests/gpu/compare.py --op gemm --tile on an H200, 2026-11-21: 8192^3, 128x256x64 "
                                    "436 and 128x256x32 417 TFLOP/s, 128x128x64 409 and 128x128x32 384: "
                                    "4.6 and 6.5% more for twice as many iterations of 775 and 794 cycles"};
  a.facts["operand_registers"] = {
      40, "tests/ops/gemm/warps_compile_test.cpp, NVRTC 13.0: pieces of 64 x 64 fit 168 registers"};
  a.max_registers_per_thread =
      255;                   // CUDA C++ Programming Guide 13.0, technical specifications, compute capability 9.0
  a.register_roles = false;  // PTX ISA, setmaxnreg: not without the suffix
  return a;
}

}  // namespace tj::arch
