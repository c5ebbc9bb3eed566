// Protects chunk output on a real device: the problems of the model's test, NaN wherever no token is, poison around the
// output. Inside a CUDA graph, many random problems, and speed: tests/gpu/compare.py --op chunk_o.
#include <doctest/doctest.h>

#include <cstdio>

#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/chunk_o/problem.hpp"

using namespace tj;
using test::ChunkOProblem;
using test::ChunkOShape;

namespace {

std::string run(const ChunkOShape& shape, std::uint64_t seed) {
  ChunkOProblem problem(shape, seed);
  problem.run(Runtime::instance(), test::nvidia_gpu());
  return problem.problem();
}

}  // namespace

TEST_CASE("small: lengths at the edges of chunks, every number of heads an item, every form") {
  std::uint64_t seed = 7101;
  for (int form = 0; form < 16; ++form) {
    ChunkOShape shape;
    shape.variable = (form & 2) == 0;
    if (shape.variable)
      shape.lengths = {0, 64, 1, 130, 63, 0, 65, 8};
    else
      shape.lengths = {100, 100};
    shape.v_heads = form % 3 + 1;
    shape.gated = (form & 1) == 0;
    shape.h_transposed = (form & 4) != 0;
    shape.gate_scale = form < 8 ? 0.1 : 10;
    shape.padding = (form & 8) != 0 ? 8 : 0;
    shape.lead = form % 3;
    shape.tail = shape.variable ? 5 : 0;
    if (!shape.variable) shape.lead = 0;
    CAPTURE(shape.text());
    CHECK(run(shape, seed++) == "");
  }
}

TEST_CASE("many items a block, whole and partial chunks mixed") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const int heads : {1, 2, 3, 4}) {
    ChunkOShape shape;
    shape.lengths.clear();
    for (std::uint64_t i = 0; i < 300; ++i)
      shape.lengths.push_back(static_cast<int>(samples::random_bits(seed, i) % 129));
    shape.v_heads = heads;
    CAPTURE(shape.text());
    CHECK(run(shape, seed) == "");
  }
}

TEST_CASE("no chunk at all") {
  ChunkOShape shape;
  shape.lengths = {0, 0};
  shape.tail = 70;
  CHECK(run(shape, 7201) == "");
}
