// Nodes whose bodies have variants: the steps in which a role runs these.
//
// Decides the bounds of those steps, and their text. Does not decide how the loop is written (role_text). Invariant: a
// step between the bounds has an iteration of its range for each such node of the role; what runs in a step does not
// depend on Graph::ranges.
#pragma once

#include <string>
#include <vector>

#include "codegen/family_text.hpp"
#include "codegen/writer.hpp"

namespace tj::codegen {

/// "dev::Fast", or a type of the graph's namespace.
std::string tag_of(const std::string& variant);

/// The range of steps of a family of roles.
class StepRange {
 public:
  explicit StepRange(const FamilyText& family);
  /// Has the role a node with a variant?
  bool any() const { return any_; }
  /// May steps behind the range have iterations?
  bool ends() const { return !ends_.empty(); }
  /// Must steps from `first` on ask whether they are in the range? Else all of them are.
  bool asks(int first) const { return ends() || general_steps_ > first; }
  /// No tile has more steps before the range.
  int general_steps() const { return general_steps_; }
  /// The unit's variables: the first step of the range, and the one behind its last.
  static constexpr const char *kFirst = "first_fast", *kBehind = "behind_fast";
  /// Declares those of the two that asks(first) is about.
  void declare(Writer& w, int first) const;
  /// "s >= first_fast && s < behind_fast", of steps that are `first` and later. begin: a variable of the range's first.
  std::string holds(int first, const std::string& begin = kFirst) const;

 private:
  using Bound = std::string;  ///< "fast_begin(consumer0, tile) + 1"
  bool any_ = false;
  int general_steps_ = 0;
  std::vector<Bound> begins_, ends_;
};

}  // namespace tj::codegen
