// tj-schedule: shows the schedule of a kernel, of a user's graph or of an example graph, without compiling anything.
//
// Decides the command line and what is printed. Does not decide schedules (sched) or tile shapes (pipeline).
// Invariant: with --json nothing but one JSON document goes to `out`.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace tj::tools {

/// Runs all of tj-schedule but the process. words: without the program's name. Returns 0, 1 (no schedule) or 2 (bad
/// use, the message names the flag); throws nothing.
int schedule(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

}  // namespace tj::tools
