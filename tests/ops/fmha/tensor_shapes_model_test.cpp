// Protects attention over tensor memory at every pair of lengths that a Hopper runs (gpu/fmha_gpu_test.cpp), with fewer
// heads: edges of tiles, rows without keys, single rows and keys; and blocks that walk several tiles.
#include <doctest/doctest.h>

#include <cstdint>

#include "ops/fmha/checks.hpp"
#include "support/full.hpp"

using namespace tj;
using test::FmhaShape;

namespace {
constexpr const char* kTarget = "model:sm_100a";
}  // namespace

TEST_CASE("lengths at the edges of tiles, each with each") {
  std::uint64_t seed = 8301;
  int index = 0;
  for (const int head_dim : {64, 128})
    for (const bool causal : {false, true})
      for (const int seq_q : {1, 63, 128, 129, 193, 500})
        for (const int seq_k : {1, 127, 160, 161, 384, 700}) {
          // An odd number of lengths in all that comes before: the lists of the next ones begin elsewhere.
          if (testing::sampled_out(index / 6 + index % 6)) {
            ++index;
            continue;
          }
          ++index;
          const bool several = seq_q * seq_k < 129 * 161;
          const FmhaShape shape{1,
                                several ? 4 : 1,
                                several ? 2 : 1,
                                seq_q,
                                seq_k,
                                head_dim,
                                seq_q % 2 ? DType::bf16 : DType::f16,
                                causal,
                                seq_k % 2 == 0,
                                true};
          CAPTURE(shape.text());
          CHECK(test::run_fmha(kTarget, shape, seed++) == "");
        }
}

TEST_CASE("more tiles than the model has SMs: blocks that walk several tiles") {
  for (const bool causal : {false, true}) {
    const FmhaShape shape{2, 4, 2, 300, 200, 128, DType::f16, causal, true, true};
    CAPTURE(shape.text());
    CHECK(test::run_fmha(kTarget, shape, causal ? 8402 : 8401) == "");
  }
}
