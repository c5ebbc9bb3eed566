// A user's graph as an op whose calls are the document's trials: what checks, times and traces shipped ops then does so
// with it.
//
// Decides how a trial is planned, and which trials of which candidates a command line names. Does not decide what a
// trial may say (trials.hpp). Invariant: its kernels are those that custom::Kernel makes of the same description, one
// for each candidate.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "custom/custom.hpp"
#include "ops/common/trial.hpp"

namespace tj {

class GraphOp final : public ops::Op {
 public:
  /// Throws tj::Error as read_custom() does; argument where the document has no trials.
  explicit GraphOp(const custom::Description& description);

  std::string_view name() const override { return maker_->name(); }
  std::vector<ops::Candidate> candidates(const ops::Request& request, const arch::Arch& arch) const override {
    return maker_->candidates(request, arch);
  }
  const std::vector<ops::TemplateText>& templates() const override { return maker_->templates(); }
  const CustomMaker& maker() const { return *maker_; }

  void validate(const void*, bool) const override {}
  Device device_of(const void* args) const override;
  ops::ProblemKey problem_key(const void*) const override { return {1, {}}; }
  /// A choice is the place of a candidate, counted from 1; 0 where the document has none.
  ops::Request request_of(const ops::Kernel& kernel) const override;
  std::vector<ops::Request> requests(const ops::Flags& flags) const override;
  void plan(const void* args, const ops::Kernel& kernel, const ops::Geometry& geometry,
            ops::LaunchPlan& plan) const override;

  /// Flags: trial, candidate. Without the first, those that are checked; without the second, every candidate that has a
  /// schedule.
  std::vector<ops::Trial> trials(const ops::Flags& flags, const arch::Arch& arch) const override;
  /// Those that are timed: the trials of one form, by its choice.
  std::vector<ops::Trial> timed_trials(const ops::Flags& flags, const arch::Arch& arch) const;
  /// The candidates of a command line that have a schedule for this arch, by their choice.
  std::vector<int> choices(const ops::Flags& flags, const arch::Arch& arch) const;
  /// The one that is predicted to do most.
  int usual_choice(const arch::Arch& arch) const;

 private:
  std::string target_of(const arch::Arch& arch) const;
  std::string candidate_of(int choice) const;
  std::vector<ops::Trial> trials(const ops::Flags& flags, const arch::Arch& arch, const std::vector<int>& choices,
                                 bool timed) const;

  std::unique_ptr<CustomMaker> maker_;
};

}  // namespace tj
