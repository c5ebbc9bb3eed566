// Patterns whose steps can share a text: the compiler then reads a text that no longer grows with the number of stages.
//
// Decides whether they can. Does not write text. Invariant: a shared text does for a trip count what the pattern says
// for it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "codegen/timeline.hpp"

namespace tj::codegen {

/// The loop as one body. The pattern's first steps lack only waits for groups that are not under way yet, and the
/// events that follow from those waits.
struct Rolled {
  using Guarded = std::pair<int, Event>;
  std::vector<Guarded> body;  ///< each event with the step from which on it happens; the event is relative to the step
  std::vector<Guarded> end;   ///< each event with the trip count from which on it happens; the event is relative to n:
                              ///< before the tile-end nodes
};
/// Empty where steps differ in more, or where nothing is peeled.
std::optional<Rolled> roll(const Pattern& pattern);

/// Do steps at the begin and at the end of the loop lack only events of iterations outside the loop, and syncs? Then
/// one text serves all steps 0 to n - 1 + drain.size(), whatever n is. Each of its events runs for iterations 0 to n -
/// 1 alone. False where nothing runs behind: no step at the end lacks anything then.
bool lacks_iterations_alone(const Pattern& pattern);

/// Does an event of the repeating step belong to an iteration that the first steps may lack? The commit of a group does
/// not: an empty group keeps waits for groups what they are.
bool of_earlier(const Event& event);
/// Are the first steps the repeating one less products of earlier iterations, but for the numbers of groups that
/// waits leave? Then the text of the repeating step serves them, where such events have conditions.
bool begins_as_it_repeats(const Pattern& pattern);

}  // namespace tj::codegen
