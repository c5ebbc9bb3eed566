// See bench_numbers.hpp.
#include "tools/bench_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "support/fail.hpp"
#include "support/json.hpp"

namespace tj::tools {

Spread spread_of(std::vector<double> samples) {
  if (samples.empty()) support::fail(Stage::argument, Code::internal, "a spread of no samples");
  std::sort(samples.begin(), samples.end());
  const std::size_t last = samples.size() - 1;
  const double median = (samples[last / 2] + samples[samples.size() / 2]) / 2;
  return {median, samples[last / 10], samples[last - last / 10], static_cast<int>(samples.size())};
}

support::Json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"p10", spread.p10}, {"p90", spread.p90}, {"samples", spread.count}};
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string number_text(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

void print_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string room(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i == 0 ? row[i] + room : room + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

}  // namespace tj::tools
