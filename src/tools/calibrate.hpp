// tj-bench --calibrate: measures the facts of the card at hand and writes them into a file for TJ_FACTS.
//
// Decides the command line, the order of work, what is printed and what the file says. Does not decide what is
// measured (calibrate_facts.hpp), nor what such a file may say (arch/fact_file.hpp). Invariant: a file that was written
// is one that the library reads; a fact that gave no result, or one outside its limits, is named and left out.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace tj::tools {

/// Runs all of it but the process. words: without the program's name and --calibrate. Returns 0, 1 (no device, a fact
/// without a result, or time that was over) or 2 (bad use, an output that cannot be written); throws nothing.
int calibrate_card(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

}  // namespace tj::tools
