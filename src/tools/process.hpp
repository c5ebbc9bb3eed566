// The process around a tool: standard streams, signals, exit codes of what was thrown.
//
// Decides what happens when standard output is closed, full or read by nobody. Does not decide what a tool does.
// Invariant: exit code 0 is given only when all that was printed has been written.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace tj::tools {

/// Hands on what is in the stream. Throws tj::Error(argument) where it cannot be written: who has seen nothing is not
/// told that all is well.
void require_written(std::ostream& out);

/// The errors that count as bad use: wrong arguments, or targets too.
enum class BadUse { arguments, targets_too };

/// Runs a tool's work, and says on `err` what it threw or that `out` cannot be written. Returns the exit code; throws
/// nothing.
int run_tool(const char* tool, BadUse bad_use, std::ostream& out, std::ostream& err, const std::function<int()>& work);

/// The terminal of the process, for tools and tests alike.
struct Terminal {
  bool out = false, err = false;  ///< may be rewritten with \r and ESC [
};

/// main() of a tool. work: its words without the program's name.
int run_process(const char* tool, int argc, char** argv,
                const std::function<int(const std::vector<std::string>& words, std::ostream& out, std::ostream& err,
                                        Terminal terminal)>& work);

}  // namespace tj::tools
