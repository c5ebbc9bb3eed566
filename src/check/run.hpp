// One trial, run again and again on the CPU model.
//
// Decides how the trial's tensors lie in memory and which values they hold. Decides what is a fault: reports of the
// model, bytes that change beside tensors, and results that are no numbers. Does not decide which seeds, nor what is
// switched off. Invariant: equal trials, data seeds, seeds and changes give equal outcomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "check/kernels.hpp"
#include "model/model.hpp"
#include "ops/common/trial.hpp"

namespace tj::check {

/// A trial and the kernels that serve it. Constant once made; shared by threads.
struct Subject {
  const ops::Op* op = nullptr;
  ops::Trial trial;
  ops::Kernel kernel;                   ///< the op's, by the trial's choice
  std::vector<const Kernel*> launches;  ///< in order; one kernel may serve several
  std::vector<const Kernel*> kernels;   ///< without repetition
  const Kernel* own_kernel = nullptr;   ///< stands for the call (ops::OwnStep)
  std::string target;                   ///< "model:sm_90a"

  /// The kernel whose sites are meant when no kernel is named.
  const Kernel& own() const { return *own_kernel; }
};
/// Makes the kernels. Throws tj::Error, unsupported where the target does not serve the trial.
Subject make_subject(const ops::Op& op, ops::Trial trial, Kernels& kernels);

/// Sites that are switched off, or another binary, for one kernel; the others stay as they are.
struct Change {
  const Kernel* kernel = nullptr;  ///< null: none
  std::vector<int> disabled, weakened;
  std::shared_ptr<launch::Kernel> instead;
};

struct Fault {
  std::string kernel;
  Code code = Code::model_fault;
  std::string message, log;
};

struct Outcome {
  std::optional<Fault> fault;
  std::string results;  ///< all bytes that were to be written; empty after a fault
  std::string
      no_number;      ///< "element [3, 5] of d is NaN", as finite values have no such result; "" where there is none
  std::string wrong;  ///< the trial's judge says so of the results; "" where it finds nothing, or there is none
};

/// Memory of its own and a model of its own: one for each thread.
class Run {
 public:
  Run(const Subject& subject, std::uint64_t data_seed);
  /// Throws tj::Error of other stages than the model's.
  Outcome operator()(std::uint64_t seed, const std::vector<Change>& changes);

 private:
  struct Memory {
    std::vector<std::byte> bytes, filled;  ///< guards before and behind; the content before each run
    std::size_t begin = 0, size = 0;
    void* place() { return bytes.data() + begin; }
  };
  static Memory room(std::size_t size);
  void launch(const Kernel& kernel, const ops::Step& step, std::uint64_t seed, const std::vector<Change>& changes);
  /// "" or which tensor something was written beside.
  std::string beside() const;
  std::string results() const;
  std::string no_number() const;

  const Subject& subject_;
  std::shared_ptr<model::ModelDriver> driver_ = model::open_model_driver();
  std::vector<Memory> tensors_;
  ops::Trial::Judge judge_;  ///< null where the trial has none
};

}  // namespace tj::check
