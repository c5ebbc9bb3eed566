// Protects the list of families that multiply: each arch has one, each tile is somebody's, and what a family says of
// itself goes together. The table of a kernel's fields has room for all their values.
#include <doctest/doctest.h>

#include "arch/arch.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/fields.hpp"
#include "pipeline.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"

using namespace tj;
using testing::error_of;
using testing::has;

namespace {

/// The plainest kernel of the tile: some are there for a gate alone.
ops::GemmKernel plain_kernel(const ops::GemmTile& tile) {
  ops::GemmKernel kernel;
  if (tile.element_bytes == 1) kernel.dtype = DType::e4m3;
  if (!ops::gemm_tile_fits(tile, kernel)) kernel.gate = Activation::silu;
  return kernel;
}

}  // namespace

TEST_CASE("every arch has a family; what an arch serves is what its family has a kernel for") {
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    REQUIRE(ops::find_gemm_family(*arch) != nullptr);
    const ops::GemmFamily& family = ops::gemm_family(*arch);
    CHECK(family.arch_family == arch->family);
    for (const ops::GemmTile& tile : ops::gemm_tiles()) {
      CAPTURE(ops::gemm_tile_name(tile));
      if (family.blocks_per_sm(tile, *arch) > 0) CHECK(ops::gemm_tile_fits(tile, plain_kernel(tile), family));
    }
    if (family.rung_tile != nullptr)
      for (const ops::GemmRung& rung : ops::gemm_rungs())
        CHECK(family.blocks_per_sm(ops::gemm_tiles()[static_cast<std::size_t>(family.rung_tile(rung))], *arch) > 0);
  }
}

TEST_CASE("a tile that a target with less shared memory serves has a schedule there, however d is stored") {
  for (const std::string target : {"sm_90a+smem=99K", "sm_90a+smem=64K", "sm_90a+smem=40K", "sm_100a+smem=99K"}) {
    const arch::Arch& arch = arch::parse_arch(target);
    int served = 0;
    for (std::size_t t = 0; t < ops::gemm_tiles().size(); ++t) {
      if (ops::gemm_blocks_per_sm(ops::gemm_tiles()[t], arch) == 0) continue;
      if (++served % 4 != 1 && testing::left_out()) continue;
      for (const auto& end : {std::pair(DType::f16, true), {DType::f16, false}, {DType::f32, true}}) {
        ops::GemmKernel kernel = plain_kernel(ops::gemm_tiles()[t]);
        kernel.tile = static_cast<int>(t);
        kernel.out = end.first;
        kernel.d_aligned = end.second;
        if (!ops::gemm_tile_fits(ops::gemm_tiles()[t], kernel, ops::gemm_family(arch))) continue;
        CAPTURE(target);
        CAPTURE(ops::gemm_tile_name(ops::gemm_tiles()[t]));
        CAPTURE(end.second);
        CHECK_NOTHROW(choose(ops::gemm_op(), ops::gemm_request(ops::canonical(kernel)), arch));
      }
    }
    CHECK(served > 0);
  }
}

TEST_CASE("where three slots do not fit, two hold one group of products under way") {
  ops::GemmKernel kernel;
  ops::set_field<ops::kGemmFields>("gemm", kernel, "tile", "128x64x64");
  const Choice made =
      choose(ops::gemm_op(), ops::gemm_request(ops::canonical(kernel)), arch::parse_arch("sm_90a+smem=64K"));
  REQUIRE(made.schedule.rings.size() >= 2);
  CHECK(made.schedule.rings[0].slots == 2);
  CHECK(made.schedule.rings[1].slots == 2);
}

TEST_CASE("every tile is some family's, under a name of its own") {
  const ops::Words names = ops::gemm_tile_words();
  REQUIRE(names.size() == ops::gemm_tiles().size());
  for (std::size_t t = 0; t < names.size(); ++t) {
    CAPTURE(names[t]);
    CHECK(ops::gemm_tile_fits(ops::gemm_tiles()[t], plain_kernel(ops::gemm_tiles()[t])));
    ops::GemmKernel kernel;
    ops::set_field<ops::kGemmFields>("gemm", kernel, "tile", names[t]);
    CHECK(kernel.tile == static_cast<int>(t));
  }
}

TEST_CASE("an arch of no family is refused by the family's name and by who is served") {
  arch::Arch arch = *arch::find("sm_90a");
  arch.name = arch.family = "sm_20";
  CHECK(ops::find_gemm_family(arch) == nullptr);
  CHECK_FALSE(ops::gemm_serves(arch));
  const Error error = error_of([&] { ops::gemm_family(arch); });
  CHECK_MESSAGE(has(error.message, "lacks node bodies for family 'sm_20'; "), error.message);
  CHECK_MESSAGE(has(error.message, "it runs on sm_90a, model:sm_90a, sm_100"), error.message);
}

TEST_CASE("the hot key has room for every value of every field, and each is read back") {
  for (const auto& field : ops::kGemmFields) {
    CAPTURE(field.name);
    const ops::Words words = field.words();
    CHECK(words.size() <= std::size_t{1} << field.bits);
    for (unsigned value = 0; value < words.size(); ++value) {
      ops::GemmKernel kernel;
      field.set(kernel, value);
      CHECK(field.get(kernel) == value);
      const bool last_rung = std::string_view(field.name) == "rung" && value == ops::kGemmOwnRung;  // the op's own
      if (last_rung) CHECK(ops::gemm_small_key(kernel) == ops::gemm_small_key(ops::GemmKernel{}));
    }
  }
}
