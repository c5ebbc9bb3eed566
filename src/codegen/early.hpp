// Waits for fillings that the step before asks about.
//
// Decides which waits at the begin of a repeated step these are, and where the step before asks. A wait takes some
// forty cycles even where it is over at once. They pass while products are under way, and the next step waits only
// where the answer was no. Invariant: an answer of yes is what the wait would have seen.
#pragma once

#include <string>
#include <vector>

#include "codegen/timeline.hpp"

namespace tj::codegen {

/// A wait of a step, and the number of its site once its line is written.
struct EarlyWait {
  const Event* wait;
  int site = 0;
};
struct EarlyWaits {
  std::vector<EarlyWait> waits;
  const Event* asked_before = nullptr;  ///< the event of the step in front of which it asks for the next one
};

/// The early waits of a repeated step, which outlives the result. None where products are under way as it ends:
/// the unit has work then.
EarlyWaits early_waits(const std::vector<Event>& steady);

/// The variable that has the answer for a ring.
std::string answer_of(const std::string& ring);

}  // namespace tj::codegen
