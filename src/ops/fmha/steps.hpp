// The steps of attention's ladder on matrix instructions of a warp: named constraints, each of which leaves its kernel
// one more of what makes it fast.
//
// Decides what each step is held to, and how it is named. Does not decide nodes and costs (sm80.cpp).
// Invariant: a step differs from the one before in the one thing that its name says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"

namespace tj::ops {

inline constexpr int kNoFmhaStep = 0;
inline constexpr int kLastFmhaStep = 6;
inline constexpr int kAnyNumber = 0;

struct FmhaStep {
  const char* name;          ///< "basic"
  bool natural_exponential;  ///< e^x of scaled scores, by a multiplication and a 2^x that keeps small results; else one
                             ///< multiply-add and 2^x
  bool transposes_keys;      ///< through shared memory, before the product
  int max_stages, max_slots;  ///< kAnyNumber: what the schedule finds
  int k_ahead,
      v_ahead;          ///< iterations that a copy is to be under way before its use, as far as memory goes; 0: no wish
  int blocks_per_sm;    ///< and no more, though there were room
  bool exact_division;  ///< of each output by its row's sum; else by a reciprocal that is approximated
};

/// By number; the first stands for none.
std::span<const FmhaStep> fmha_steps();

/// "none, 1 (basic), ...": what a step may be.
std::string fmha_step_names();

/// The field "step" of a request: "none", "basic", ... by number; numbers in their place; what a command line offers.
std::span<const char* const> fmha_step_words();
std::span<const char* const> fmha_step_numbers();
std::vector<std::string> fmha_step_flags();

/// Throws tj::Error(argument, invalid_argument) unless it is none or a step. Allocates nothing where it is.
void check_fmha_step(std::int32_t step);
/// Throws tj::Error(target, unsupported) for a step on an arch whose attention has none.
void require_fmha_steps(std::int32_t step, const arch::Arch& arch);

/// Slots of the rings of keys and values.
struct FmhaSlots {
  int k = 1, v = 1;
};
/// Those in which copies are as far ahead as a step asks, one more than iterations, but no more than `fit` together:
/// the deeper ring gives first, of equal ones that of keys.
FmhaSlots fmha_step_slots(const FmhaStep& step, std::int64_t fit);

/// What a step holds its kernel to, as fields of a request behind the step's name; none for none.
std::vector<std::pair<std::string, std::string>> fmha_step_fields(std::int32_t step);

}  // namespace tj::ops
