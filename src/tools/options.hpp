// The parts that the tools' command lines share: exit codes, flags that belong to an op, ops by name.
//
// Decides how such flags are written and what is said of a mistake. Does not decide which flags an op has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/op.hpp"

namespace tj::tools {

/// Exit codes of the tools.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailures = 1;
inline constexpr int kExitBadUse = 2;

/// Throws tj::Error(argument, invalid_argument).
[[noreturn]] void bad_use(std::string message);

/// For options that take any text: a flag in the place of their value means that the value was forgotten. Empty when it
/// is none. So is an empty text, which a variable of the shell was that is not set.
std::string no_flag(const std::string& value);
/// The same for --cache-dir, which names one folder at least.
std::string some_folder(const std::string& value);

/// Throws tj::Error(argument) that lists the ops when there is none of this name.
const ops::Op& find_op(const std::string& name);
/// Can there be such a kernel for the arch at all?
bool serves(const ops::Op& op, const ops::Request& request, const arch::Arch& arch);
/// The op's kernels that flags name. Sizes name the kernels of a call of these sizes, without measured choices.
std::vector<ops::Request> requests_named(const ops::Op& op,
                                         const std::map<std::string, std::vector<std::string>>& flags,
                                         const arch::Arch& arch);

}  // namespace tj::tools
