// Samples of one quantity, and tables of numbers: what tj-bench prints.
//
// Decides what stands for many samples. Invariant: a table's columns are as wide as their widest cell.
#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <vector>

#include "support/json.hpp"

namespace tj::tools {

/// Median and tenths of samples.
struct Spread {
  double median = 0, p10 = 0, p90 = 0;
  int count = 0;
};
/// Throws tj::Error(argument, internal) for no samples.
Spread spread_of(std::vector<double> samples);
/// {"median": ..., "p10": ..., "p90": ..., "samples": ...}
support::Json to_json(const Spread& spread);

double ms_since(std::chrono::steady_clock::time_point start);

/// "12.3"; "-" for what is not known (not finite).
std::string number_text(double value, int digits);

/// The first row is the heads. The first column stands left, the others right.
void print_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out);

}  // namespace tj::tools
