// Protects what the model says of copies by threads and of a warp's matrices: a device does the same. Runs where sm_90
// code does, by the primitives of sm_90 and later and by those before it, which are instructions of every device.
#include <doctest/doctest.h>

#include <string>

#include "arch/arch.hpp"
#include "model/primitive_unit.hpp"
#include "support/skip.hpp"

namespace {

using tj::testing::PrimitiveUnit;

/// The arch of the first GPU's code, in the family whose products are warps'.
std::string code_arch() {
  std::string reason;
  const auto driver = tj::launch::open_cuda(&reason);
  if (!driver || driver->device_count() == 0) tj::testing::skip("no GPU");
  const tj::launch::DeviceInfo info = driver->device_info(0);
  for (const tj::arch::Arch* arch : tj::arch::all())
    if (arch->vendor == info.vendor && arch->family == "sm80" && arch->device_major == info.major &&
        arch->device_minor == info.minor)
      return arch->name;
  tj::testing::skip("no arch of the family is for " + info.name);
}

/// From compute capability 8.9 on.
bool has_narrow_products(const tj::arch::Arch& arch) { return arch.device_major * 10 + arch.device_minor >= 89; }

}  // namespace

TEST_CASE("matrices of a warp and copies by threads on a device") {
  const std::string arch = code_arch();
  std::vector<std::string> files = {"sm80"};  // instructions that every device has
  if (tj::arch::find(arch)->primitives != "sm80") files.push_back(tj::arch::find(arch)->primitives);
  for (const std::string& primitives : files) {
    CAPTURE(primitives);
    const auto make = [&](std::string_view text) { return PrimitiveUnit::on_device(text, primitives, arch); };
    tj::testing::check_products(make);
    if (has_narrow_products(*tj::arch::find(arch))) tj::testing::check_narrow_products(make);
    tj::testing::check_matrix_loads(make);
    tj::testing::check_tile_places(make);
    tj::testing::check_copy_sizes(make);
    PrimitiveUnit counters = make(tj::testing::counters_text());
    tj::testing::check_counters(counters);
    PrimitiveUnit copies = make(tj::testing::thread_copies_text());
    for (int which : {1, 2})
      for (int count : {1, 2, 3, 17, 300}) tj::testing::check_copied_tiles(copies, which, count);
  }
}
