// A user's own program, run once for each seed, and the library's reports of the kernels that it launches.
//
// Decides the variables that it sees and what counts as a finding: reports of the model, and an end with another status
// than 0.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check/notes.hpp"
#include "check/seeds.hpp"
#include "support/sites.hpp"

namespace tj::check {

struct Program {
  std::vector<std::string> words;  ///< its name, looked up on PATH, and its arguments
  std::string target;              ///< "model:sm_90a"
  std::vector<support::SiteName> disabled, weakened;
};

struct LaunchedKernel {
  std::string name;
  std::vector<Site> sites;
};

struct ProgramReport {
  std::vector<LaunchedKernel> kernels;  ///< each once, in the order of their first launches
  std::vector<Finding> findings;        ///< as try_seeds() gives them
};

/// done: called after each run. waits: called during a run, after 1, 10 and 60 seconds and every ten minutes, with the
/// seconds that it has taken; a run has no limit. Throws tj::Error(argument) when the program cannot be started, or
/// ends well and has launched no kernel on the model. Also when no kernel has a site that is switched off or weakened.
ProgramReport try_program(const Program& program, const Seeds& seeds, const std::function<void()>& done = {},
                          const std::function<void(double waited_s)>& waits = {});

}  // namespace tj::check
