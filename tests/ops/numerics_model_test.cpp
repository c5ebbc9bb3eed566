// Protects what src/ops/NUMERICS.md says of special values: where NaN, infinities, overflow and zeros of either sign in
// the operands come out, on every family of matrix instructions. Protects also that equal calls give equal bits,
// whatever the order of events. limits_test.cpp tests which sizes are refused, and the ops' own tests how far finite
// results are from f64.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/half.hpp"
#include "ops/chunk_o/problem.hpp"
#include "ops/fmha/problem.hpp"
#include "ops/gemm/problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr const char* kFamilies[] = {"model:sm_90a", "model:sm_80", "model:sm_100a", "model:gfx1100"};
constexpr std::uint16_t kNan = 0x7e00, kInfinity = 0x7c00, kLargest = 0x7bff, kNegativeZero = 0x8000;

/// "0-3,7".
std::string ranges(const std::set<int>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int first = *at;
    int last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    text += (text.empty() ? "" : ",") + std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
  }
  return text.empty() ? "none" : text;
}

/// Rows and columns of a matrix that hold something.
struct Found {
  std::set<int> rows, columns;
  void add(int row, int column) {
    rows.insert(row);
    columns.insert(column);
  }
  std::string text(const char* what) const {
    return rows.empty() ? std::string()
                        : std::string(what) + " rows " + ranges(rows) + " columns " + ranges(columns) + "; ";
  }
};

std::uint16_t& at(const Tensor& tensor, std::int64_t row, std::int64_t column) {
  return static_cast<std::uint16_t*>(
      tensor.data)[row * tensor.strides[static_cast<std::size_t>(tensor.rank - 2)] + column];
}

/// The special values in o and lse of 70 queries of 64 elements.
std::string attention(const std::string& target, bool causal, int keys, const std::function<void(FmhaArgs&)>& change) {
  test::FmhaProblem problem({1, 1, 1, 70, keys, 64, DType::f16, causal, false, true}, 9300);
  change(problem.args);
  testing::model_runtime(target).run(problem.args);
  Found nan, infinite;
  std::set<int> nan_lse, infinite_lse;
  for (int row = 0; row < 70; ++row) {
    for (int column = 0; column < 64; ++column) {
      const int size = at(problem.args.o, row, column) & 0x7fff;
      if (size > kInfinity) nan.add(row, column);
      if (size == kInfinity) infinite.add(row, column);
    }
    const float lse = static_cast<const float*>(problem.args.lse->data)[row];
    if (std::isnan(lse)) nan_lse.insert(row);
    if (std::isinf(lse)) infinite_lse.insert(row);
  }
  return nan.text("NaN") + infinite.text("infinite") + (nan_lse.empty() ? "" : "NaN lse " + ranges(nan_lse) + "; ") +
         (infinite_lse.empty() ? "" : "infinite lse " + ranges(infinite_lse) + "; ");
}

std::string text_of(float value) {
  std::ostringstream out;
  if (value == 0 && std::signbit(value)) return "-0";
  if (std::isnan(value)) return "nan";
  out << value;
  return out.str();
}

}  // namespace

TEST_CASE("attention: where what is no number comes out, on every family") {
  struct Case {
    const char* what;
    int keys;
    std::function<void(FmhaArgs&)> change;
    const char* out;
  };
  // Causal, 70 queries: row r sees keys up to r + keys - 70. Key 30 is seen from row 30 on.
  const Case cases[] = {
      {"a query's NaN: its row", 70, [](FmhaArgs& a) { at(a.q, 30, 7) = kNan; },
       "NaN rows 30 columns 0-63; NaN lse 30; "},
      {"a query's infinity: likewise, as scores of either sign are infinite", 70,
       [](FmhaArgs& a) { at(a.q, 30, 7) = kInfinity; }, "NaN rows 30 columns 0-63; NaN lse 30; "},
      {"a key's NaN: the rows that see it, and no other", 70, [](FmhaArgs& a) { at(a.k, 30, 7) = kNan; },
       "NaN rows 30-69 columns 0-63; NaN lse 30-69; "},
      {"a value's NaN: its column, also of rows of the same tile that do not see it: 0 times NaN", 70,
       [](FmhaArgs& a) { at(a.v, 30, 3) = kNan; }, "NaN rows 0-69 columns 3; "},
      {"a value's infinity: its column, NaN where it is not seen", 70, [](FmhaArgs& a) { at(a.v, 30, 3) = kInfinity; },
       "NaN rows 0-29 columns 3; infinite rows 30-69 columns 3; "},
      {"the largest values: no overflow, as weights add up to 1", 70,
       [](FmhaArgs& a) {
         for (int row = 0; row < 70; ++row)
           for (int column = 0; column < 64; ++column) at(a.v, row, column) = kLargest;
       },
       ""},
      {"rows without a key: o 0, lse -infinity", 40, [](FmhaArgs&) {}, "infinite lse 0-29; "},
      {"rows without a key stay 0 beside a NaN", 40, [](FmhaArgs& a) { at(a.v, 0, 3) = kNan; },
       "NaN rows 30-69 columns 3; infinite lse 0-29; "},
  };
  for (const char* target : kFamilies)
    for (const Case& each : cases) {
      CAPTURE(target);
      CAPTURE(each.what);
      CHECK(attention(target, true, each.keys, each.change) == each.out);
    }
}

TEST_CASE(
    "attention: a key's infinity makes a row NaN where its score is +infinity, and does nothing where it is "
    "-infinity") {
  const test::FmhaProblem known({1, 1, 1, 70, 70, 64, DType::f16, true, false, true}, 9300);
  std::set<int> wanted;
  for (int row = 30; row < 70; ++row)
    if ((at(known.args.q, row, 7) & 0x8000) == 0) wanted.insert(row);
  const std::string rows = ranges(wanted);
  for (const char* target : kFamilies) {
    CAPTURE(target);
    CHECK(attention(target, true, 70, [](FmhaArgs& a) { at(a.k, 30, 7) = kInfinity; }) ==
          "NaN rows " + rows + " columns 0-63; NaN lse " + rows + "; ");
  }
}

TEST_CASE(
    "products: NaN, infinity, overflow, zeros and subnormals, as IEEE 754 has them, on every family; then the "
    "activation") {
  // Rows of a, all of one number; column 0 of d is their sum over 64, column 1 their product with zeros.
  struct Row {
    std::uint16_t value;
    const char* sum[3];  ///< none, relu, gelu
    const char* of_zeros;
  };
  const Row rows[] = {{kNan, {"nan", "nan", "nan"}, "nan"},
                      {kInfinity, {"inf", "inf", "inf"}, "nan"},
                      {kInfinity | 0x8000, {"-inf", "0", "0"}, "nan"},
                      {kLargest, {"inf", "inf", "inf"}, "0"},  // 64 times 65504 in f32, rounded to f16
                      {kLargest | 0x8000, {"-inf", "0", "0"}, "0"},
                      {0, {"0", "0", "0"}, "0"},
                      {kNegativeZero, {"0", "0", "0"}, "0"},  // sums begin at +0
                      {1, {"3.8147e-06", "3.8147e-06", "1.90735e-06"}, "0"},
                      {0x3c00, {"64", "64", "64"}, "0"}};
  for (const char* target : kFamilies)
    for (int activation = 0; activation < 3; ++activation) {
      if (activation > 0 && target != kFamilies[0]) continue;  // one text for all
      test::GemmShape shape = test::gemm_shape(70, 64, 64);
      shape.activation = static_cast<Activation>(activation);
      test::GemmProblem problem(shape, 5);
      for (int row = 0; row < 70; ++row)
        for (int k = 0; k < 64; ++k)
          at(problem.args.a, row, k) =
              rows[std::min<std::size_t>(static_cast<std::size_t>(row), std::size(rows) - 1)].value;
      for (int column = 0; column < 64; ++column)
        for (int k = 0; k < 64; ++k) at(problem.args.b, column, k) = column == 1 ? 0 : 0x3c00;
      problem.run(testing::model_runtime(target), kCpu);
      for (int row = 0; row < static_cast<int>(std::size(rows)); ++row) {
        CAPTURE(target);
        CAPTURE(activation);
        CAPTURE(row);
        CHECK(text_of(samples::to_float(at(problem.args.d, row, 0), DType::f16)) == rows[row].sum[activation]);
        CHECK(text_of(samples::to_float(at(problem.args.d, row, 1), DType::f16)) == rows[row].of_zeros);
      }
    }
}

TEST_CASE("chunk output: where a NaN or an infinity of token 20 comes out") {
  struct Case {
    const char* what;
    std::function<void(ChunkOArgs&)> change;
    const char* out[2];  ///< of each value head
  };
  const auto put = [](const Tensor& tensor, std::int64_t first, std::int64_t second, std::int64_t column,
                      std::uint16_t value) {
    static_cast<std::uint16_t*>(tensor.data)[first * tensor.strides[0] + second * tensor.strides[1] + column] = value;
  };
  constexpr std::uint16_t nan = 0x7fc0, infinity = 0x7f80;
  const Case cases[] = {
      {"a query's: its token, in every head that shares it",
       [&](ChunkOArgs& a) { put(a.q, 20, 0, 3, nan); },
       {"NaN rows 20 columns 0-127; ", "NaN rows 20 columns 0-127; "}},
      {"a key's: the tokens of the chunk from it on",
       [&](ChunkOArgs& a) { put(a.k, 20, 0, 3, nan); },
       {"NaN rows 20-63 columns 0-127; ", "NaN rows 20-63 columns 0-127; "}},
      {"a value's: its column of the whole chunk: 0 times NaN before it",
       [&](ChunkOArgs& a) { put(a.v_new, 20, 1, 3, nan); },
       {"", "NaN rows 0-63 columns 3; "}},
      {"a value's infinity: NaN before it",
       [&](ChunkOArgs& a) { put(a.v_new, 20, 1, 3, infinity); },
       {"", "NaN rows 0-19 columns 3; infinite rows 20-63 columns 3; "}},
      {"the state's: the column of its row, of the chunk",
       [&](ChunkOArgs& a) { put(a.h, 0, 1, 5 * 128 + 9, nan); },
       {"", "NaN rows 0-63 columns 5; "}},
      {"a gate's: the tokens from it on",
       [&](ChunkOArgs& a) { static_cast<float*>(a.g_cu->data)[20 * a.g_cu->strides[0] + 1] = std::nanf(""); },
       {"", "NaN rows 20-63 columns 0-127; "}},
  };
  for (const char* target : {"model:sm_90a", "model:sm_100a"})
    for (const Case& each : cases) {
      CAPTURE(target);
      CAPTURE(each.what);
      test::ChunkOShape shape;
      shape.lengths = {64, 30};
      shape.v_heads = 2;
      test::ChunkOProblem problem(shape, 77);
      each.change(problem.args);
      testing::model_runtime(target).run(problem.args);
      for (int head = 0; head < 2; ++head) {
        Found not_numbers, infinite;
        for (int row = 0; row < 94; ++row)
          for (int column = 0; column < 128; ++column) {
            const int size =
                static_cast<std::uint16_t*>(
                    problem.args.o.data)[row * problem.args.o.strides[0] + head * problem.args.o.strides[1] + column] &
                0x7fff;
            if (size > infinity) not_numbers.add(row, column);
            if (size == infinity) infinite.add(row, column);
          }
        CHECK(not_numbers.text("NaN") + infinite.text("infinite") == each.out[head]);
      }
    }
}

TEST_CASE("equal calls give equal bits, whatever the order of events") {
  std::vector<std::vector<unsigned char>> results[3];
  const auto bytes_of = [](const Tensor& tensor) {
    std::int64_t elements = 1;
    for (int i = 0; i < tensor.rank; ++i) elements *= tensor.shape[static_cast<std::size_t>(i)];
    const auto* begin = static_cast<const unsigned char*>(tensor.data);
    return std::vector<unsigned char>(begin, begin + elements * size_of(tensor.dtype));
  };
  testing::Scratch cache;
  for (const std::uint64_t seed : {1, 2, 3}) {
    Options options;
    options.target = "model:sm_90a";
    options.cache_dir = cache.path();
    options.model_seed = seed;
    Runtime runtime(options);
    test::FmhaProblem attended({1, 2, 1, 70, 300, 64, DType::f16, true, false, true}, 11);
    runtime.run(attended.args);
    results[0].push_back(bytes_of(attended.args.o));
    test::GemmProblem product(test::gemm_shape(70, 64, 4096), 12);  // few tiles and a long K: in parts
    product.run(runtime, kCpu);
    results[1].push_back(product.result());
    test::ChunkOShape shape;
    shape.lengths = {70, 64};
    shape.v_heads = 2;
    test::ChunkOProblem chunks(shape, 13);
    runtime.run(chunks.args);
    results[2].push_back(bytes_of(chunks.args.o));
  }
  for (const auto& of_op : results)
    for (const auto& result : of_op) CHECK(result == of_op.front());
}
