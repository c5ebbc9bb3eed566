// Lines of text that two versions of something do not have in common: of two schedules, or of two kernels' sources.
//
// Decides what is left out of sources because it says nothing: numbers of sites, places in memory, comments, notes for
// the model. Invariant: equal texts give no lines.
#pragma once

#include <string>
#include <vector>

namespace tj::samples {

/// "+ " and a line of `now` that `before` lacks, then "- " and a line of `before` that `now` lacks. Each line is there
/// once, in the order of its text, without blanks around it.
std::vector<std::string> changed_lines(const std::string& before, const std::string& now);

/// A kernel's source, line by line: without its name, comments, numbers of sites, places in memory, and the notes
/// behind it.
std::string code_lines(const std::string& source, const std::string& kernel);

}  // namespace tj::samples
