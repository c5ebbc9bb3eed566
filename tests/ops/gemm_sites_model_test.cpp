// Protects the promise that a missing barrier shows in matrix products too: every wait, arrive, announcement and group wait is
// switched off in turn, and the model must report it or compute something else.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/gemm.hpp"
#include "ops/gemm_checks.hpp"
#include "ops/gemm_problem.hpp"

using namespace tj;

namespace {

DType dtype_of(const ops::GemmTile& tile) { return tile.element_bytes == 1 ? DType::e4m3 : DType::f16; }

ops::GemmKernel kernel_of(int tile) {
  ops::GemmKernel kernel;
  kernel.tile = tile;
  kernel.dtype = dtype_of(ops::gemm_tiles()[static_cast<std::size_t>(tile)]);
  return kernel;
}
ops::Candidate candidate_of(int tile) { return ops::gemm_candidate(kernel_of(tile), *arch::find("sm_90a")); }

sched::Options short_rings(bool turns) {
  sched::Options options;
  options.max_slots = 2;  // they come round within a short test
  options.order_barriers = turns;
  return options;
}

class Kernel {
 public:
  explicit Kernel(int tile) : store_(ops::gemm_store(kernel_of(tile))), tile_(ops::gemm_tiles()[static_cast<std::size_t>(tile)]), emitted_(candidate_of(tile).graph, short_rings(candidate_of(tile).turns)) {}

  /// "" when the run was right; else the fault, or what is wrong with the result.
  std::string run(std::uint64_t seed, std::vector<int> disabled) {
    // Several tiles a block, and more iterations than slots.
    test::GemmShape shape;
    shape.dtype = dtype_of(tile_);
    shape.m = 2 * tile_.block_m * tile_.cluster_m;
    shape.n = 2 * tile_.block_n * tile_.cluster_n;
    shape.k = 5 * tile_.block_k;
    test::GemmProblem problem(shape, 900 + seed);
    ops::LaunchPlan plan;
    plan.sm_count = 1;
    ops::gemm_plan(problem.args, ops::GemmForm{tile_, store_}, plan);
    const std::string fault = emitted_.launch(plan, plan.blocks, seed, std::move(disabled));
    return fault.empty() ? problem.problem() : fault;
  }
  const codegen::Unit& unit() const { return emitted_.unit; }

 private:
  int store_;
  ops::GemmTile tile_;
  test::EmittedKernel emitted_;
};

}  // namespace

TEST_CASE("each site of a matrix product's kernel is missed when it is switched off") {
  constexpr std::uint64_t kSeeds = 6;
  int sites = 0, noticed = 0;
  // Two consumer roles; one; clusters that share b, a, and both; sums that are promoted.
  for (const char* name : {"128x128x64", "64x32x128", "128x128x64c2x1", "128x128x64c1x2", "128x128x64c2x2", "128x128x128", "64x64x256"}) {
    const int tile = test::gemm_tile_named(name);
    const graph::Graph graph = candidate_of(tile).graph;
    Kernel kernel(tile);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) REQUIRE(kernel.run(seed, {}) == "");
    for (const codegen::Site& site : kernel.unit().sites) {
      CAPTURE(std::string(name));
      CAPTURE(site.id);
      CAPTURE(site.what);
      bool missed = false;
      for (std::uint64_t seed = 1; seed <= kSeeds && !missed; ++seed) missed = kernel.run(seed, {site.id}) != "";
      ++sites;
      noticed += missed;
      CHECK(missed);
    }
  }
  MESSAGE(noticed, " of ", sites, " sites noticed");
}
