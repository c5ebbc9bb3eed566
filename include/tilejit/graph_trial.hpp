// Trials of a graph: launches by which its kernel is checked and timed without a program. Members have the names and
// the meaning of the keys of the JSON form: src/graph/README.md, "Trials".
//
// Decides what a trial can say. Plain data: nothing is checked before it is used (Graph::check()).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <tilejit/export.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

/// A name that expressions may use.
struct GraphParameter {
  std::string name{};
  std::string value{};  ///< a number or an expression, which may use facts and the parameters before it
  bool operator==(const GraphParameter&) const = default;
};

/// A tensor of a trial, without gaps. Formulas are expressions that may also use i0, i1, ..., the element's indices,
/// comparisons, abs, exp, log, sqrt, tanh, erf, sin, cos, where, mod.
struct GraphTrialTensor {
  std::string name{};
  DType dtype = DType::f16;
  std::vector<std::string> shape{};  ///< numbers or expressions, 1 to 5 of them
  /// A formula of what it holds, also of `normal` and `uniform`, random numbers of mean 0 and from 0 to 1. Empty:
  /// "normal", or nothing where it is written.
  std::string fill{};
  bool written = false;  ///< the kernel may write it
  /// A formula of what it holds then, also of the tensors before the launch: "sum(l, k, a[i0, l] * b[i1, l])". Empty:
  /// not compared.
  std::string expected{};
  /// A result may differ by so much, times the expected number where that is above 1. None: by the type.
  std::optional<double> tolerance{};
  bool operator==(const GraphTrialTensor&) const = default;
};
/// A member of the kernel's parameter in a trial.
struct GraphTrialParam {
  enum class Kind { pointer, map, i32, u32, i64, f32, f64 };
  Kind kind = Kind::i32;
  std::string of{};                ///< a tensor's name for a pointer and a map, else a number or an expression
  std::vector<std::string> box{};  ///< of a map: custom::Box::shape
  int swizzle_bytes = 128;         ///< of a map
  bool operator==(const GraphTrialParam&) const = default;
};
/// A launch by which the graph's kernel is checked and timed, without a program: tj-check --graph, tj-warm --tune.
struct GraphTrial {
  enum class Use { both, check, time };
  std::string name{};  ///< unique, 1 to 64 letters, digits, '_', '-' and '.'
  Use use = Use::both;
  std::vector<GraphParameter> sizes{};  ///< further names for its expressions
  std::vector<GraphTrialTensor> tensors{};
  std::vector<GraphTrialParam> params{};  ///< the members of params_type, in their order
  std::string blocks{};                   ///< of the launch: an expression, also of blocks_at_once
  bool operator==(const GraphTrial&) const = default;
};

}  // namespace tj
