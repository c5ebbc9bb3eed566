// Normal random values of a tensor's type, as bytes: operands of what is timed or checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tilejit/tensor.hpp>

namespace tj {

/// `count` elements of mean 0 and variance 1, rounded to nearest even; of f16, bf16, e4m3 or f32. Equal seeds give
/// equal bytes.
std::string normal_values(DType dtype, std::size_t count, std::uint64_t seed);

}  // namespace tj
