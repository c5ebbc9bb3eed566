// Protects the recipe "new mask" at run time: with keys in chunks, attention of every family
// agrees with f64 on the CPU model, kernels without it are what they were, and a chunk that has no meaning is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/half.hpp"
#include "common/random.hpp"
#include "ops/fmha/fmha.hpp"
#include "support/scratch.hpp"

using namespace tj;

namespace {

constexpr int kWidth = 64;
constexpr double kMaxError = 6e-4, kMaxLseError = 1e-3;  // as of every mask

struct Problem {
  Problem(int rows, int columns, int chunk, std::uint64_t seed)
      : queries(rows),
        keys(columns),
        q(samples::random_normal(size(rows), DType::f16, seed)),
        k(samples::random_normal(size(columns), DType::f16, seed + 1)),
        v(samples::random_normal(size(columns), DType::f16, seed + 2)),
        o(size(rows), 0x7fff),
        lse(static_cast<std::size_t>(rows), NAN) {
    args.q = dense(q, rows), args.k = dense(k, columns), args.v = dense(v, columns), args.o = dense(o, rows);
    args.lse = Tensor::contiguous(lse.data(), {DeviceKind::cpu, 0}, DType::f32, {1, 1, rows});
    args.causal = true;
    args.chunk = chunk;
  }
  static std::size_t size(int rows) { return static_cast<std::size_t>(rows) * kWidth; }
  static Tensor dense(std::vector<std::uint16_t>& memory, int rows) {
    return Tensor::contiguous(memory.data(), {DeviceKind::cpu, 0}, DType::f16, {1, 1, rows, kWidth});
  }
  static double at(const std::vector<std::uint16_t>& memory, int row, int column) {
    return samples::half_to_float(memory[size(row) + static_cast<std::size_t>(column)]);
  }

  /// The row in f64, from the definition: the keys of its own chunk up to the diagonal's. False where it sees none.
  bool expected(int row, std::vector<double>& out, double& log_sum) const {
    const int place = row + keys - queries, last = std::min(keys - 1, place);
    const int first = std::max(0, place) / args.chunk * args.chunk;
    double sum = 0;
    out.assign(kWidth, 0);
    for (int key = first; key <= last; ++key) {
      double score = 0;
      for (int d = 0; d < kWidth; ++d) score += at(q, row, d) * at(k, key, d);
      const double weight = std::exp(score / std::sqrt(double{kWidth}));
      sum += weight;
      for (int d = 0; d < kWidth; ++d) out[static_cast<std::size_t>(d)] += weight * at(v, key, d);
    }
    for (double& value : out) value = sum > 0 ? value / sum : 0;
    log_sum = std::log(sum);
    return sum > 0;
  }
  void check() const {
    double wrong = 0, all = 0, lse_error = 0;
    std::vector<double> out;
    for (int row = 0; row < queries; ++row) {
      double log_sum = 0;
      const float given = lse[static_cast<std::size_t>(row)];
      if (expected(row, out, log_sum))
        lse_error = std::max(lse_error, std::isfinite(given) ? std::abs(given - log_sum) : INFINITY);
      else
        CHECK(given == -INFINITY);
      for (int d = 0; d < kWidth; ++d) {
        const double right = out[static_cast<std::size_t>(d)], error = at(o, row, d) - right;
        wrong += error * error, all += right * right;
      }
    }
    CHECK(std::sqrt(wrong / all) < kMaxError);
    CHECK(lse_error < kMaxLseError);
  }

  int queries, keys;
  std::vector<std::uint16_t> q, k, v, o;
  std::vector<float> lse;
  FmhaArgs args;
};

}  // namespace

TEST_CASE("chunks are right on the model of each family, at sizes where they begin and end inside blocks") {
  const std::uint64_t seed = samples::fresh_seed();
  CAPTURE(seed);
  for (const char* target : {"model:sm_80", "model:sm_90a", "model:sm_100a", "model:gfx942"}) {
    CAPTURE(target);
    const testing::Scratch scratch;
    Options options;
    options.cache_dir = scratch.path() + "/cache";
    options.target = target;
    Runtime runtime(options);
    struct Case {
      int queries, keys, chunk;
    };
    // Longer than the queries of a block; one key a row; more than there are; rows without a key.
    for (const Case& of : {Case{300, 900, 333}, Case{70, 140, 1}, Case{130, 130, 1000}, Case{200, 60, 20}}) {
      CAPTURE(of.queries);
      CAPTURE(of.chunk);
      Problem problem(of.queries, of.keys, of.chunk, seed);
      runtime.run("fmha", &problem.args);
      problem.check();
    }
  }
}

TEST_CASE(
    "the chunk is a field of the kernel: kernels with it have a name and a key of their own, others keep theirs") {
  FmhaConfig causal{DType::f16, kWidth, true}, chunked = causal;
  chunked.chunked = true;
  CHECK(ops::fmha_request(causal).name == "fmha_f16_d64_causal");
  CHECK(ops::fmha_request(chunked).name == "fmha_f16_d64_causal_chunk");
  CHECK(ops::fmha_small_key(causal) != ops::fmha_small_key(chunked));
  CHECK(ops::fmha_op().requests({{"chunked", {"true"}}, {"causal", {"true"}}}).front().name.find("_chunk") !=
        std::string::npos);
}

TEST_CASE("a chunk below 0, and one without the causal mask, are refused by name") {
  Problem negative(8, 8, -1, 1), full(8, 8, 4, 1);
  full.args.causal = false;
  for (const FmhaArgs* args : {&negative.args, &full.args}) {
    try {
      ops::fmha_op().validate(args, true);
      FAIL("passed");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find("chunk") != std::string::npos);
    }
  }
}
