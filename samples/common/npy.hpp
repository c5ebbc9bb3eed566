// NumPy's .npy files, the part that samples need.
//
// Decides which files are read: versions 1 to 3, f16 and f32, little endian, C order. Everything else is a tj::Error
// (stage argument) that names the file and what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/tensor.hpp>

namespace tj::samples {

/// A dense array in host memory, last dimension contiguous.
struct Array {
  DType dtype = DType::f16;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;

  std::int64_t elements() const;
};

/// Throws tj::Error: io when the file cannot be read, invalid_argument or unsupported when it is not such a file.
Array read_npy(const std::string& path);

/// Version 1.0. f16 and f32 only. Throws tj::Error (io, unsupported).
void write_npy(const std::string& path, const Array& array);

}  // namespace tj::samples
