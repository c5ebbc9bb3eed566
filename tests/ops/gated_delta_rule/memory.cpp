// See memory.hpp.
#include "ops/gated_delta_rule/memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/half.hpp"
#include "ops/gemm/problem.hpp"

namespace tj::test {
namespace {

const Device kCpu{DeviceKind::cpu, 0};
Tensor tensor_of(void* data, DType dtype, const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& strides) {
  Tensor tensor;
  tensor.data = data;
  tensor.device = kCpu;
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape.begin());
  std::copy(strides.begin(), strides.end(), tensor.strides.begin());
  return tensor;
}

/// The nearest element; of two the smaller one, and no -0. Elements rise with their bits up to 0x7e, the largest.
std::uint8_t nearest_e4m3(double value) {
  const double size = std::abs(value);
  int above = 1;
  for (int step = 64; step > 0; step /= 2)
    if (above + step <= 0x7e && from_e4m3(static_cast<std::uint8_t>(above + step - 1)) < size) above += step;
  const double lower = from_e4m3(static_cast<std::uint8_t>(above - 1)),
               upper = from_e4m3(static_cast<std::uint8_t>(above));
  const int best = upper - size < size - lower ? above : above - 1;
  return static_cast<std::uint8_t>(best > 0 && value < 0 ? best | 0x80 : best);
}

}  // namespace

Tensor list_tensor(std::vector<std::int32_t>& list) {
  return tensor_of(list.data(), DType::i32, {static_cast<std::int64_t>(list.size())}, {1});
}

std::size_t Memory::at(std::initializer_list<std::int64_t> place) const {
  std::int64_t at = 0;
  std::size_t axis = 0;
  for (const std::int64_t i : place) at += i * strides[axis++];
  return static_cast<std::size_t>(at) * static_cast<std::size_t>(size_of(dtype));
}
double Memory::get(std::initializer_list<std::int64_t> place) const {
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at(place), 4);
    return static_cast<double>(value);
  }
  if (dtype == DType::e4m3) return from_e4m3(bytes[at(place)]);
  std::uint16_t half = 0;
  std::memcpy(&half, bytes.data() + at(place), 2);
  return static_cast<double>(samples::to_float(half, dtype));
}
void Memory::set(std::initializer_list<std::int64_t> place, double value) {
  if (dtype == DType::e4m3) {
    bytes[at(place)] = nearest_e4m3(value);
    return;
  }
  const auto number = static_cast<float>(value);
  const std::uint16_t half = dtype == DType::f32 ? std::uint16_t{0} : samples::from_float(number, dtype);
  if (dtype == DType::f32)
    std::memcpy(bytes.data() + at(place), &number, 4);
  else
    std::memcpy(bytes.data() + at(place), &half, 2);
}

Tensor make_tensor(Memory& memory, DType dtype, std::vector<std::int64_t> shape, int padding,
                   const std::function<double()>& each) {
  memory.dtype = dtype;
  memory.shape = shape;
  memory.strides.assign(shape.size(), 1);
  std::int64_t pitch = shape.back() + padding;
  for (std::size_t i = shape.size() - 1; i-- > 0;) {
    memory.strides[i] = pitch;
    pitch = pitch * shape[i] + padding;
  }
  const auto bytes = static_cast<std::size_t>(size_of(dtype));
  memory.bytes.assign((static_cast<std::size_t>(pitch) + 16) * bytes, kPoison);
  Memory flat = memory;
  flat.strides = {1};
  if (each) {
    std::vector<std::int64_t> place(shape.size(), 0);
    for (bool more = true; more;) {
      std::int64_t at = 0;
      for (std::size_t i = 0; i < shape.size(); ++i) at += place[i] * memory.strides[i];
      flat.set({at}, each());
      more = false;
      for (std::size_t i = shape.size(); i-- > 0 && !more;) {
        more = ++place[i] < shape[i];
        if (!more) place[i] = 0;
      }
    }
    memory.bytes = std::move(flat.bytes);
  }
  return tensor_of(memory.bytes.data(), dtype, shape, memory.strides);
}

}  // namespace tj::test
