// Protects the parameter of a walk: it follows from the launch alone, as plans find addresses by comparing the bytes of
// two launches.
#include "support/walk_param.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

using namespace tj::support;

namespace {

using Bytes = std::array<std::byte, 192>;

/// Leaves this byte where the next call has its local variables.
[[gnu::noinline]] void fill_stack(int byte) {
  volatile unsigned char place[8192];
  for (volatile unsigned char& each : place) each = static_cast<unsigned char>(byte);
}

[[gnu::noinline]] Bytes written(int left_on_stack) {
  Bytes params{};
  fill_stack(left_on_stack);
  add_walk(params, 40, {nullptr, 256}, 7);
  return params;
}

}  // namespace

// Bytes between its members were those of the stack: a product on gfx1100 had no plan now and then.
TEST_CASE("a walk's parameter has no bytes of its own making") { CHECK(written(0x55) == written(0xaa)); }
