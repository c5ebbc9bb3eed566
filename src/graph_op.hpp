// A user's graph as an op whose calls are the document's trials: what checks, times and traces shipped ops then does so
// with it.
//
// Decides how a trial is planned, and which trials of which candidates a command line names. Does not decide what a
// trial may say (trials.hpp). Invariant: its kernels are those that custom::Kernel makes of the same description, one
// for each candidate.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "custom/custom.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/tunable.hpp"
#include "support/fork_safe.hpp"

namespace tj {

class GraphOp final : public ops::Op, public ops::Tunable {
 public:
  /// Throws tj::Error as read_custom() does; argument where the document has no trials.
  explicit GraphOp(const custom::Description& description);
  /// The maker outlives it.
  explicit GraphOp(const CustomMaker& maker);

  std::string_view name() const override { return maker_->name(); }
  std::vector<ops::Candidate> candidates(const ops::Request& request, const arch::Arch& arch) const override {
    return maker_->candidates(request, arch);
  }
  const std::vector<ops::TemplateText>& templates() const override { return maker_->templates(); }
  const CustomMaker& maker() const { return *maker_; }

  void validate(const void*, bool) const override {}
  Device device_of(const void* args) const override;
  ops::ProblemKey problem_key(const void*) const override { return {1, {}}; }
  ops::Kernel kernel_of(const ops::ProblemKey&, int choice) const override {
    return {static_cast<std::uint64_t>(choice), choice};
  }
  /// A choice is the place of a candidate, counted from 1; 0 where the document has none.
  ops::Request request_of(const ops::Kernel& kernel) const override { return maker_->request_of(kernel.choice); }
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
  /// "" where the document has no candidates.
  std::string candidate_of(int choice) const;
  /// The document for this arch in that form alone, as JSON: without parameters, candidates, targets and trials.
  std::string resolved(int choice, const arch::Arch& arch) const;

  // ---- what is measured among candidates: its first trial that is timed, whose tensors are the same in all of them
  // ----
  const ops::Tunable* tunable() const override { return maker_->problem() != nullptr ? this : nullptr; }
  ops::ProblemKey key_of(const ops::Problem& problem) const override { return ops::graph_problem_key(problem); }
  /// Those that have a schedule.
  std::vector<ops::Variant> variants(const ops::Problem& problem, const arch::Arch& arch) const override;
  std::span<const char* const> size_flags() const override { return {}; }
  ops::Problem problem_of(const void*) const override { return *maker_->problem(); }
  std::vector<ops::Problem> problems(const ops::Flags&) const override { return {*maker_->problem()}; }
  std::optional<ops::Problem> problem_of(const std::vector<std::pair<std::string, std::string>>& fields) const override;
  /// Throws tj::Error(argument) where candidates have other tensors than the first.
  std::vector<ops::Operand> operands(const ops::Problem& problem) const override;
  void with_args(const ops::Problem& problem, Device device, std::span<void* const> places,
                 const std::function<void(const void*)>& use) const override;

 private:
  /// The timed trial by choice, for the arch whose variants were asked for last.
  using Forms = std::vector<std::shared_ptr<const ResolvedTrial>>;
  Forms timed_forms() const;
  void need_trials() const;
  std::string target_of(const arch::Arch& arch) const;
  std::vector<ops::Trial> trials(const ops::Flags& flags, const arch::Arch& arch, const std::vector<int>& choices,
                                 bool timed) const;

  std::unique_ptr<CustomMaker> own_;  ///< null: another's
  const CustomMaker* maker_;
  mutable support::Mutex mutex_;
  mutable std::string target_;  ///< of what is measured
};

}  // namespace tj
