// Arch -> Machine (see machine.hpp).
#include "ops/common/machine.hpp"

#include <cmath>

#include "arch/fact_file.hpp"
#include "arch/options.hpp"
#include "graph/json_fields.hpp"
#include "graph/json_machine.hpp"
#include "graph/json_reader.hpp"
#include "support/fail.hpp"

namespace tj::ops {

graph::Machine machine_of(const arch::Arch& arch, int blocks_per_sm) {
  graph::Machine machine;
  machine.name = arch.name;
  for (const arch::Unit& unit : arch.units) machine.units.push_back({unit.name, unit.capacity});
  machine.memory_bytes = arch.memory_bytes;
  machine.memory_bytes["SMEM"] = arch.smem_per_block_bytes;
  machine.smem_per_sm_bytes = arch.smem_per_sm_bytes;
  machine.smem_reserved_bytes = arch.smem_reserved_bytes;
  machine.warps_per_group = arch.warps_per_group;
  machine.warp_size = arch.warp_size;
  machine.registers = arch.registers_per_sm;
  machine.max_registers_per_thread = arch.max_registers_per_thread;
  machine.register_step = arch.register_step;
  machine.register_roles = arch.register_roles;
  machine.overlapped_launch = arch.overlapped_launch;
  machine.shared_barriers = arch.shared_barriers;
  machine.max_cluster = arch.max_cluster;
  return graph::share_of(machine, blocks_per_sm);
}

namespace {

std::vector<graph::Machine> all_machines() {
  std::vector<graph::Machine> machines;
  for (const arch::Arch* each : arch::all()) machines.push_back(machine_of(*each));
  return machines;
}

std::optional<graph::Machine> with_options(const std::string& machine) {
  if (!arch::has_options(machine)) return std::nullopt;
  return machine_of(arch::parse_arch(machine));
}

}  // namespace

graph::Graph read_graph(std::string_view text, std::string_view name) {
  return graph::read_json(text, name, all_machines(), with_options);
}

void need_machine(const graph::Fields& fields, const std::string& place, const std::string& name) {
  graph::find_machine(fields, place, name, all_machines(), with_options);
}

std::string write_graph(const graph::Graph& graph) {
  std::vector<graph::Machine> machines = all_machines();
  if (const arch::Arch* own = arch::find(graph.machine.name)) machines.push_back(machine_of(*own));  // with options
  return graph::to_json(graph, machines);
}

const arch::Arch* arch_named(std::string_view machine) {
  try {
    return &arch::parse_arch(machine);
  } catch (const Error&) {
    return nullptr;
  }
}

bool is_machine_of(std::string_view machine, const arch::Arch& arch) {
  return machine == arch.name || machine == arch::shipped_name(arch);
}

std::int64_t least_smem_for(const arch::Arch& arch, int blocks) {
  constexpr std::int64_t kSmemStep = 128;  // in which an SM gives it out
  const arch::Arch* whole = arch.base.empty() ? &arch : arch::find(arch.base);
  const arch::Arch& chip = whole == nullptr ? arch : *whole;
  return (chip.smem_per_sm_bytes / (blocks + 1) - chip.smem_reserved_bytes) / kSmemStep * kSmemStep + kSmemStep;
}

int cycles(double value) { return static_cast<int>(std::ceil(value)); }

std::vector<std::string> matrix_widths(std::initializer_list<int> widths) {
  std::vector<std::string> definitions = {"TJ_MATRIX_WIDTHS"};
  for (const int width : widths) definitions.push_back("TJ_MATRIX_WIDTH_" + std::to_string(width));
  return definitions;
}

}  // namespace tj::ops
