// Patterns whose steps can share a text: what the compiler reads then no longer grows with the number of stages.
//
// Decides whether they can. Does not write text. Invariant: what a shared text does for a trip count is what the
// pattern says for it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "codegen/timeline.hpp"

namespace tj::codegen {

/// The loop as one body, for a pattern whose first steps lack nothing of the steady one but waits for what is not under
/// way yet, and what follows from them.
struct Rolled {
  using Guarded = std::pair<int, Event>;
  std::vector<Guarded> body;  ///< from which step on, and the event relative to the step
  std::vector<Guarded> end;   ///< from which trip count on, and the event relative to n: before the tile-end nodes
};
/// Empty where steps differ in more, or where nothing is peeled.
std::optional<Rolled> roll(const Pattern& pattern);

/// Do steps at the begin and at the end of the loop lack what belongs to iterations that there are none of, and nothing
/// else but syncs? Then one text, each event of which is for an iteration in 0 to n - 1, serves all steps 0 to n - 1 +
/// drain.size(), whatever n is. False where nothing runs behind: no step at the end lacks anything then.
bool lacks_iterations_alone(const Pattern& pattern);

}  // namespace tj::codegen
