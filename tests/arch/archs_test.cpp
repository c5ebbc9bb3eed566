// Protects the data of the archs. Every number has a source, every arch is a machine. An op without node bodies for a
// family is refused by that, with the archs where it runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/templates.hpp"
#include "ops/common/machine.hpp"
#include "ops/op.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::has;

namespace {

/// The arch that serves a device which runs the arch's code.
const arch::Arch* serving(const arch::Arch& arch) {
  return arch.device_names.empty() ? arch::for_device(arch.vendor, arch.device_major, arch.device_minor)
                                   : arch::for_device(arch.vendor, arch.device_names.front());
}

}  // namespace

TEST_CASE("archs differ in name and device, and name where each of their numbers is from") {
  std::set<std::string> names;
  std::set<std::tuple<int, int, std::vector<std::string>, std::string>>
      devices;  // where two are for a device, they are of two families
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    CHECK(names.insert(arch->name).second);
    CHECK(devices.insert({arch->device_major, arch->device_minor, arch->device_names, arch->family}).second);
    REQUIRE(serving(*arch) != nullptr);
    CHECK(arch::same_devices(*serving(*arch), *arch));
    for (const auto& named : arch->facts) {  // no structured binding: clang 14 captures none in CAPTURE
      CAPTURE(named.first);
      CHECK(named.second.value > 0);
      CHECK(named.second.source.size() > 20);
    }
    CHECK(arch->smem_per_block_bytes > 0);
    CHECK(arch->smem_per_sm_bytes >= arch->smem_per_block_bytes + arch->smem_reserved_bytes);
    CHECK(arch->registers_per_sm % (arch->warps_per_group * arch->warp_size) == 0);
    for (const auto& [space, bytes] : arch->memory_bytes) CHECK(ops::machine_of(*arch).memory_bytes.at(space) == bytes);
  }
}

TEST_CASE("every NVIDIA device from 8.0 on that has an arch is served by the one meant for it, and Turing by none") {
  const auto served = [](int major, int minor) -> std::string {
    const arch::Arch* found = arch::for_device("nvidia", major, minor);
    return found == nullptr ? "none" : found->name;
  };
  CHECK(served(8, 0) == "sm_80");
  CHECK(served(8, 6) == "sm_86");
  CHECK(served(8, 7) == "sm_80");  // Orin, which has no arch of its own
  CHECK(served(8, 8) == "sm_86");
  CHECK(served(8, 9) == "sm_89");
  CHECK(served(9, 0) == "sm_90a");   // before sm_90, which is for the same device
  CHECK(served(10, 0) == "sm_100");  // before sm_100a, whose node bodies never ran on one
  CHECK(served(10, 3) == "sm_103");
  CHECK(served(11, 0) == "sm_110");
  CHECK(served(12, 0) == "sm_120a");
  CHECK(served(12, 1) == "sm_121a");
  CHECK(served(7, 5) == "none");
  CHECK(arch::for_device("amd", 8, 0) == nullptr);
}

TEST_CASE("what serves a device has primitives") {
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    const std::string file = "arch/" + serving(*arch)->primitives + ".cuh";
    const auto templates = codegen::templates();
    CHECK(std::any_of(templates.begin(), templates.end(), [&](const auto& each) { return each.name == file; }));
  }
}

TEST_CASE("a device that goes by a name is served whatever features follow it, and by no number") {
  for (const char* name : {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1200", "gfx1201",
                           "gfx90a", "gfx942", "gfx950"}) {
    CAPTURE(name);
    REQUIRE(arch::find(name) != nullptr);
    CHECK(arch::for_device("amd", name) == arch::find(name));
    CHECK(arch::for_device("amd", std::string(name) + ":sramecc+:xnack-") == arch::find(name));
    CHECK(arch::for_device("amd", std::string(name) + "0") == nullptr);
    CHECK(arch::for_device("nvidia", name) == nullptr);
    CHECK(arch::for_device("amd", arch::find(name)->device_major, arch::find(name)->device_minor) == nullptr);
    CHECK(arch::same_devices(*arch::find(name), *arch::find("gfx1100")) == (std::string(name) == "gfx1100"));
  }
  for (const char* name : {"gfx906:sramecc+", "gfx1030", "gfx1300", "", ":xnack-"})
    CHECK(arch::for_device("amd", name) == nullptr);
  const std::string why = arch::why_unserved("amd", "gfx906:sramecc+:xnack-");
  CHECK(has(why, "'gfx906'"));
  CHECK(
      has(why,
          "served are gfx1100, gfx1101, gfx1102, gfx1103, gfx1150, gfx1151, gfx1200, gfx1201, gfx90a, gfx942, gfx950"));
  CHECK(has(arch::why_unserved("amd", 11, 0), "'amd'"));
  CHECK(has(arch::why_unserved("nobody", "gfx906"), "'nobody'"));
  CHECK_FALSE(has(arch::why_unserved("nvidia", 7, 5), " 0.0"));
}

TEST_CASE(
    "what AMD's archs have and lack: waves, registers, LDS, one barrier, nothing that moves or copies by itself") {
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    CHECK((arch->vendor == "amd") == (arch->family == "amd"));
    CHECK(arch->shared_barriers == (arch->vendor != "amd"));
    if (arch->vendor != "amd") continue;
    CHECK(arch->compiler == "hiprtc");
    CHECK(arch->warp_size == (arch->primitives.starts_with("gfx9") ? 64 : 32));
    CHECK(arch->smem_per_block_bytes == (arch->name == "gfx950" ? 160 : 64) * 1024);
    CHECK(arch->max_registers_per_thread == (arch->primitives.starts_with("gfx9") ? 512 : 256));
    CHECK_FALSE(arch->register_roles);
    CHECK_FALSE(arch->has_unit("TMA"));
    CHECK_FALSE(arch->overlapped_launch);
    CHECK(arch->max_cluster == 1);
    CHECK(&arch::parse_arch(arch->name + "+smem=32K") != arch);
    CHECK(&arch::parse_arch(arch->name + "+copies=threads") == arch);
  }
}

TEST_CASE("a device that nothing serves is told why, and what is served") {
  const std::string all = "served are 8.0, 8.6, 8.7, 8.8, 8.9, 9.0, 10.0, 10.3, 11.0, 12.0, 12.1";
  for (const auto& device : {std::pair{7, 5}, std::pair{6, 1}}) {
    const std::string why = arch::why_unserved("nvidia", device.first, device.second);
    CAPTURE(why);
    CHECK(has(why, "is older than 8.0, the least that kernels here need"));
    CHECK(has(why, all));
  }
  for (const auto& device : {std::pair{12, 5}, std::pair{13, 0}, std::pair{9, 9}}) {
    const std::string why = arch::why_unserved("nvidia", device.first, device.second);
    CAPTURE(why);
    CHECK(has(why, "compute capability " + std::to_string(device.first) + "." + std::to_string(device.second) +
                       " is not known to this version"));
    CHECK(has(why, all));
  }
  CHECK(has(arch::why_unserved("nobody", 9, 0), "'nobody'"));
}

TEST_CASE("what a generation lacks is said: copy engine, clusters, grids that overlap, registers that move") {
  for (const char* name : {"sm_80", "sm_86", "sm_89"}) {
    const arch::Arch& arch = *arch::find(name);
    CAPTURE(arch.name);
    CHECK(arch.primitives == "sm80");
    CHECK_FALSE(arch.has_unit("TMA"));
    CHECK(arch.max_cluster == 1);
    CHECK_FALSE(arch.overlapped_launch);
    CHECK_FALSE(arch.register_roles);
  }
  for (const char* name : {"sm_90", "sm_100", "sm_103", "sm_110", "sm_120a", "sm_121a"}) {
    const arch::Arch& arch = *arch::find(name);
    CAPTURE(arch.name);
    CHECK(arch.primitives == "sm80_tma");
    CHECK(arch.has_unit("TMA"));
    CHECK(arch.overlapped_launch);
  }
  for (const char* name : {"sm_90", "sm_100", "sm_103", "sm_110"})
    CHECK_FALSE(arch::find(name)->register_roles);                    // not without a suffix
  CHECK_FALSE(arch::find("sm_90")->has_fact("matrix_drain_cycles"));  // products of warps leave nothing to drain
}

TEST_CASE("tensor memory is where tcgen05 is") {
  CHECK(ops::machine_of(*arch::find("sm_100a")).memory_bytes.at("TMEM") == 256 * 1024);
  for (const char* name : {"sm_90a", "sm_120a", "sm_80"})
    CHECK(ops::machine_of(*arch::find(name)).memory_bytes.count("TMEM") == 0);
}

/// quantise() has one text for all families: the arch must have products of 8 bits.
constexpr const char* kEightBits = "matrix_flops_per_cycle_8bit";

TEST_CASE("an op without node bodies for a family is refused, naming the family and where the op runs") {
  // Ops that run on these families as well.
  const std::map<std::string_view, std::set<std::string_view>> served = {
      {"sm80",
       {"fmha", "gemm", "chunk_o", "copy_rows", "sum_parts", "merge_states", "combine", "chunk_indices", "chunk_cumsum",
        "chunk_wu", "gated_delta_rule", "grouped_gemm"}},
      {"sm100",
       {"fmha", "gemm", "chunk_o", "copy_rows", "sum_parts", "merge_states", "combine", "chunk_indices", "chunk_cumsum",
        "chunk_wu", "gated_delta_rule", "grouped_gemm"}}};
  for (const char* name : {"sm_100a", "sm_120a", "sm_121a", "sm_90", "sm_89", "sm_86", "sm_80"}) {
    const arch::Arch& arch = *arch::find(name);
    for (const ops::Op* op : ops::all()) {
      CAPTURE(op->name());
      if (const auto family = served.find(arch.family);
          family != served.end() && family->second.count(op->name()) > 0) {
        CHECK_FALSE(op->candidates(op->requests({}).front(), arch).empty());
        continue;
      }
      const auto requests = op->requests({});
      REQUIRE(!requests.empty());
      const bool by_type = op->name() == "quantise";
      if (by_type && arch.has_fact(kEightBits)) {
        CHECK_FALSE(op->candidates(requests.front(), arch).empty());
        continue;
      }
      std::string message;
      try {
        op->candidates(requests.front(), arch);
      } catch (const Error& e) {
        CHECK(e.stage == Stage::target);
        CHECK(e.code == Code::unsupported);
        message = e.message;
      }
      CHECK(has(message, std::string("'") + name + "'"));
      CHECK(has(message, by_type ? std::string(kEightBits) : "node bodies for family '" + arch.family + "'"));
      CHECK(has(message,
                "it runs on sm_90a, model:sm_90a"));  // and further ones, where some of the others have node bodies
      CHECK(has(message, "; the same devices run it with TJ_TARGET=sm_90a, the CPU with model:sm_90a; ") ==
            (arch.name == "sm_90"));
    }
  }
}

TEST_CASE("every op runs on an arch of AMD or refuses it by its name and family") {
  for (const arch::Arch* arch : arch::all()) {
    if (arch->vendor != "amd") continue;
    CAPTURE(arch->name);
    for (const ops::Op* op : ops::all()) {
      CAPTURE(op->name());
      try {
        for (const ops::Candidate& candidate : op->candidates(op->requests({}).front(), *arch))
          CHECK(candidate.graph.machine.name == arch->name);
      } catch (const Error& e) {
        CHECK(e.code == Code::unsupported);
        if (e.stage == Stage::argument) {  // the op does, with other arguments
          CHECK_MESSAGE(has(e.message, "allowed on " + arch->name + ": "), e.message);
          continue;
        }
        CHECK(e.stage == Stage::target);
        CHECK_MESSAGE(has(e.message, "does not run on '" + arch->name + "'"), e.message);
        CHECK_MESSAGE(has(e.message, op->name() == "quantise" ? kEightBits : "node bodies for family 'amd'"),
                      e.message);
      }
    }
  }
}
