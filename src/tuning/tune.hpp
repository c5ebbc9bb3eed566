// Measuring which kernel serves a problem best on a device.
//
// Decides how kernels are timed beside each other. Does not decide how they are made or launched (runtime.cpp), nor how
// the result is kept (tunings.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/driver.hpp"
#include "ops/common/tunable.hpp"
#include "tuning/tunings.hpp"

namespace tj {

struct TuneOptions {
  std::vector<std::string> only;  ///< names of the kernels that are measured; empty: all
  int limit = 0;                  ///< kernels that are measured, in their op's order; 0: all
  int rounds = 10;                ///< of all kernels in turn; those that are far behind after the first are left out
  std::uint64_t seed = 0;         ///< of the operands' values
};

struct TunedVariant {
  std::string name;                               ///< "128x256x64"
  double predicted_cycles = 0, predicted_us = 0;  ///< at the clock that the arch is described with
  double measured_us = 0;                         ///< of one call, median; 0 when it was not measured
  int times = 0;                                  ///< taken, each of several calls
  std::string refused;                            ///< why there is no kernel, when there is none
};

struct TuneReport {
  std::string problem, device, target;
  int sm_count = 0;
  double flops = 0;
  std::vector<TunedVariant> variants;  ///< in their op's order: first what is taken unmeasured
  int chosen = -1;                     ///< in variants
  bool kept = false;                   ///< the cache has it
};

/// The steps of a runtime that measuring takes.
struct TuneSteps {
  std::shared_ptr<launch::Driver> driver;
  Device device;
  /// All kernels that serving the call takes; launches nothing.
  std::function<void(const ops::Step& call)> load;
  /// As a call does it, with its scratch memory.
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
