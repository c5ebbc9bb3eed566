// A unit's text with other ring depths: one role counts a ring's slots otherwise than the rest, or all count one more.
//
// Decides where in a unit's text a role begins and ends, from its comments and indentation. Knows no op and no arch.
// Invariant: nothing but the depth that those calls go by is changed.
#pragma once

#include <string>
#include <vector>

namespace tj::check {

struct RingText {
  std::string ring;  ///< "RingK"
  std::string what;  ///< "ring RingK one slot deeper for role load"
  std::string text;  ///< the text of the unit
};

/// Variants for each ring and each part of the text that stands for one role or for several alike. One slot more, and
/// one slot less where the ring has two or more. Besides, each ring with one slot more for all roles. Empty for a unit
/// without rings. filled_once: rings of which every depth gives the same slot and phase; they get no variants.
std::vector<RingText> ring_mutants(const std::string& unit, const std::vector<std::string>& filled_once = {});

}  // namespace tj::check
