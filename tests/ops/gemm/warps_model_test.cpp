// Protects matrix products on products of warps: results on the CPU model against f64, with copies by threads (sm_80)
// and by the copy engine (sm_120a); every tile, order, type and epilogue, odd sizes, parts of K, operands that begin
// anywhere; that what such archs do not serve is refused by what they do.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include <tilejit/error.hpp>
#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/warps.hpp"
#include "support/expect.hpp"

using namespace tj;
using test::GemmShape;
using testing::has;

namespace {

constexpr const char* kArchs[] = {"sm_80", "sm_120a"};

ops::GemmKernel plain_kernel_with_addend() {
  ops::GemmKernel kernel;
  kernel.add_c = true;
  return kernel;
}

}  // namespace

TEST_CASE("shapes at the edges of tiles and of K") {
  for (const char* arch : kArchs) test::check_gemm_edges(arch);
}

TEST_CASE("every tile, in every order of the operands, with each type and epilogue; one block for many tiles") {
  for (const char* name : kArchs) {
    const bool by_engine = arch::find(name)->has_unit("TMA");
    const auto shape_of = [&](int served, int, const ops::GemmTile& tile) -> std::optional<GemmShape> {
      if (served % 2 == (by_engine ? 1 : 0) && tile.block_m * tile.block_n < 128 * 128)
        return std::nullopt;  // each with one kind of copies, the usual with both
      GemmShape shape = test::gemm_shape_of_kind(served, tile);
      if (!ops::gemm_warps_fit(
              tile, plain_kernel_with_addend())) {  // pieces that leave no registers for more than a plain end
        shape.a_transposed = shape.b_transposed = false;
        shape.beta = 0.0f;
        shape.activation = Activation::none;
      }
      return shape;
    };
    // Whole tiles; ragged ones; fewer iterations than slots and more; 1 and 2 blocks.
    CHECK(test::check_gemm_tiles(name, {{1, 2, 2, 1}, {3, 1, 1, 2, 11}, {2, 1, 5, 1, 11}}, shape_of) >= 7);
  }
}

TEST_CASE("parts of K, and operands that begin anywhere") {
  for (const char* arch : kArchs) test::check_gemm_parts_and_places(arch);
}

TEST_CASE("batches; alpha 0 reads neither a nor b, beta 0 not c") {
  for (const char* arch : kArchs) test::check_gemm_batches(arch);
}

TEST_CASE("what archs of this family do not serve is refused by what they do") {
  const arch::Arch& arch = *arch::find("sm_86");
  ops::GemmKernel kernel;
  const auto message = [&] { return testing::error_of([&] { ops::gemm_candidate(kernel, arch); }).message; };
  kernel.dtype = DType::e4m3;
  CHECK_MESSAGE(has(message(), "a.dtype is e4m3; allowed on sm_86: f16, bf16"), message());
  CHECK(has(testing::error_of([&] { ops::choose_gemm({}, kernel, arch); }).message, "allowed on sm_86: f16, bf16"));
  kernel.dtype = DType::f16;
  kernel.tile = test::gemm_tile_named("128x256x64c2x1");
  CHECK_MESSAGE(has(message(), "tile is 128x256x64c2x1; allowed on sm_86: 128x256x64"), message());
  const std::string small =
      testing::error_of([&] { ops::choose_gemm({}, {}, arch::parse_arch("sm_86+smem=16K")); }).message;
  CHECK_MESSAGE(has(small, "gemm does not run on 'sm_86+smem=16K', whose blocks have 16384 bytes of shared memory"),
                small);
  ops::set_gemm_rung(kernel, 3, nullptr);
  CHECK_MESSAGE(has(message(), "rung is v3; allowed on sm_86: 0 (none)"), message());
}

TEST_CASE("tiles rank as they were measured on an H200, and shallow rings count") {
  const auto place = [](const char* arch, const std::string& name) {
    const auto ranking = ops::rank_gemm({8192, 8192, 8192, 1}, {}, arch::parse_arch(arch));
    std::size_t at = 0;
    while (at < ranking.size() && ops::gemm_choice_name(ranking[at].choice) != name) ++at;
    return at;
  };
  CHECK(place("sm_90", "128x256x64") < place("sm_90", "128x256x32"));
  CHECK(place("sm_90", "128x256x32") < place("sm_90", "128x128x64"));
  CHECK(place("sm_90", "128x128x64") < place("sm_90", "128x128x32"));
  CHECK(place("sm_90+smem=99K", "128x256x32") < place("sm_90+smem=99K", "128x256x64"));  // which has two slots there
}

TEST_CASE("iterations of less than a swizzled row are for warps' products alone") {
  ops::GemmKernel kernel;
  kernel.tile = test::gemm_tile_named("128x128x32");
  const std::string message = testing::error_of([&] { ops::gemm_candidate(kernel, *arch::find("sm_90a")); }).message;
  CHECK_MESSAGE(has(message, "tile is 128x128x32; allowed on sm_90a: 128x256x64"), message);
}

TEST_CASE("every arch of the family chooses a tile that it serves, for any size") {
  for (const arch::Arch* arch : arch::all())
    if (ops::gemm_family(*arch).fits == ops::gemm_warps_fit) test::check_gemm_choices(arch->name);
}
