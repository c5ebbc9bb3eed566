// Protects choices by measurement on a real device: each kernel that can serve a problem is recorded, replayed and
// timed, becomes the choice when it alone is measured, and gives the right product; and the fastest of all is found.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/problem.hpp"
#include "support/full.hpp"
#include "support/scratch.hpp"
#include "tuning/tune.hpp"

using namespace tj;

namespace {

Options with_cache(const testing::Scratch& scratch) {
  Options options;
  options.cache_dir = scratch / "cache";
  return options;
}

ops::Problem problem_of(const test::GemmShape& shape) {
  return ops::gemm_tunable()
      .problems({{"m", {std::to_string(shape.m)}},
                 {"n", {std::to_string(shape.n)}},
                 {"k", {std::to_string(shape.k)}},
                 {"dtype", {"f16"}}})
      .front();
}

}  // namespace

TEST_CASE("each kernel of a problem is timed, taken when it is chosen, and right") {
  const Device device = test::nvidia_gpu();
  const testing::Scratch scratch;
  Runtime runtime(with_cache(scratch));
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const test::GemmShape& shape : {test::gemm_shape(400, 600, 328), test::gemm_shape(10, 200, 256)}) {
    int place = 0;  // the first is what calls take
    for (const ops::Variant& variant :
         ops::gemm_tunable().variants(problem_of(shape), *arch::parse_target(runtime.target_of(device)).arch)) {
      if (place++ > 0 && testing::sampled_out(place))
        continue;  // there are more than three hundred, each compiled here
      CAPTURE(shape.text());
      CAPTURE(variant.name);
      TuneOptions options;
      options.only = {variant.name};
      options.rounds = 1;
      const TuneReport report = runtime.tune_op("gemm", problem_of(shape), device, options);
      CHECK(report.kept);
      CHECK(report.variants.front().measured_us > 0);
      GemmConfig config;
      config.m = shape.m;
      config.n = shape.n;
      config.k = shape.k;
      CHECK(runtime.prepare(config, device).name == ops::gemm_op().request_of(variant.kernel).name);
      test::GemmProblem problem(shape, seed++);
      problem.run(runtime, device);
      CHECK(problem.problem() == "");
    }
  }
}

TEST_CASE("tiles that blocks share and swapped tiles, by name: rows and columns outside, K that no iteration divides") {
  const Device device = test::nvidia_gpu();
  const testing::Scratch scratch;
  Runtime runtime(with_cache(scratch));
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const test::GemmShape shape = test::gemm_shape(300, 500, 1304);
  const std::set<std::string> swapped = {"72x64x128s", "104x128x64c2x1s", "48x64x128c2x2s", "96x192x64s",
                                         "64x64x128c1x4s"};
  int shared = 0, named = 0;
  for (const ops::Variant& variant :
       ops::gemm_tunable().variants(problem_of(shape), *arch::parse_target(runtime.target_of(device)).arch)) {
    const bool shares = variant.name.ends_with("+split");
    if (!shares && swapped.count(variant.name) == 0) continue;
    ++(shares ? shared : named);
    CAPTURE(variant.name);
    TuneOptions options;
    options.only = {variant.name};
    options.rounds = 1;
    runtime.tune_op("gemm", problem_of(shape), device, options);
    for (int call = 0; call < 2; ++call) {
      test::GemmProblem problem(shape, seed++);
      problem.run(runtime, device);
      CHECK(problem.problem() == "");
    }
  }
  CHECK(shared > 0);
  CHECK(named == static_cast<int>(swapped.size()));
}

TEST_CASE("the fastest kernel is the choice of another runtime") {
  const Device device = test::nvidia_gpu();
  const testing::Scratch scratch;
  const test::GemmShape shape = test::gemm_shape(1024, 1024, 1024);
  TuneOptions options;
  options.limit = 4;
  const TuneReport report = Runtime(with_cache(scratch)).tune_op("gemm", problem_of(shape), device, options);
  REQUIRE(report.chosen >= 0);
  const auto& chosen = report.variants[static_cast<std::size_t>(report.chosen)];
  for (const TunedVariant& variant : report.variants) CHECK(variant.measured_us >= chosen.measured_us);
  Runtime later(with_cache(scratch));
  GemmConfig config;
  config.m = config.n = config.k = 1024;
  CHECK(later.prepare(config, device).name == "gemm_f16_kk_" + chosen.name);
}
