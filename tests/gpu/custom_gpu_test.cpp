// Protects a kernel of a user's own on a real device: the sample's against f64, on edges of its tiles and on more tiles
// than multiprocessors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "custom/sample_kernel.hpp"
#include "custom/sample_problem.hpp"
#include "gpu/gpu_device.hpp"

using namespace tj;

TEST_CASE("the sample's kernel on a device") {
  const Device device = test::nvidia_gpu();  // the sample's bodies are for its copy engine
  Runtime& runtime = Runtime::instance();
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  test::SampleKernel sample;
  for (const bool turns : {true, false}) {
    sample.description.turns = turns;
    const custom::Kernel kernel(runtime, sample.description);
    for (const int m : {1, 128, 333})
      for (const int n : {1, 255, 257, 520})
        for (const int k : {8, 64, 72, 1000}) {
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          test::SampleProblem problem(runtime, device, m, n, k, seed);
          problem.run(kernel, 3);
          CHECK(problem.error() < test::kMaxSampleError);
        }
    test::SampleProblem large(runtime, device, 4000, 3000, 40, seed);
    large.run(kernel, kernel.sm_count(device));
    CHECK(large.error() < test::kMaxSampleError);
  }
}
