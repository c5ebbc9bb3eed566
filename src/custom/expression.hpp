// Arithmetic in a user's graph: "ceil(block_m * block_n / mma_per_cycle) + 8".
//
// Decides what such a text may be: numbers, names, + - * /, parentheses, min, max, ceil, floor. Does not know which
// members of a graph may be one (document.hpp). Invariant: whatever the text is, the outcome is a finite number or a
// tj::Error, after work that the length of the text bounds.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "graph/json_fields.hpp"

namespace tj {

inline constexpr std::size_t kMaxExpressionBytes = 256;

/// Numbers by name, and what they are of: "target 'sm_90a'".
struct Numbers {
  std::map<std::string, double, std::less<>> values;
  std::string owner;
};

/// The value of the text. Throws by `fields` with the place, the text and what is wrong with it.
double evaluate(std::string_view text, const Numbers& numbers, const graph::Fields& fields, const std::string& place);

}  // namespace tj
