// Protects when a product's launch may begin beside those before it.
#include <doctest/doctest.h>

#include "arch/arch.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/problem.hpp"

using namespace tj;
using test::gemm_shape;
using test::gemm_tile_named;
using test::GemmProblem;

namespace {

constexpr unsigned kSms = 132;

/// Does a launch of the product in that tile overlap those before it?
bool overlaps_on(unsigned sms, int m, int n, const char* tile, bool in_place = true) {
  GemmProblem problem(gemm_shape(m, n, 256), 1);
  const ops::Kernel kernel = ops::resolve(
      ops::gemm_op(), &problem.args, ops::GemmChoice{.tile = gemm_tile_named(tile)}.number(), *arch::find("sm_90a"));
  ops::LaunchPlan plan;
  plan.sm_count = sms;
  ops::gemm_op().plan(&problem.args, kernel, ops::Geometry::of(ops::GemmLaunch{.in_place = in_place}), plan);
  return plan.overlaps;
}

}  // namespace

TEST_CASE("a launch that fills most multiprocessors once begins when those before it are done") {
  CHECK(overlaps_on(kSms, 64, 64 * 66, "64x64x128"));  // half of them: two such launches run beside each other
  CHECK_FALSE(overlaps_on(kSms, 64, 64 * 67, "64x64x128"));
  CHECK_FALSE(overlaps_on(kSms, 64, 64 * 132, "64x64x128"));
  CHECK_FALSE(overlaps_on(kSms, 64, 64 * 1000, "64x64x128"));  // several waves of single blocks
  CHECK_FALSE(overlaps_on(kSms, 128, 256 * 66, "64x256x64c2x1"));
  CHECK(overlaps_on(kSms, 128, 256 * 67, "64x256x64c2x1"));  // several waves of clusters
  CHECK(overlaps_on(kSms, 128, 256 * 33, "64x256x64c2x1"));
  CHECK_FALSE(overlaps_on(kSms, 16, 64 * 34, "16x64x128c1x1x2s"));
  CHECK(overlaps_on(kSms, 16, 64 * 33, "16x64x128c1x1x2s"));
  CHECK(overlaps_on(0, 64, 64 * 132, "64x64x128"));            // a device that does not say how many it has
  CHECK(overlaps_on(kSms, 64, 64 * 132, "64x64x128", false));  // another family, on which nobody measured it
}
