// Notes of a unit about itself, read back: the sites that can be switched off, and the kind and text of each.
//
// Decides which kinds of sites can be weakened instead. Does not decide what that means (src/launch/).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tj::check {

/// One wait, arrival, announcement, fence, commit or sync of a kernel.
struct Site {
  int id = 0;
  std::string kind;  ///< "wait", "arrive", "expect", "fence", ...
  std::string text;  ///< "role load, prologue: wait ring k empty"
};

/// The sites in the JSON that a loaded kernel carries (kernel_templates/README.md), in its order; none where it says
/// nothing. Throws tj::Error(load) when it is not such JSON.
std::vector<Site> sites_of(std::string_view notes);

/// The rings that a block fills once at most, as the unit's text names them ("RingQ"): whatever their depth, slot and
/// phase are the first.
std::vector<std::string> rings_filled_once(std::string_view notes);

/// Can it do less than it should, besides nothing at all?
bool can_be_weakened(const Site& site);

}  // namespace tj::check
