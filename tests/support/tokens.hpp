// The tokens of a C++ or CUDA text: they stay the same when its layout and its comments change.
//
// Decides what a token is. Comments, white space and line continuations are none. String literals side by side are one
// token, since a formatter may split them. The end of a directive is a token, and "F(" is one in `#define F(`: both
// have a meaning. `>>` is two, as the ends of templates are written either way. Includes in quotes are apart, in no
// order, as files move and formatters sort.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tj::testing {

struct Tokens {
  std::vector<std::string> tokens;
  std::vector<std::string> includes;  ///< the files that `#include "..."` names, sorted
};

/// Throws std::invalid_argument where a literal or comment has no end, and at raw string literals, which are not read
/// here.
Tokens tokens_of(std::string_view text);

}  // namespace tj::testing
