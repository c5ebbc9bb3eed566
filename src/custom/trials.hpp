// Trials of a user's graph: tensors, the kernel's parameter and the expected results, so that the kernel can be checked
// and timed without a program of the user's.
//
// Decides what a trial may say, how the parameter's members lie, and what a result may differ by. Runs nothing
// (graph_op.hpp). Invariant: a trial that was read has tensors, boxes and members that a launch can have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <tilejit/custom.hpp>
#include <tilejit/tensor.hpp>

#include "custom/numbers.hpp"

namespace tj {

inline constexpr const char* kTrialUses[] = {"both", "check", "time"};
inline constexpr const char* kTrialParams[] = {"pointer", "map", "i32", "u32", "i64", "f32", "f64"};
inline constexpr const char* kTrialTypes[] = {"f16", "bf16", "f32", "i32", "e4m3"};  ///< in the order of DType

/// A trial of the kernel of one form for one machine, its numbers worked out.
struct ResolvedTrial {
  enum class Use { both, check, time };
  struct Tensor {
    std::string name;
    DType dtype = DType::f16;
    std::vector<std::int64_t> shape;
    bool written = false;
    Formula fill;      ///< empty: normal random values, or nothing where it is written
    Formula expected;  ///< empty: compared with nothing
    double tolerance = 0;

    std::size_t elements() const;
    std::size_t bytes() const { return elements() * static_cast<std::size_t>(size_of(dtype)); }
    tj::Tensor view(Device device, void* data, std::size_t rank) const;  ///< with dimensions of 1 before its own
  };
  enum class Kind { pointer, map, i32, u32, i64, f32, f64 };
  struct Param {
    Kind kind = Kind::i32;
    std::size_t offset = 0;
    std::size_t tensor = 0;  ///< of a pointer and a map
    custom::Box box;
    std::size_t rank = 0;  ///< of a map
    double number = 0;
  };

  std::string name;
  Use use = Use::both;
  std::vector<Tensor> tensors;
  std::vector<Param> params;
  std::size_t params_bytes = 0;
  std::string blocks;  ///< an expression, also of blocks_at_once
  Numbers numbers;
  graph::Fields fields{""};
  std::string place;  ///< "trials[2]"

  bool checks() const { return use != Use::time; }
  bool times() const { return use != Use::check; }
  /// Blocks of a launch where so many run at once. Throws tj::Error(graph).
  unsigned blocks_of(unsigned at_once) const;
  /// The bytes that a tensor holds before a launch; empty where nobody fills it. Throws tj::Error(graph) for a value
  /// that the type does not have.
  std::string content_of(std::size_t tensor, std::uint64_t seed) const;

  /// Says what is wrong with the results, "" where nothing is.
  using Judge = std::function<std::string(std::span<const void* const> places)>;
  /// Works out what is expected, from what the tensors hold before a launch. The trial must outlive it.
  Judge judge(std::span<const void* const> places) const;
  bool judges() const;
};

/// The trials of a document in the form with these names. Throws tj::Error by the fields, with place, value and what is
/// allowed.
std::vector<ResolvedTrial> read_trials(const graph::Fields& fields, const graph::Json& list,
                                       const NumberReader& numbers);

}  // namespace tj
