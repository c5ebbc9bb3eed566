// The parts that the tools' command lines share: --version, how CLI's complaints are shown, and flags that were
// probably meant.
//
// Decides which words stand in these messages. Does not decide which options a tool has.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "ops/common/op_flags.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tj::tools {

/// Parses words into what was bound to app; --version is added where app has none. An exit code when there is nothing
/// left to do: help, version, or a mistake, which is said on `err`, each on one line.
std::optional<int> parse_words(CLI::App& app, const std::vector<std::string>& words, std::ostream& out,
                               std::ostream& err);

/// Refuses what is no whole number from `low` to `high`, in words of ours: CLI11's own differ from release to
/// release. Help shows the range. Returns the option.
CLI::Option* bounded(CLI::Option* option, std::uint64_t low, std::uint64_t high);

/// The long names of app's own options: "op", "target", ...
std::vector<std::string> own_flags(const CLI::App& app);

/// "; did you mean --op?" for a flag near one of them, with or without dashes; else nothing.
std::string meant_flag(const std::string& flag, const std::vector<std::string>& own);

/// Throws tj::Error(argument): flags that are not the tool's own were given, and no op that they could belong to. Of
/// several, one that is near a flag of the tool's own is named.
[[noreturn]] void refuse_without_op(const std::string& tool, const ops::Flags& flags,
                                    const std::vector<std::string>& own);

/// Completes an op's complaint of a flag that it does not know: throws it with the tool's own flag that was probably
/// meant. Returns for any other complaint.
void rethrow_with_own_flag(const std::string& complaint, const std::vector<std::string>& own);

}  // namespace tj::tools
