// Protects matrix products on the matrix instructions of AMD's waves: results on the CPU model against f64, with
// operands held twice (gfx1100) and once (gfx1201), and with waves of 64 lanes (gfx90a); every tile, order, type and
// epilogue, odd sizes, parts of K, operands that begin anywhere; and that each barrier is missed when it is switched
// off.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;

namespace {

constexpr const char* kArchs[] = {"gfx1100", "gfx1201", "gfx90a"};

}  // namespace

TEST_CASE("shapes at the edges of tiles and of K") {
  for (const char* arch : kArchs) test::check_gemm_edges(arch);
}

TEST_CASE("every tile, in every order of the operands, with each type and epilogue") {
  for (const char* name : kArchs) {
    const arch::Arch& arch = *arch::find(name);
    const auto shape_of = [&](int served, int, const ops::GemmTile& tile) -> std::optional<GemmShape> {
      const int kind = served + (arch.warp_size == 64 ? 1 : 0);
      if (kind % 2 == 1 && arch.name == "gfx1201") return std::nullopt;  // between the other two in all that differs
      return test::gemm_shape_of_kind(kind, tile);
    };
    // Whole tiles; ragged ones; fewer iterations than slots and more.
    CHECK(test::check_gemm_tiles(name, {{1, 2, 2, 1}, {3, 1, 1, 1, 11}, {2, 1, 5, 1, 11}}, shape_of) >= 6);
  }
}

TEST_CASE("parts of K, and operands that begin anywhere") {
  for (const char* arch : kArchs) test::check_gemm_parts_and_places(arch);
}

TEST_CASE("batches; alpha 0 reads neither a nor b, beta 0 not c") {
  for (const char* arch : kArchs) test::check_gemm_batches(arch);
}

TEST_CASE("each barrier is missed when it is switched off") {
  int sites = 0;
  for (const char* name : kArchs)
    for (const char* tile : {"64x64x128", "64x128x64"}) {
      ops::GemmKernel made;
      made.tile = test::gemm_tile_named(tile);
      const ops::Candidate candidate = ops::gemm_candidate(made, *arch::find(name));
      test::EmittedKernel kernel(candidate.graph, sched::schedule(candidate.graph), *arch::find(name));
      const auto known = candidate.geometry.as<ops::GemmLaunch>();
      const auto run = [&](std::uint64_t seed, std::vector<int> disabled) {
        GemmProblem problem(test::gemm_shape(100, 150, seed % 2 == 0 ? 640 : 128), 900 + seed);
        ops::LaunchPlan plan;
        ops::gemm_plan(problem.args, {made.tile, 1}, known, plan);
        const std::string fault = kernel.launch(plan, plan.blocks, seed, std::move(disabled));
        return fault.empty() ? problem.problem() : fault;
      };
      for (std::uint64_t seed = 1; seed <= 4; ++seed) REQUIRE(run(seed, {}) == "");
      REQUIRE(!kernel.unit.sites.empty());
      for (const codegen::Site& site : kernel.unit.sites) {
        CAPTURE(std::string(name));
        CAPTURE(std::string(tile));
        CAPTURE(site.what);
        bool missed = false;
        for (std::uint64_t seed = 1; seed <= 20 && !missed; ++seed) missed = run(seed, {site.id}) != "";
        CHECK(missed);
        ++sites;
      }
    }
  MESSAGE(sites, " sites");
}
