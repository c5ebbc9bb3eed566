// The files that a text includes, among those that it may.
//
// Decides what a key must cover of the headers that a compiler may be given, and which of them are written into files
// for it. Knows neither keys nor compilers. Invariant: no file is left out that a compiler could read; a text that says
// it in an odd way counts as including all files.
#pragma once

#include <string_view>
#include <vector>

#include "compile/compiler.hpp"

namespace tj::compile {

/// Headers that the text, or a file that it includes, has in an #include, in the order of `headers`.
/// Conditions are not looked at: each branch counts. A name stands for each file whose path ends with it.
std::vector<Header> included_by(std::string_view text, const std::vector<Header>& headers);

}  // namespace tj::compile
