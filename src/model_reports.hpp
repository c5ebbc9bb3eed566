// The CPU model as settings ask for it: a seed, sites that do nothing or less, and a file of what it launched and
// found.
//
// Decides the lines of that file. Does not decide what is found (src/launch/). Invariant: a line is written at once, so
// that several processes may append to one file.
// A kernel that is first launched gives the first line, a finding the second:
// - {"kernel": "fmha_f16_d128", "sites": [{"id": 1, "kind": "wait", "text": "..."}, ...]}
// - {"finding": "fmha_f16_d128", "code": "deadlock", "message": "...", "log": "...", "seed": 1}
#pragma once

#include <memory>

#include "launch/driver.hpp"
#include "support/environment.hpp"
#include "support/log.hpp"

namespace tj {

/// Launches one after the other. Logs a warning for a site that is to be switched off and that no loaded kernel has.
/// Throws tj::Error(argument) when the file cannot be appended to.
std::shared_ptr<launch::Driver> open_reporting_model(const support::ModelSettings& settings, const support::Log& log);

}  // namespace tj
