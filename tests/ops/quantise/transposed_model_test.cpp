// Protects quantising to a transposed q on the CPU model: its bits and its scales are those of quantise() on a
// transposed copy of x, which model_test.cpp compares with f64; edges of units, batches, orders and types of scales,
// memory beside the results; and what is refused by name.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <tilejit/tilejit.h>
#include <tilejit/tilejit.hpp>

#include "common/half.hpp"
#include "ops/quantise/quantise.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

const Device kCpu{DeviceKind::cpu, 0};

struct Shape {
  std::int64_t batch = 1, m = 1, k = 1;
  DType dtype = DType::bf16;
  int padding = 0;      ///< elements between rows of x and of q
  bool by_row = false;  ///< scales are contiguous in blocks of M instead of K
  bool powers = false, packed = false;
};

/// x [B, M, K], and the same as [B, K, M].
struct Source {
  Source(const Shape& shape, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    const std::int64_t pitch = shape.k + shape.padding;
    x.assign(static_cast<std::size_t>(shape.batch * shape.m * pitch), 0x7fff);
    turned.resize(static_cast<std::size_t>(shape.batch * shape.m * shape.k));
    for (std::int64_t b = 0; b < shape.batch; ++b)
      for (std::int64_t m = 0; m < shape.m; ++m)
        for (std::int64_t k = 0; k < shape.k; ++k)
          turned[static_cast<std::size_t>((b * shape.k + k) * shape.m + m)] =
              x[static_cast<std::size_t>((b * shape.m + m) * pitch + k)] =
                  samples::from_float(normal(random), shape.dtype);
  }
  std::vector<std::uint16_t> x, turned;
};

/// Memory for q [B, K, M] and its scales, poisoned.
struct Results {
  explicit Results(const Shape& shape) {
    const std::int64_t pitch = shape.m + shape.padding, blocks = (shape.m + 127) / 128,
                       words = shape.packed ? (blocks + 3) / 4 : blocks;
    q.assign(static_cast<std::size_t>(shape.batch * shape.k * pitch), 0x7f);
    scales.assign(static_cast<std::size_t>(shape.batch * shape.k * words), 0xffffffffu);
    args.q = Tensor::strided(q.data(), kCpu, DType::e4m3, {shape.batch, shape.k, shape.m}, {shape.k * pitch, pitch, 1});
    args.scales =
        Tensor::strided(scales.data(), kCpu, shape.packed ? DType::i32 : DType::f32, {shape.batch, shape.k, words},
                        {shape.k * words, shape.by_row ? words : 1, shape.by_row ? 1 : shape.k});
    args.powers_of_two = shape.powers || shape.packed;
  }
  QuantiseArgs args;
  std::vector<std::uint8_t> q;
  std::vector<std::uint32_t> scales;
};

void check(const Shape& shape, unsigned seed) {
  const std::int64_t pitch = shape.k + shape.padding;
  Source source(shape, seed);
  Results found(shape), wanted(shape);
  found.args.x =
      Tensor::strided(source.x.data(), kCpu, shape.dtype, {shape.batch, shape.m, shape.k}, {shape.m * pitch, pitch, 1});
  found.args.transposed = true;
  wanted.args.x = Tensor::contiguous(source.turned.data(), kCpu, shape.dtype, {shape.batch, shape.k, shape.m});
  testing::model_runtime().run(found.args);
  testing::model_runtime().run(wanted.args);
  CHECK(found.q == wanted.q);
  CHECK(found.scales == wanted.scales);
}

std::string refusal(const std::function<void(QuantiseArgs&)>& change) {
  Shape shape;
  shape.m = 130;
  shape.k = 40;
  Source source(shape, 1);
  Results results(shape);
  results.args.x = Tensor::contiguous(source.x.data(), kCpu, shape.dtype, {1, shape.m, shape.k});
  results.args.transposed = true;
  change(results.args);
  return testing::said_by([&] { ops::validate(results.args, true); });
}

}  // namespace

TEST_CASE("bits of a transposed copy, at edges of units, with gaps, batches and each kind of scales") {
  unsigned seed = 1;
  for (const auto& size : {std::pair{1, 1}, {128, 32}, {129, 33}, {300, 256}, {16, 8}, {700, 70}, {143, 513}})
    for (const DType dtype : {DType::f16, DType::bf16}) {
      Shape shape;
      shape.batch = seed % 5 == 0 ? 3 : 1;
      shape.m = size.first;
      shape.k = size.second;
      shape.dtype = dtype;
      shape.padding = seed % 3 == 0 ? 5 : 0;
      shape.by_row = seed % 2 == 0;
      shape.powers = seed % 4 == 1;
      shape.packed = seed % 4 == 2;
      CAPTURE(size.first);
      CAPTURE(size.second);
      CAPTURE(seed);
      check(shape, seed++);
    }
}

TEST_CASE("what does not go with a transposed q is named") {
  using testing::has;
  CHECK(refusal([](QuantiseArgs&) {}) == "");
  CHECK(has(refusal([](QuantiseArgs& q) { q.x.dtype = DType::f32; }), "x.dtype is f32; allowed with transposed"));
  CHECK(has(refusal([](QuantiseArgs& q) { q.gate = Activation::silu; }), "gate is 3; allowed with transposed"));
  CHECK(has(refusal([](QuantiseArgs& q) { q.x.shape[1] = 131; }), "x.shape[1] (M) is 131"));
  CHECK(has(refusal([](QuantiseArgs& q) { q.x.shape[2] = 39; }), "x.shape[2] (K) is 39"));
  CHECK(has(refusal([](QuantiseArgs& q) { q.scales.shape[1] = 1; }), "scales.shape[1] (rows) is 1"));
  CHECK(has(refusal([](QuantiseArgs& q) { q.scales.shape[2] = 1; }), "scales.shape[2] (blocks of K) is 1"));
  QuantiseConfig config;
  config.transposed = true;
  CHECK_NOTHROW(ops::validate(config));
  config.row_indices = true;
  CHECK(has(testing::said_by([&] { ops::validate(config); }), "row_indices is given; allowed with transposed: none"));
  config.row_indices = false;
  config.tall = true;
  CHECK(has(testing::said_by([&] { ops::validate(config); }), "tall is true; allowed with transposed: false"));
  CHECK(has(testing::said_by(
                [] { static_cast<void>(ops::quantise_op().requests({{"transposed", {"true"}}, {"dtype", {"f32"}}})); }),
            "--transposed is 'true'; allowed with --dtype f16 and bf16"));
}

TEST_CASE("the structure of C says whether q is transposed") {
  const tj_tensor tensor{
      .size = sizeof(tj_tensor), .data = nullptr, .device = {}, .dtype = 0, .rank = 1, .shape = {1}, .strides = {1}};
  tj_quantise_args c{};
  c.size = sizeof c;
  c.x = c.q = c.scales = &tensor;
  CHECK(!ops::quantise_from_c(&c).transposed);
  c.transposed = 1;
  CHECK(ops::quantise_from_c(&c).transposed);
}
