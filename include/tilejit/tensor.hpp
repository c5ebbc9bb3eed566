// A view of memory that somebody else owns.
//
// Decides how shapes, strides and places are written down. Does not allocate, copy or check.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <tilejit/export.hpp>

namespace tj {

/// Element types. f16 is IEEE binary16, bf16 the upper half of binary32. e4m3 is the 8-bit format of the OCP
/// specification: sign, 4 bits of exponent with bias 7, 3 bits of mantissa. It has no infinity, the largest value 448,
/// and one NaN for each sign, 0x7f and 0xff.
enum class DType : std::int32_t { f16 = 0, bf16 = 1, f32 = 2, i32 = 3, e4m3 = 4 };

/// The kind of memory a tensor lies in. `cpu` is for the model targets.
enum class DeviceKind : std::int32_t { cpu = 0, cuda = 1, hip = 2 };

struct Device {
  DeviceKind kind = DeviceKind::cuda;
  int index = 0;  ///< driver ordinal; 0 for cpu
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr int kMaxRank = 5;

/// Non-owning. Shapes in elements, strides in elements, outermost dimension first.
struct Tensor {
  void* data = nullptr;
  Device device{};
  DType dtype = DType::f16;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};

  /// A tensor with the last dimension contiguous and no gaps. Throws tj::Error for more than kMaxRank dimensions.
  TJ_API static Tensor contiguous(void* data, Device device, DType dtype, std::initializer_list<std::int64_t> shape);
  /// Any strides; shape and strides must have the same length, at most kMaxRank, else tj::Error.
  TJ_API static Tensor strided(void* data, Device device, DType dtype, std::initializer_list<std::int64_t> shape,
                               std::initializer_list<std::int64_t> strides);
};

/// A stream of the driver (CUstream, hipStream_t); null is the default stream. The model ignores it.
struct Stream {
  void* handle = nullptr;
};

/// Bytes of one element.
TJ_API int size_of(DType dtype) noexcept;
TJ_API const char* to_string(DType dtype) noexcept;
/// "cpu", "cuda:0", "hip:1".
TJ_API std::string to_string(Device device);

}  // namespace tj
