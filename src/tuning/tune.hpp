// Measuring which kernel serves a problem best on a device.
//
// Decides how kernels are timed beside each other. Does not decide how they are made or launched (runtime.cpp), nor how
// the result is kept (tunings.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tilejit/tune.hpp>

#include "launch/driver.hpp"
#include "ops/common/tunable.hpp"
#include "tuning/tunings.hpp"

namespace tj {

/// The steps of a runtime that measuring takes.
struct TuneSteps {
  std::shared_ptr<launch::Driver> driver;
  Device device;
  /// All kernels that serving the call takes; launches nothing.
  std::function<void(const ops::Step& call)> load;
  /// Launches as a call does, with its scratch memory.
  std::function<void(const ops::Step& call, Stream)> launch;
};

/// The kernels that are measured. Throws tj::Error(argument) when there is none, with those that there are.
std::vector<ops::Variant> variants_of(const ops::Tunable& tunable, const ops::Problem& problem, const arch::Arch& arch,
                                      const TuneOptions& options);

/// Operands hold normal random values and are as warm in L2 as calls that follow each other leave them. Each kernel's
/// calls are recorded once and replayed; kernels take turns, in an order that rotates. The fastest is kept. Throws
/// tj::Error when none of them could be measured.
TuneReport tune(const ops::Op& op, const ops::Problem& problem, const TuneOptions& options, const TuneSteps& steps,
                Tunings& tunings);

}  // namespace tj
