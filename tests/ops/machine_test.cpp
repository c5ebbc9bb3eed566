// An arch as a machine: everything that a schedule is held against comes from the arch, nothing is added.
#include <doctest/doctest.h>

#include <string>

#include "arch/arch.hpp"
#include "ops/common/machine.hpp"

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
    CHECK(machine.shared_barriers == arch->shared_barriers);
    CHECK(machine.warps_per_group == arch->warps_per_group);
    CHECK(machine.warp_size == arch->warp_size);
  }
}

TEST_CASE("blocks side by side share an SM's memory and registers, and each is held to its own limit") {
  const arch::Arch& arch = *arch::find("sm_120a");
  const graph::Machine two = ops::machine_of(arch, 2), three = ops::machine_of(arch, 3);
  CHECK(two.name == arch.name);
  CHECK(two.memory_bytes.at("SMEM") == 49 * 1024);  // half of 100 KB less the system's 1 KB
  CHECK(two.registers == 32768);
  CHECK(two.units.size() == arch.units.size());
  CHECK(three.memory_bytes.at("SMEM") == 33024);  // 100 KB / 3 - 1 KB, in steps of 128 bytes
  for (const arch::Arch* each : arch::all()) {
    CAPTURE(each->name);
    for (const int blocks : {1, 2, 3, 8, 32}) {
      const graph::Machine share = ops::machine_of(*each, blocks);
      const std::int64_t smem = share.memory_bytes.at("SMEM");
      CHECK(smem > 0);
      CHECK(smem <= each->smem_per_block_bytes);
      CHECK(blocks * (smem + each->smem_reserved_bytes) <= each->smem_per_sm_bytes);
      CHECK(blocks * share.registers <= each->registers_per_sm);
      for (const auto& [space, bytes] : each->memory_bytes) CHECK(blocks * share.memory_bytes.at(space) <= bytes);
    }
  }
}

TEST_CASE("what keeps more blocks off an SM of the chip, with a cap and without") {
  for (const arch::Arch* each : arch::all())
    for (const std::string cap : {"", "+smem=64K"}) {
      const arch::Arch& arch = arch::parse_arch(each->name + cap);
      CAPTURE(arch.name);
      for (const int blocks : {1, 2, 3}) {
        const std::int64_t smem = ops::least_smem_for(arch, blocks);
        CHECK(smem % 128 == 0);
        CHECK(smem <= each->smem_per_block_bytes);
        CHECK(blocks * (smem + each->smem_reserved_bytes) <= each->smem_per_sm_bytes);
        CHECK((blocks + 1) * (smem + each->smem_reserved_bytes) > each->smem_per_sm_bytes);
      }
    }
}
