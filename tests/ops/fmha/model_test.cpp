// Protects attention's results: chosen odd shapes and random ones on the CPU model, against f64, with poisoned outputs
// inside guard bands; every kernel form; scales of every kind.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <set>

#include "arch/arch.hpp"
#include "common/random.hpp"
#include "ops/fmha/checks.hpp"
#include "ops/fmha/tiles.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FmhaShape;

namespace {

constexpr const char* kTarget = "model:sm_90a";

// Numbers of [low, high] from a stream.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : seed_(seed) {}
  int between(int low, int high) {
    return low + static_cast<int>(samples::random_bits(seed_, next_++) % static_cast<std::uint64_t>(high - low + 1));
  }
  bool coin() { return between(0, 1) == 1; }

 private:
  std::uint64_t seed_, next_ = 0;
};

}  // namespace

TEST_CASE("shapes at the edges of tiles, rows without keys, single rows and keys") {
  test::check_fmha_edges(kTarget, {{1, 1, 1, 192, 320, 128, DType::f16, false, true, true},
                                   {1, 1, 1, 385, 384, 64, DType::f16, true, false, true}});
}

TEST_CASE("blocks that walk tiles of which some see no key") {
  for (const int head_dim : {64, 128}) {
    CAPTURE(head_dim);
    test::FmhaProblem problem({1, 2, 1, 700, 130, head_dim, DType::f16, true, false, true}, 7400);
    problem.args.max_sms = 2;
    problem.run(testing::model_runtime(kTarget), {DeviceKind::cpu, 0});
    CHECK(problem.problem() == "");
  }
}

TEST_CASE("every tile that calls take by their sizes, whole and in part") {
  const arch::Arch& arch = *arch::find("sm_90a");
  for (const int head_dim : {64, 128}) {
    ops::FmhaKernel kernel;
    kernel.head_dim = head_dim;
    std::set<int> taken;
    for (const std::array<int, 3>& sizes :
         {std::array{385, 250, 1}, {192, 384, 1}, {100, 120, 0}, {130, 300, 0}, {130, 704, 0}, {128, 256, 0}}) {
      const int queries = sizes[0], keys = sizes[1], max_sms = sizes[2];
      CAPTURE(queries);
      CAPTURE(keys);
      taken.insert(ops::choose_fmha_tile(kernel, {1, 1, 1, queries, keys}, max_sms, arch));
      test::FmhaProblem problem({1, 1, 1, queries, keys, head_dim, DType::f16, false, true, true}, 7500);
      problem.args.max_sms = max_sms;
      problem.run(testing::model_runtime(kTarget), {DeviceKind::cpu, 0});
      CHECK(problem.problem() == "");
    }
    CHECK(taken.size() == ops::taken_fmha_tiles(kernel, arch).size());
  }
}

TEST_CASE("output that the copy engine cannot store, of whole tiles and of parts") {
  for (const int head_dim : {64, 128})
    for (const bool causal : {true, false}) {
      const FmhaShape shape{1, 2, 1, 197, 200, head_dim, DType::bf16, causal, true, true, true};
      CAPTURE(shape.text());
      CHECK(test::run_fmha(kTarget, shape, 7300) == "");
    }
}

TEST_CASE("windows, places of queries, softcap, ALiBi and sinks, at edges of blocks and without keys") {
  test::check_fmha_masks(kTarget);
  test::check_fmha_scores(kTarget);
}

TEST_CASE("random shapes with random windows, softcap, ALiBi and sinks") {
  test::check_random_fmha({kTarget}, 10, {2, 200, 400, true});
}

TEST_CASE("head dims of queries and of values, multiples of 8") {
  test::check_fmha_head_dims(kTarget, 256);
  test::check_random_fmha({kTarget}, 6, {2, 200, 300, true, 256});
}

TEST_CASE("random shapes: both types, head dims, masks and layouts, grouped heads") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  Numbers stream(seed);
  for (int i = 0; i < 24; ++i) {
    FmhaShape shape;
    const int groups[] = {1, 4, 8};
    shape.heads_kv = stream.between(1, 2);
    shape.heads = shape.heads_kv * groups[stream.between(0, 2)];
    shape.batch = shape.heads > 4 ? 1 : stream.between(1, 2);
    shape.seq_q = stream.coin() ? stream.between(1, 140) : stream.between(1, 33);
    shape.seq_k = stream.coin() ? stream.between(1, 450) : stream.between(1, 70);
    shape.head_dim = stream.coin() ? 64 : 128;
    shape.dtype = stream.coin() ? DType::f16 : DType::bf16;
    shape.causal = stream.coin();
    shape.rows_first = stream.coin();
    shape.with_lse = stream.between(0, 3) > 0;
    CAPTURE(shape.text());
    CHECK(test::run_fmha(kTarget, shape, seed + 100 + static_cast<std::uint64_t>(i)) == "");
  }
}

TEST_CASE("any finite scale: negative, zero, tiny, large") {
  test::check_fmha_scales(kTarget, {1.0f, -0.125f, 0.0f, -0.0f, 1e-20f, 1.5f, 4.0f, -3.0f});
}

TEST_CASE("a NaN or an infinity in a query makes its row NaN, output and lse, and no other") {
  for (const bool causal : {false, true}) test::check_fmha_rows_without_number(kTarget, 64, causal);
}

TEST_CASE("huge scales pick the largest score and stay finite") { test::check_fmha_huge_scales(kTarget); }
