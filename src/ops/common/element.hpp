// Element types in the texts of kernels.
//
// Decides what a type is called in device code. Does not decide which types an op takes: that is its validate().
// Invariant: no type stands for another: one that an op has no text for is refused by its name.
#pragma once

#include <string>
#include <string_view>

#include <tilejit/tensor.hpp>

namespace tj::ops {

/// "tj::dev::F16". Throws tj::Error(codegen, internal) naming op and type where there is no such text.
std::string element_text(std::string_view op, DType dtype);

/// For texts and plans that count elements of two bytes. Throws tj::Error(codegen, internal) naming op and type for any
/// other.
void require_two_bytes(std::string_view op, DType dtype);

}  // namespace tj::ops
