// sm_90a: NVIDIA Hopper (H100, H200). Data only.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_sm90a() {
  const char* whitepaper = "NVIDIA H100 Tensor Core GPU Architecture whitepaper: 989.4 TFLOP/s dense f16, 132 SMs, 1.83 GHz";
  const char* guide = "CUDA C++ Programming Guide 13.0, arithmetic throughput table, compute capability 9.0";
  const char* public_costs = "public reproduction of 'Optimal Software Pipelining and Warp Specialization' (OSDI 2026), calibrated cycles";
  const std::string measured = "tests/gpu/node_cycles.py on an H200, 2026-11-20";
  Arch a;
  a.name = "sm_90a";
  a.vendor = "nvidia";
  a.family = "sm90";
  a.primitives = "sm90";
  a.compiler = "nvrtc";
  a.device_major = 9;
  a.device_minor = 0;
  // TC matrix unit, EXP special functions, ALU arithmetic pipes, TMA copy engine.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"TMA", 1}};
  a.facts = {
      {"matrix_flops_per_cycle", {4096, whitepaper}},
      {"exp2_per_cycle", {16, guide}},
      {"f32_per_cycle", {128, guide}},
      {"minmax_per_cycle", {64, guide}},
      {"convert_per_cycle", {64, guide}},
      {"matrix_drain_cycles", {90, measured + ": pv alone less its rate, 599 - 512 at D 128 N 128"}},
      {"shared_unit_cycles", {92, measured + ": softmax together less the exponentials of all consumers, 1116 - 1024 at N 128"}},
      {"matrix_group_cycles", {88, measured + ": step less the rate of its 4 groups, 69 to 101 a group at D 128 N 128 to 176"}},
      {"copy_latency_cycles", {460, public_costs}},
      {"copy_cycles_per_kb", {16, "64 bytes a cycle from L2: 'Benchmarking and Dissecting the NVIDIA Hopper GPU Architecture' (2024), L2 throughput"}},
      {"barrier_cycles", {92, "mbarrier one way: " + std::string(public_costs)}},
  };
  a.smem_per_block_bytes = 227 * 1024;  // Hopper Tuning Guide
  a.registers_per_sm = 65536;           // Hopper Tuning Guide
  a.max_registers_per_thread = 240;     // setmaxnreg with a producer group at 24: (65536 / 128 - 24) / 2, down to a multiple of 8
  a.register_step = 8;                  // PTX ISA, setmaxnreg
  a.register_roles = true;
  a.sm_count = 132;
  a.clock_ghz = 1.755;  // H200 product brief, boost clock 1.98 GHz less what its 700 W allow under matrix load; predictions only
  return a;
}

}  // namespace tj::arch
