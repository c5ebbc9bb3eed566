// See own_ends.hpp.
#include "ops/gemm/own_ends.hpp"

#include <algorithm>

namespace tj::test {
namespace {

using Params = std::vector<float>;

constexpr std::int64_t kCount = 61;

double param(const Params& params, std::int64_t place) {
  const auto last = static_cast<std::int64_t>(params.size()) - 1;
  return static_cast<double>(params[static_cast<std::size_t>(place < 0 || place > last ? last : place)]);
}

constexpr EndExample kExamples[] = {
    {"return value > 0.0f ? value * value : 0.0f;",
     [](double value, std::int64_t, std::int64_t, std::int64_t, const Params&) {
       return value > 0 ? value * value : 0.0;
     },
     false},
    {"// scales of columns, as a table has them\n"
     "const float scale = params.f32(column);\n"
     "return value * scale + 0.125f * params.f32(row - 2);",
     [](double value, std::int64_t row, std::int64_t column, std::int64_t, const Params& params) {
       return value * param(params, column) + 0.125 * param(params, row - 2);
     },
     true},
    {"unsigned hash = unsigned(row) * 7919u + unsigned(column) * 104729u + unsigned(MATRIX) * 613u;\n"
     "hash ^= hash >> 7;\n"
     "return hash % 4u == 0u ? 0.0f : value * 1.25f;",
     [](double value, std::int64_t row, std::int64_t column, std::int64_t matrix, const Params&) {
       std::uint32_t hash = static_cast<std::uint32_t>(row) * 7919u + static_cast<std::uint32_t>(column) * 104729u +
                            static_cast<std::uint32_t>(matrix) * 613u;
       hash ^= hash >> 7;
       return hash % 4u == 0u ? 0.0 : value * 1.25;
     },
     false},
    {"const float most = params.f32(0);\nreturn value > most ? most : value < -most ? -most : value;",
     [](double value, std::int64_t, std::int64_t, std::int64_t, const Params& params) {
       const double most = param(params, 0);
       return std::clamp(value, -most, most);
     },
     true},
};

}  // namespace

const EndExample& end_example(int number) { return kExamples[number % kEndExamples]; }

const std::vector<float>& end_params() {
  static const Params params = [] {
    Params values;
    for (std::int64_t i = 0; i < kCount; ++i) values.push_back(0.5f + static_cast<float>(i * 37 % kCount) / 32.0f);
    values[0] = 2.5f;
    return values;
  }();
  return params;
}

}  // namespace tj::test
