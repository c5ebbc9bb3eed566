// The facts that a file may replace, and within which limits.
//
// Decides names and ranges. Does not read files (fact_file.hpp), and knows no arch's values. Invariant: every fact of
// every arch stands here, within its limits (tests/arch/fact_file_test.cpp).
#pragma once

#include <string_view>
#include <vector>

namespace tj::arch {

/// The numbers that a file may say of a fact: from `least` to `most`.
struct FactLimits {
  const char* name;
  double least, most;
  bool whole = false;  ///< whole numbers alone
  bool fixed = false;  ///< what instructions are, which is measured of no card: no file may replace it
};

/// All of them, in the order of their names.
const std::vector<FactLimits>& fact_limits();
/// Null for a name that is no fact.
const FactLimits* limits_of(std::string_view fact);

}  // namespace tj::arch
