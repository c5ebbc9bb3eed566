// Protects targets with options on a real device. The family whose products are a warp's runs on it and gives right
// results: with the copy engine and without, under a cap on shared memory.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/gemm/problem.hpp"

using namespace tj;

TEST_CASE("products with the copy engine and by threads, under caps") {
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const arch::Arch* arch : test::archs_of_gpu("sm80"))
    for (const char* more :
         {"", "+copies=threads", "+smem=99K", "+copies=threads+smem=99K", "+copies=threads+smem=64K"}) {
      Options options;
      options.target = arch->name + more;
      Runtime runtime(options);
      for (const int edge : {100, 333, 700}) {
        test::GemmShape shape = test::gemm_shape(edge, edge + 3, 2 * edge);
        test::GemmProblem problem(shape, seed++);
        CAPTURE(*options.target);
        CAPTURE(shape.text());
        problem.run(runtime, test::nvidia_gpu());
        CHECK(problem.problem() == "");
      }
    }
}
