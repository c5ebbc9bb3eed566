// Protects the ladder of matrix products on a real device, where warps do not run one after the other as on the model.
// Each rung is held against f64: many blocks, more tiles than SMs, orders and odd sizes. Inputs lie between NaNs and
// outputs inside guard bands.
#include <doctest/doctest.h>

#include <cstdio>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/gemm/problem.hpp"

using namespace tj;
using test::GemmProblem;
using test::GemmShape;

TEST_CASE("each rung, several times") {
  const Device device = test::nvidia_gpu();
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (int rung = 1; rung <= 10; ++rung) {
    std::vector<GemmShape> shapes = {{128, 128, 64}, {33, 97, 40}};  // the first two have one tile of 128 x 128
    if (rung >= 2) shapes.insert(shapes.end(), {{128, 128, 2000}, {7, 127, 200}});
    if (rung >= 3) shapes.insert(shapes.end(), {{1000, 1100, 1030}, {1500, 2600, 70}, {200, 700, 513, 4}});
    if (rung >= 3) {
      shapes[4].a_transposed = shapes[4].b_transposed = true;
      shapes[5].dtype = shapes[5].out = DType::bf16;
      shapes[5].bias = true;
      shapes[6].out = DType::f32;
    }
    for (const GemmShape& shape : shapes)
      for (int repetition = 0; repetition < 3; ++repetition) {
        CAPTURE(rung);
        CAPTURE(shape.text());
        GemmProblem problem(shape, ++seed);
        problem.rung = rung;
        problem.run(Runtime::instance(), device);
        CHECK(problem.problem() == "");
      }
  }
}
