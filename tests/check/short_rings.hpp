// An op whose kernels have few slots in each ring, and blocks that do tile after tile, in a walk of the test's. So a
// ring comes round within a short run, and every site there can be missed.
//
// Decides which of the op's shapes are tried and what is asked of their schedules. Invariant: all else is the op's own,
// so that tj-check's problems and judgement hold for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/common/trial.hpp"
#include "ops/op.hpp"

namespace tj::testing {

enum class Shape {
  any,
  first,
  last
};  ///< of an op's candidates: the first is the best guess, the last is what always fits

class ShortRings : public ops::Op {
 public:
  /// Slots at most; 0 leaves the rings as they are. walk: in the place of the op's own; none: that.
  ShortRings(const ops::Op& op, int slots, std::optional<graph::Walk> walk, Shape shape)
      : op_(op), slots_(slots), walk_(walk), shape_(shape) {}

  std::vector<ops::Candidate> candidates(const ops::Request& request, const arch::Arch& arch) const override {
    std::vector<ops::Candidate> list = op_.candidates(request, arch);
    if (shape_ == Shape::first) list.erase(list.begin() + 1, list.end());
    if (shape_ == Shape::last) list.erase(list.begin(), list.end() - 1);
    for (ops::Candidate& candidate : list) {
      if (slots_ > 0) candidate.max_slots = slots_;
      if (walk_) walk(candidate);
    }
    return list;
  }
  void steps(const void* args, const ops::Kernel& kernel, void* scratch, const ops::EachStep& each) const override {
    op_.steps(args, kernel, scratch,
              [&](const ops::Step& step) { each({step.op == &op_ ? this : step.op, step.args, step.kernel}); });
  }

  std::string_view name() const override { return op_.name(); }
  ops::Geometry geometry(const ops::Request& request, const ops::Candidate& candidate) const override {
    return op_.geometry(request, candidate);
  }
  ops::GeometryFields geometry_fields() const override { return op_.geometry_fields(); }
  const std::vector<ops::TemplateText>& templates() const override { return op_.templates(); }
  void validate(const void* args, bool on_model) const override { op_.validate(args, on_model); }
  Device device_of(const void* args) const override { return op_.device_of(args); }
  ops::ProblemKey problem_key(const void* args) const override { return op_.problem_key(args); }
  ops::Kernel choose(const ops::ProblemKey& problem, const arch::Arch& arch) const override {
    return op_.choose(problem, arch);
  }
  ops::Kernel kernel_of(const ops::ProblemKey& problem, int choice) const override {
    return op_.kernel_of(problem, choice);
  }
  ops::Request request_of(const ops::Kernel& kernel) const override { return op_.request_of(kernel); }
  std::vector<ops::Request> requests(const std::map<std::string, std::vector<std::string>>& flags) const override {
    return op_.requests(flags);
  }
  bool in_steps(const void* args, const ops::Kernel& kernel) const override { return op_.in_steps(args, kernel); }
  std::size_t scratch_bytes(const void* args, const ops::Kernel& kernel) const override {
    return op_.scratch_bytes(args, kernel);
  }
  void touches(const void* args, ops::Touched& memory) const override { op_.touches(args, memory); }
  void plan(const void* args, const ops::Kernel& kernel, const ops::Geometry& geometry,
            ops::LaunchPlan& plan) const override {
    op_.plan(args, kernel, geometry, plan);
  }
  const ops::Tunable* tunable() const override { return op_.tunable(); }
  std::vector<ops::Trial> trials(const std::map<std::string, std::vector<std::string>>& flags,
                                 const arch::Arch& arch) const override {
    return op_.trials(flags, arch);
  }

 private:
  /// The launch must know it, too: with a block for each tile nobody would walk.
  void walk(ops::Candidate& candidate) const {
    candidate.graph.walk = *walk_;
    for (const ops::GeometryField& field : op_.geometry_fields())
      if (std::string_view(field.name) == "walks") field.set(candidate.geometry, 1);
  }

  const ops::Op& op_;
  int slots_;
  std::optional<graph::Walk> walk_;
  Shape shape_;
};

}  // namespace tj::testing
