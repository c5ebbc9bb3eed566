// Tuning: options and report of a measurement of which kernel serves a problem best on a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tj {

/// The options of Runtime::tune().
struct TuneOptions {
  std::vector<std::string> only;  ///< names of the kernels that are measured; empty: all
  int limit = 0;                  ///< kernels that are measured, in their op's order; 0: all
  int rounds = 10;                ///< of all kernels in turn; those far behind after the first round are left out
  std::uint64_t seed = 0;         ///< of the operands' values
};

/// A kernel that can serve the problem.
struct TunedVariant {
  std::string name;                               ///< "128x256x64"
  double predicted_cycles = 0, predicted_us = 0;  ///< at the clock of the arch's description; 0: nobody predicts
  double measured_us = 0;                         ///< of one call, median; 0 when it was not measured
  int times = 0;                                  ///< measurements taken, each of several calls
  std::string refused;                            ///< why there is no kernel, when there is none
};

/// The result of Runtime::tune().
struct TuneReport {
  std::string problem, device, target;  ///< the sizes, in words; the GPU's name; "sm_90a"
  int sm_count = 0;                     ///< multiprocessors of the GPU
  double flops = 0;                     ///< of one call
  std::vector<TunedVariant> variants;   ///< those that TuneOptions left, in their op's order
  int chosen = -1;                      ///< index into variants; -1: none
  bool kept = false;                    ///< the cache has it
  int usual = -1;  ///< index into variants of the one that is taken without measurements; -1: TuneOptions left it out
};

}  // namespace tj
