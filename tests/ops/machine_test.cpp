// An arch as a machine: everything that a schedule is held against comes from the arch, nothing is added.
#include <doctest/doctest.h>

#include "arch/arch.hpp"
#include "ops/machine.hpp"

using namespace tj;

TEST_CASE("every arch is a machine with its own units, memory and registers") {
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    const graph::Machine machine = ops::machine_of(*arch);
    CHECK(machine.name == arch->name);
    REQUIRE(machine.units.size() == arch->units.size());
    for (std::size_t u = 0; u < machine.units.size(); ++u) {
      CHECK(machine.units[u].name == arch->units[u].name);
      CHECK(machine.units[u].capacity == arch->units[u].capacity);
    }
    CHECK(machine.memory_bytes.at("SMEM") == arch->smem_per_block_bytes);
    CHECK(machine.memory_bytes.size() == arch->memory_bytes.size() + 1);
    CHECK(machine.registers == arch->registers_per_sm);
    CHECK(machine.max_registers_per_thread == arch->max_registers_per_thread);
    CHECK(machine.register_step == arch->register_step);
    CHECK(machine.register_roles == arch->register_roles);
    CHECK(machine.warps_per_group == arch->warps_per_group);
    CHECK(machine.warp_size == arch->warp_size);
  }
}
