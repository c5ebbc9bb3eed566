// Protects matrix products in tensor memory: results on the CPU model against f64; every tile, order, type and
// epilogue, sums that are stored under the next tile; that what such archs do not serve is refused by what they do.
// Sizes, places, parts of K, rungs: gemm_tensor_shapes_model_test.cpp and gemm_tensor_rungs_model_test.cpp.
#include <doctest/doctest.h>

#include <array>
#include <string>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/parts.hpp"
#include "ops/gemm/problem.hpp"
#include "pipeline.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;
using testing::has;

namespace {
constexpr const char* kArch = "sm_100a";
}  // namespace

TEST_CASE("every tile, in every order of the operands, with each type and epilogue; one block for many tiles") {
  // Whole tiles; ragged ones, of which each block stores several sets of sums; fewer iterations than slots and more; 1
  // and 2 blocks.
  const auto shape_of = [](int served, int, const ops::GemmTile& tile) {
    return test::gemm_shape_of_kind(served, tile);
  };
  CHECK(test::check_gemm_tiles(kArch, {{1, 2, 2, 1}, {3, 1, 1, 2, 11}, {2, 2, 5, 1, 11}}, shape_of) >= 6);
}

TEST_CASE(
    "one role of several warps: only the thread that asks for products waits for their operands, as the unit alone "
    "hands these back") {
  ops::GemmKernel kernel;
  const arch::Arch& arch = *arch::find(kArch);
  ops::set_gemm_rung(kernel, 4, &arch);
  const Choice choice = choose(ops::gemm_op(), ops::gemm_request(kernel), arch);
  const std::string text = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives).text;
  CHECK(has(text, "dev::elect_one()) dev::wait_full<"));
  // The seeds at which a warp looked after the next filling, when all of them did.
  for (const std::uint64_t seed : {39, 91, 92, 108, 114}) {
    Options options;
    options.target = std::string("model:") + kArch;
    options.model_seed = seed;
    Runtime runtime(options);
    GemmProblem problem(test::gemm_shape(128, 512, 320), seed);
    problem.rung = 4;
    CAPTURE(seed);
    CHECK_NOTHROW(problem.run(runtime, {DeviceKind::cpu, 0}));
    CHECK(problem.problem() == "");
  }
}

TEST_CASE("what the unit does not serve is refused by what it does") {
  const arch::Arch& arch = *arch::find(kArch);
  ops::GemmKernel kernel;
  const auto message = [&] { return testing::error_of([&] { ops::gemm_candidate(kernel, arch); }).message; };
  kernel.dtype = DType::e4m3;
  CHECK_MESSAGE(has(message(), "a.dtype is e4m3; allowed on sm_100a: f16, bf16"), message());
  kernel.dtype = DType::f16;
  kernel.tile = test::gemm_tile_named("16x64x128");
  CHECK_MESSAGE(has(message(), "tile is 16x64x128; allowed on sm_100a: 128x256x64"), message());
  kernel.tile = test::gemm_tile_named("256x128x64");
  const std::string hopper = testing::error_of([&] { ops::gemm_candidate(kernel, *arch::find("sm_90a")); }).message;
  CHECK_MESSAGE(has(hopper, "tile is 256x128x64; allowed on sm_90a: 128x256x64"), hopper);
}

TEST_CASE("roles are found: copies, products, and warps that store one set of sums while the unit fills the other") {
  ops::GemmKernel kernel;
  kernel.tile = test::gemm_tile_named("256x128x64");
  const ops::Candidate candidate = ops::gemm_candidate(kernel, *arch::find(kArch));
  sched::Options options;
  options.copies_apart = candidate.copies_apart;
  const sched::Schedule schedule = sched::schedule(candidate.graph, options);
  REQUIRE(schedule.roles.size() == 4);
  CHECK(schedule.roles[0].name == "load");
  CHECK(schedule.roles[1].name == "mma");
  CHECK(schedule.roles[2].name == "compute0");
  CHECK(schedule.roles[3].name == "compute1");  // each product's rows have a role of their own
  for (const sched::Ring& ring : schedule.rings)
    if (candidate.graph.values[static_cast<std::size_t>(ring.value)].space == graph::Space::tensor)
      CHECK(ring.slots == 2);
  CHECK(schedule.proven_ii);
  CHECK(schedule.ii == 512);  // 2 x 256 x 128 x 64 flop at 8192 a cycle: the unit never waits
  CHECK(has(schedule.certificate, "unit TC"));
}

TEST_CASE("any size gets a tile that is served") { test::check_gemm_choices(kArch); }
