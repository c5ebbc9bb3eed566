// Ends of products by texts of device code, beside what they say in f64.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tilejit/tensor.hpp>

namespace tj::test {

/// An end of one's own in f64: of a value, its row, its column, and its matrix or group.
using OwnEnd = std::function<double(double value, std::int64_t row, std::int64_t column, std::int64_t matrix)>;
/// An end as device text and for the host. Its numbers are fewer than rows and columns that it asks for.
struct EndExample {
  const char* text;
  double (*on_host)(double value, std::int64_t row, std::int64_t column, std::int64_t matrix,
                    const std::vector<float>& params);
  bool reads;  ///< params
};
/// A squared relu; scales of columns and summands of rows; elements left out by their places; bounds from params.
inline constexpr int kEndExamples = 4;
const EndExample& end_example(int number);
/// The numbers that examples read, in memory that lasts.
const std::vector<float>& end_params();
/// told: the name of the matrix in the text. Gives a call the text, its numbers if it reads some, and the reference.
template <class Args>
void set_end(Args& args, OwnEnd& end, int number, const char* told = "batch") {
  const EndExample& example = end_example(number);
  std::string text = example.text;
  if (const auto at = text.find("MATRIX"); at != std::string::npos) text.replace(at, 6, told);
  args.end_text = text;
  if (example.reads)
    args.end_params = Tensor::contiguous(const_cast<float*>(end_params().data()), {DeviceKind::cpu, 0}, DType::f32,
                                         {static_cast<std::int64_t>(end_params().size())});
  end = [&example](double value, std::int64_t row, std::int64_t column, std::int64_t matrix) {
    return example.on_host(value, row, column, matrix, end_params());
  };
}

}  // namespace tj::test
