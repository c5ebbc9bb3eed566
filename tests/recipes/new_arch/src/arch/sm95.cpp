// sm_95z: an architecture that does not exist, for the test of the recipe. Data only.
#include "arch/arch.hpp"

namespace tj::arch {

Arch make_sm95z() {
  const char* invented = "invented for the test of the recipe";
  Arch a;
  a.name = "sm_95z";
  a.vendor = "nvidia";
  a.family = "sm90";
  a.primitives = "sm95";
  a.compiler = "nvrtc";
  a.device_major = 9;
  a.device_minor = 5;
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"TMA", 1}};
  a.facts = {
      {"matrix_flops_per_cycle", {8192, invented}}, {"exp2_per_cycle", {32, invented}},
      {"f32_per_cycle", {128, invented}},           {"minmax_per_cycle", {128, invented}},
      {"convert_per_cycle", {64, invented}},        {"matrix_drain_cycles", {60, invented}},
      {"shared_unit_cycles", {50, invented}},       {"matrix_group_cycles", {40, invented}},
      {"copy_latency_cycles", {700, invented}},     {"copy_cycles_per_kb", {10, invented}},
      {"barrier_cycles", {60, invented}},           {"cache_bytes", {8.0 * 1024 * 1024, invented}},
  };
  a.smem_per_block_bytes = 100 * 1024;
  a.registers_per_sm = 65536;
  a.max_registers_per_thread = 240;
  a.register_roles = false;
  a.sm_count = 40;
  a.clock_ghz = 2.0;
  return a;
}

}  // namespace tj::arch
