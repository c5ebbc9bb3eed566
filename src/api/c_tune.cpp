// See c_tune.hpp.
#include "api/c_tune.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "api/c_errors.hpp"
#include "support/c_structs.hpp"
#include "support/lasting.hpp"

namespace tj::c_api {

using namespace tj::support::c_structs;

void check_tune_report(const tj_tune_report* report) {
  if (report == nullptr) return;
  std::uint64_t size = 0;
  std::memcpy(&size, report, sizeof size);
  check_size(size, "report", sizeof(tj_tune_report));
}

tj::TuneOptions to_tune_options(const tj_tune_options* given) {
  tj::TuneOptions options;
  if (given == nullptr) return options;
  const tj_tune_options o = read(given, "options");
  const std::string only = o.only == nullptr ? "" : o.only;
  for (std::size_t begin = 0; begin < only.size();) {
    const std::size_t end = std::min(only.find(',', begin), only.size());
    options.only.push_back(only.substr(begin, end - begin));
    begin = end + 1;
  }
  options.seed = o.seed;
  if (o.limit < 0) refuse_number("options.limit", o.limit, "0 (all) and up");
  options.limit = o.limit;
  if (o.rounds < 0) refuse_number("options.rounds", o.rounds, "0 (10) and up");
  if (o.rounds > 0) options.rounds = o.rounds;
  return options;
}

void write_tuned(tj::TuneReport&& report, tj_tune_report* out) {
  if (out == nullptr) return;
  thread_local constinit tj::support::PerThread<tj::TuneReport> place;
  tj::TuneReport& kept = place.get();
  kept = std::move(report);
  std::uint64_t size = 0;
  std::memcpy(&size, out, sizeof size);
  tj_tune_report filled{};
  filled.size = size;
  filled.problem = kept.problem.c_str();
  filled.device = kept.device.c_str();
  filled.target = kept.target.c_str();
  filled.chosen = "";
  if (kept.chosen >= 0) {
    const tj::TunedVariant& chosen = kept.variants.at(static_cast<std::size_t>(kept.chosen));
    filled.chosen = chosen.name.c_str();
    filled.measured_us = chosen.measured_us;
  }
  if (kept.usual >= 0) filled.usual_us = kept.variants.at(static_cast<std::size_t>(kept.usual)).measured_us;
  filled.flops = kept.flops;
  filled.variants = static_cast<std::int32_t>(kept.variants.size());
  filled.measured = static_cast<std::int32_t>(
      std::count_if(kept.variants.begin(), kept.variants.end(), [](const auto& each) { return each.times > 0; }));
  filled.kept = kept.kept ? 1 : 0;
  std::memcpy(out, &filled, std::min<std::size_t>(size, sizeof filled));
}

}  // namespace tj::c_api
