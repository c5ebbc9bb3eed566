// Protects the numbers of every arch: all of them stand a second time in data/facts.txt, so that none changes, and none
// is dropped, unseen. And that what predictions read is there, in the units that src/arch/README.md says.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "support/pinned.hpp"

using namespace tj;

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text.empty() ? "-" : text;
}

/// Two lines: what it is and has, and its facts.
void describe(const arch::Arch& arch, std::vector<std::string>& lines) {
  std::vector<std::string> units, devices, memory;
  for (const arch::Unit& unit : arch.units) units.push_back(unit.name + ":" + std::to_string(unit.capacity));
  for (const auto& [major, minor] : arch.further_devices)
    devices.push_back(std::to_string(major) + "." + std::to_string(minor));
  for (const auto& [space, bytes] : arch.memory_bytes) memory.push_back(space + ":" + std::to_string(bytes));
  std::ostringstream has, facts;
  has << arch.name << ' ' << arch.vendor << ' ' << arch.family << ' ' << arch.primitives << ' ' << arch.compiler
      << " device " << arch.device_major << '.' << arch.device_minor << ' ' << joined(devices) << ' '
      << joined(arch.device_names) << " units " << joined(units) << " smem " << arch.smem_per_block_bytes << ' '
      << arch.smem_per_sm_bytes << ' ' << arch.smem_reserved_bytes << " memory " << joined(memory) << " registers "
      << arch.registers_per_sm << ' ' << arch.max_registers_per_thread << ' ' << arch.register_step << " moves "
      << arch.register_roles << " overlaps " << arch.overlapped_launch << " barriers " << arch.shared_barriers
      << " cluster " << arch.max_cluster << " warp " << arch.warp_size << ' ' << arch.warps_per_group << " sms "
      << arch.sm_count << " ghz " << arch.clock_ghz;
  facts << arch.name;
  facts.precision(8);
  for (const auto& [name, fact] : arch.facts) facts << ' ' << name << '=' << fact.value;
  lines.push_back(has.str());
  lines.push_back(facts.str());
}

}  // namespace

TEST_CASE("every number of every arch is the one that is pinned") {
  std::vector<std::string> lines;
  for (const arch::Arch* arch : arch::all()) describe(*arch, lines);
  testing::check_pinned("tests/arch/data/facts.txt", lines);
}

TEST_CASE("what predictions read is there, and of the size that such a product has") {
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    CHECK(arch->sm_count >= 8);
    CHECK(arch->sm_count <= 400);
    CHECK(arch->clock_ghz > 1);
    CHECK(arch->clock_ghz < 3.5);
    const double hertz = arch->clock_ghz * 1e9;
    const double flops = arch->fact("matrix_flops_per_cycle") * arch->sm_count * hertz,
                 bytes = arch->fact("memory_bytes_per_cycle") * hertz;
    CHECK(flops > 10e12);   // an integrated processor's graphics
    CHECK(flops < 2.6e15);  // B200 and MI355X
    CHECK(bytes > 50e9);
    CHECK(bytes < 8.1e12);
    CHECK(arch->fact("cache_bytes") >= 2.0 * 1024 * 1024);
    CHECK(std::fmod(arch->fact("cache_bytes"), 1024.0 * 512) == 0);
  }
}

TEST_CASE("peaks are those of the products' pages") {
  struct Product {
    const char* arch;
    double teraflops, gigabytes_per_second;  ///< dense f16 with f32 sums; of device memory
    double share;                            ///< what an arch may be below: where a measurement stands for the peak
  };
  // H100 and H200 pages, B200 datasheet, A100, RTX 3090 and 4090 whitepapers, RTX 5090 whitepaper; MI250X (one of two),
  // MI300X, RX 7900 XTX, RX 9070 XT.
  const Product products[] = {{"sm_90a", 989.4, 4800, 0.13}, {"sm_100a", 2250, 8000, 0.1},
                              {"sm_80", 312, 1555, 0.35},    {"sm_86", 71, 936, 0.05},
                              {"sm_89", 165.2, 1008, 0.03},  {"sm_120a", 209.5, 1792, 0.03},
                              {"gfx90a", 191.5, 1638, 0.03}, {"gfx942", 1307, 5300, 0.03},
                              {"gfx1100", 122.8, 960, 0.03}, {"gfx1201", 195, 640, 0.03}};
  for (const Product& product : products) {
    CAPTURE(product.arch);
    const arch::Arch& arch = *arch::find(product.arch);
    const double teraflops = arch.fact("matrix_flops_per_cycle") * arch.sm_count * arch.clock_ghz / 1e3,
                 gigabytes = arch.fact("memory_bytes_per_cycle") * arch.clock_ghz;
    CHECK(teraflops <= product.teraflops * 1.03);
    CHECK(teraflops >= product.teraflops * (1 - product.share));
    CHECK(gigabytes <= product.gigabytes_per_second * 1.32);
    CHECK(gigabytes >= product.gigabytes_per_second * (1 - product.share));
  }
}
