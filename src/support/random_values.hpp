// Values of a tensor's type, as bytes: operands of what is timed or checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tilejit/tensor.hpp>

namespace tj {

/// `count` elements of mean 0 and variance 1, rounded to nearest even; of f16, bf16, e4m3 or f32. Equal seeds give
/// equal bytes.
std::string normal_values(DType dtype, std::size_t count, std::uint64_t seed);

/// The largest number that the type has.
double most_of(DType dtype);
/// The element's bits, rounded to nearest even; of i32 to the whole number below. The value is within the type's range;
/// one whose exponent the type lacks becomes 0.
std::uint32_t bits_of(DType dtype, double value);
/// The number that the element's bits are; NaN and infinity as they stand.
double value_of(DType dtype, const void* element);

}  // namespace tj
