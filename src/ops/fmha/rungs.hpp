// The rungs of attention's ladder on matrix instructions of a warp: named constraints, each of which leaves its kernel
// one more of what makes it fast.
//
// Decides what each rung is held to, and how it is named. Does not decide nodes and costs (sm80.cpp).
// Invariant: a rung differs from the one before in the one thing that its name says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"

namespace tj::ops {

inline constexpr int kNoFmhaRung = 0;
inline constexpr int kLastFmhaRung = 6;
inline constexpr int kAnyNumber = 0;

struct FmhaRung {
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

/// The rungs by number; the first stands for none.
std::span<const FmhaRung> fmha_rungs();

/// The rungs that there are: "none, 1 (basic), ...".
std::string fmha_rung_names();

/// Words of the field "rung" in a request ("none", "basic", ...), the numbers that may stand in their place, and what a
/// command line offers.
std::span<const char* const> fmha_rung_words();
std::span<const char* const> fmha_rung_numbers();
std::vector<std::string> fmha_rung_flags();

/// Throws tj::Error(argument, invalid_argument) unless it is none or a rung. Allocates nothing where it is.
void check_fmha_rung(std::int32_t rung);
/// Throws tj::Error(target, unsupported) for a rung on an arch whose attention has none.
void require_fmha_rungs(std::int32_t rung, const arch::Arch& arch);

/// Slots of the rings of keys and values.
struct FmhaSlots {
  int k = 1, v = 1;
};
/// The slots with which copies are as far ahead as a rung asks: one more than iterations, but no more than `fit`
/// together. The deeper ring gives slots up first; of equal rings, that of keys.
FmhaSlots fmha_rung_slots(const FmhaRung& rung, std::int64_t fit);

/// The constraints of a rung, as fields of a request behind the rung's name; no fields for no rung.
std::vector<std::pair<std::string, std::string>> fmha_rung_fields(std::int32_t rung);

}  // namespace tj::ops
