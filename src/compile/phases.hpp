// How long each phase of a compile took.
//
// Decides the names of phases, and how a compiler that is a process is asked for them: by running it again, each time a
// phase further. Invariant: asking changes no byte of what is compiled; a phase that took no time that could be told
// apart is 0, never negative.
#pragma once

#include <string>
#include <vector>

#include "compile/compiler.hpp"
#include "compile/host_process.hpp"

namespace tj::compile {

// Names that several compilers share. Between its front end and the machine's code a compiler has what it has.
inline constexpr const char* kFrontEnd = "front end";
inline constexpr const char* kOptimiser = "optimiser";
inline constexpr const char* kAssembler = "ptxas";

/// Takes the table that NVRTC's --time writes out of binary.log, and fills binary.phases from it. A phase without a
/// common name keeps NVRTC's; a log without a table changes nothing.
void take_nvrtc_times(Binary& binary);

/// A compiler's run that ends early, and the phase that it has done beyond the run before it.
struct ShorterRun {
  const char* phase;
  std::vector<std::string> options;  ///< options that make it end there
};
/// Runs argv (without an output) as each of these says, and calls what is left of whole_ms `rest`. Empty when a run
/// fails.
std::vector<Phase> phases_by_shorter_runs(const std::vector<std::string>& argv, const std::vector<ShorterRun>& runs,
                                          const support::PrivateDirectory& directory, const std::string& first_on_path,
                                          double whole_ms, const char* rest);

}  // namespace tj::compile
