// Problems that an op brings for being checked: tensors in host memory, of sizes that a command line may change.
//
// Decides how sizes are read, and what a trial consists of. Does not decide how it is run (src/check/), nor what is
// looked for. Invariant: equal flags give equal trials; what a kernel may read is given or random, what it writes is
// neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tilejit/tensor.hpp>

#include "ops/common/op_flags.hpp"
#include "ops/common/tunable.hpp"

namespace tj::ops {

/// A tensor of a trial.
struct TrialTensor {
  std::string name;  ///< "k"
  Operand operand;
  bool written = false;  ///< alone: it holds nothing when the kernel begins
  std::size_t room = 0;  ///< elements that there is memory for, where that is more than up to the last

  std::size_t elements() const;  ///< from the first to the last, gaps and room included
  std::size_t bytes() const { return elements() * static_cast<std::size_t>(size_of(operand.dtype)); }
};
/// A tensor without gaps.
TrialTensor dense(std::string name, DType dtype, std::vector<std::int64_t> shape, bool written = false);
TrialTensor list_of(std::string name, std::vector<std::int64_t> shape, std::vector<std::int32_t> numbers);

/// A problem to check kernels by.
struct Trial {
  std::string name;           ///< "batch 1, heads 2, ...": its sizes
  std::string flags;          ///< "--dtype f16 --seq-q 200": a command line that makes this trial alone
  std::string kernel_flags;   ///< "--dtype f16": a command line that makes all trials of its kernel
  std::optional<int> choice;  ///< how it is served, by an op that can choose; empty: as any call
  /// Says what is wrong with results in host memory, "" where nothing is.
  using Judge = std::function<std::string(std::span<const void* const> places)>;
  /// Works out the expected results from what the tensors hold before. Empty: values are not compared.
  std::function<Judge(std::span<const void* const> places)> judge = {};
  std::vector<TrialTensor> tensors;
  unsigned multiprocessors = 1;  ///< that checks run it on, of clusters, unless blocks draw their tiles
  /// Calls `use` with the op's descriptor over tensors at these places, in the order of `tensors`, in memory of this
  /// device.
  std::function<void(Device device, std::span<void* const> places, const std::function<void(const void* args)>& use)>
      with_args;
};

/// Sizes of a command line: takes the flags that are such out of `flags`, which leaves those that choose kernels.
class Sizes {
 public:
  /// Throws tj::Error(argument) naming flag, value and what is allowed.
  Sizes(std::string_view op, Flags& flags, std::vector<std::pair<const char*, std::int64_t>> defaults);

  std::int64_t at(std::string_view name) const;
  bool given(std::string_view name) const;
  bool any_given() const;
  /// Sets a default that depends on the kernel.
  void set_default(std::string_view name, std::int64_t value);
  /// "--seq-q 200 --seq-k 700".
  std::string flags() const;

 private:
  struct Size {
    const char* name;
    std::int64_t value;
    bool given;
  };
  std::vector<Size> sizes_;
};

/// A list of numbers from 0 on in place of one, taken out of `flags`. Throws as Sizes does, and where their sum does
/// not fit 32 bits.
std::vector<std::int64_t> take_list(Flags& flags, const char* name, std::vector<std::int64_t> otherwise);

/// The choices with one default each, false of "both": a trial that was not asked for in detail is one trial.
std::vector<FlagChoice> first_of_each(std::vector<FlagChoice> choices);

}  // namespace tj::ops
