// Element types between requests, graphs and the texts of kernels: their names in both directions.
//
// Decides what a type is called in device code. Does not decide which types an op takes: that is its validate().
// Invariant: no type stands for another: one that an op has no text for is refused by its name.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <tilejit/tensor.hpp>

namespace tj::ops {

/// "tj::dev::F16". Throws tj::Error(codegen, internal) naming op and type where there is no such text.
std::string element_text(std::string_view op, DType dtype);

/// The type that a field of a request names. Throws tj::Error(argument, internal) naming op and word where it is none
/// of the allowed.
DType element_named(std::string_view op, std::string_view word, std::initializer_list<DType> allowed);

/// For texts and plans that count elements of two bytes. Throws tj::Error(codegen, internal) naming op and type for any
/// other.
void require_two_bytes(std::string_view op, DType dtype);

}  // namespace tj::ops
