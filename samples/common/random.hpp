// Normal random data that is the same on every machine (up to the last bit of its sin and cos).
//
// Decides the generator (splitmix64 and Box-Muller, both in our own code: std::normal_distribution differs between
// standard libraries). Invariant: element i of a stream depends on its seed and i alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tilejit/tensor.hpp>

namespace tj::samples {

/// 64 well-mixed bits of (seed, index).
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index);

/// `elements` values of mean 0 and variance 1, rounded to f16 or bf16.
std::vector<std::uint16_t> random_normal(std::size_t elements, DType dtype, std::uint64_t seed);

/// A seed from the operating system, for runs that were given none; print it.
std::uint64_t fresh_seed();

}  // namespace tj::samples
