// The variables of the environment that begin with TJ_.
//
// Decides which names there are, and what is said of one that there is none of. Does not decide what a variable means:
// environment.hpp reads them. Invariant: a name that is read anywhere stands here; tests/layout holds that.
#pragma once

#include <string>
#include <vector>

#include "support/log.hpp"

namespace tj::support {

/// The variables that the library and its tools read; the table in the root README says what each means. Variables that
/// begin with TJ_TEST_ are the tests', and are known too.
const std::vector<std::string>& known_variables();

/// Names of this process's environment that begin with TJ_ and are none of those; none in a set-user-id program.
std::vector<std::string> unknown_variables();

/// Warns of them, each with the name that was probably meant: once in a process, at the library's first use.
void warn_of_unknown_variables(const Log& log);

}  // namespace tj::support
