// An op of which several kernels can serve one problem: which those are, and what running them takes.
//
// Decides how a problem is named, what may be chosen for it and which tensors it has. Measures nothing and keeps
// nothing. Invariant: a problem's fields, its key and arguments of its sizes stand for the same kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/tensor.hpp>

#include "arch/arch.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// A request without what is to be chosen, then sizes, in a fixed order: part of a record's key.
struct Problem {
  std::vector<std::pair<std::string, std::string>> fields;
  std::string name;  ///< "gemm_f16_kk 4096x4096x4096"
  double flops = 0;
};

/// One of the kernels that can serve a problem; in steps where the op says so.
struct Variant {
  Kernel kernel;     ///< its choice is not negative
  std::string name;  ///< "128x256x64"
  double predicted_cycles = 0;
};

/// A dense tensor that a problem reads or writes.
struct Operand {
  DType dtype = DType::f16;
  std::vector<std::int64_t> shape;    ///< as its memory lies, outermost first
  std::vector<std::int64_t> strides;  ///< in elements
  /// The tensor holds these, if it is of i32 and has no gaps. Empty: its values are random, or none where it is only
  /// written.
  std::vector<std::int32_t> numbers = {};
  /// Makes its bytes, in the place of random numbers, also of one that is written. Empty: as said above.
  std::function<std::string(std::uint64_t seed)> fill = {};

  /// The tensor, of memory at this place.
  Tensor view(Device device, void* data) const;
};

class Tunable {
 public:
  virtual ~Tunable() = default;

  /// The key that Op::problem_key() gives for args of its sizes.
  virtual ProblemKey key_of(const Problem& problem) const = 0;
  /// All kernels that can serve it: first the one that is taken where nothing was measured, then the others by
  /// predicted cycles.
  virtual std::vector<Variant> variants(const Problem& problem, const arch::Arch& arch) const = 0;

  /// Flags of sizes, of which a command line has at least one where it is about this op: "tokens".
  virtual std::span<const char* const> size_flags() const = 0;

  /// The problem of a call; of its tensors the sizes alone count.
  virtual Problem problem_of(const void* args) const = 0;
  /// The problems of a command line: every combination. Throws tj::Error(argument) naming flag, value and what is
  /// allowed.
  virtual std::vector<Problem> problems(const std::map<std::string, std::vector<std::string>>& flags) const = 0;
  /// The problem of these fields; empty when they are not those of one.
  virtual std::optional<Problem> problem_of(const std::vector<std::pair<std::string, std::string>>& fields) const = 0;

  virtual std::vector<Operand> operands(const Problem& problem) const = 0;
  /// Calls `use` with the op's public descriptor over tensors at these places, in the order of operands().
  virtual void with_args(const Problem& problem, Device device, std::span<void* const> places,
                         const std::function<void(const void*)>& use) const = 0;
};

/// The sizes among a problem's fields, those of these names, as flags.
std::map<std::string, std::vector<std::string>> size_flags_of(const Problem& problem,
                                                              std::span<const char* const> names);

/// The problem of these fields: what `make` makes of them. None where it has other fields, or where `make` throws
/// tj::Error or says that they are those of none.
std::optional<Problem> problem_of_fields(const std::vector<std::pair<std::string, std::string>>& fields,
                                         const std::function<std::optional<Problem>(const Problem& given)>& make);

}  // namespace tj::ops
