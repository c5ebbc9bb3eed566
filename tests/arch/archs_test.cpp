// Protects the data of the archs: every number has a source, every one is a machine, and an op without node bodies for a
// family is refused by that, with where it runs.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "ops/machine.hpp"
#include "ops/op.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::has;

TEST_CASE("archs differ in name and device, and name where each of their numbers is from") {
  std::set<std::string> names;
  std::set<std::pair<int, int>> devices;
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    CHECK(names.insert(arch->name).second);
    CHECK(devices.insert({arch->device_major, arch->device_minor}).second);
    CHECK(arch::for_device(arch->vendor, arch->device_major, arch->device_minor) == arch);
    for (const auto& named : arch->facts) {  // no structured binding: clang 14 captures none in CAPTURE
      CAPTURE(named.first);
      CHECK(named.second.value > 0);
      CHECK(named.second.source.size() > 20);
    }
    CHECK(arch->smem_per_block_bytes > 0);
    CHECK(arch->registers_per_sm % (arch->warps_per_group * arch->warp_size) == 0);
    for (const auto& [space, bytes] : arch->memory_bytes) CHECK(ops::machine_of(*arch).memory_bytes.at(space) == bytes);
  }
}

TEST_CASE("tensor memory is where tcgen05 is") {
  CHECK(ops::machine_of(*arch::find("sm_100a")).memory_bytes.at("TMEM") == 256 * 1024);
  for (const char* name : {"sm_90a", "sm_120a"}) CHECK(ops::machine_of(*arch::find(name)).memory_bytes.count("TMEM") == 0);
}

TEST_CASE("an op without node bodies for a family is refused, naming the family and where the op runs") {
  for (const char* name : {"sm_100a", "sm_120a"}) {
    const arch::Arch& arch = *arch::find(name);
    for (const ops::Op* op : ops::all()) {
      CAPTURE(op->name());
      const auto requests = op->requests({});
      REQUIRE(!requests.empty());
      std::string message;
      try {
        op->candidates(requests.front(), arch);
      } catch (const Error& e) {
        CHECK(e.stage == Stage::target);
        CHECK(e.code == Code::unsupported);
        message = e.message;
      }
      CHECK(has(message, std::string("'") + name + "'"));
      CHECK(has(message, "node bodies for family '" + arch.family + "'"));
      CHECK(has(message, "it runs on sm_90a, model:sm_90a"));
    }
  }
}
