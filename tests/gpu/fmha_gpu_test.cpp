// Protects attention on a real device: edges of tiles and random shapes against f64, with poisoned outputs inside guard
// bands. Longer sequences and peers: tests/gpu/compare.py.
#include <doctest/doctest.h>

#include <cstdio>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/fmha/problem.hpp"

using namespace tj;
using test::FmhaProblem;
using test::FmhaShape;

namespace {

std::string run(const FmhaShape& shape, std::uint64_t seed) {
  FmhaProblem problem(shape, seed);
  problem.run(Runtime::instance(), test::gpu());
  return problem.problem();
}

}  // namespace

TEST_CASE("shapes at the edges of tiles, rows without keys, single rows and keys") {
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const int head_dim : {64, 128})
    for (const bool causal : {false, true})
      for (const int seq_q : {1, 63, 128, 129, 193, 500})
        for (const int seq_k : {1, 127, 160, 161, 384, 700}) {
          FmhaShape shape{
              1, 4, 2, seq_q, seq_k, head_dim, seq_q % 2 ? DType::bf16 : DType::f16, causal, seq_k % 2 == 0, true};
          CAPTURE(shape.text());
          CHECK(run(shape, seed++) == "");
        }
}

TEST_CASE("output that the copy engine cannot store") {
  for (const int head_dim : {64, 128})
    for (const bool causal : {false, true}) {
      const FmhaShape shape{2, 4, 2, 333, 400, head_dim, DType::f16, causal, true, true, true};
      CAPTURE(shape.text());
      CHECK(run(shape, samples::fresh_seed()) == "");
    }
}

TEST_CASE("more tiles than multiprocessors: blocks that walk several tiles") {
  for (const bool causal : {false, true}) {
    const FmhaShape shape{4, 16, 4, 777, 900, 128, DType::f16, causal, true, true};
    CAPTURE(shape.text());
    CHECK(run(shape, samples::fresh_seed()) == "");
  }
}
