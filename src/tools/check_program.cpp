// tj-check over a user's own program: what is asked of it, and what is printed; see check.hpp.
#include <algorithm>
#include <ostream>

#include "check/program.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "tools/check.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;

/// A word, quoted as a shell reads it.
std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") ==
                                          std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

int list_program_sites(const check::ProgramReport& report, bool json, std::ostream& out) {
  Json document = Json::array();
  for (const check::LaunchedKernel& kernel : report.kernels) {
    Json sites = Json::array();
    for (const check::Site& site : kernel.sites) {
      if (json)
        sites.push_back(
            {{"id", site.id}, {"kind", site.kind}, {"text", site.text}, {"weakens", check::can_be_weakened(site)}});
      else
        out << (report.kernels.size() == 1 ? "" : kernel.name + ":") << site.id << '\t' << site.kind << '\t'
            << site.text << '\n';
    }
    document.push_back({{"kernel", kernel.name}, {"sites", std::move(sites)}});
  }
  if (json) out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  return kExitOk;
}

}  // namespace

int check_program(const CheckSettings& settings, CheckProgress& progress, std::ostream& out) {
  check::Seeds seeds = settings.seeds;
  if (settings.list_sites) seeds.count = 1;
  std::string words;
  for (const std::string& word : settings.program) words += " " + quoted(word);
  progress.begin(settings.program.front(), seeds.count);
  double told_s = 0;
  check::ProgramReport report = check::try_program(
      {settings.program, settings.target, settings.disabled, settings.weakened}, seeds, [&] { progress.step(); },
      [&](double waited_s) {
        constexpr double kLong_s = 10, kMuchLonger = 2;  // many programs take a second, and each run as long as others
        if (waited_s < std::max(kLong_s, kMuchLonger * told_s)) return;
        told_s = waited_s;
        progress.waits(waited_s);
      });
  progress.end();
  if (settings.list_sites && !report.kernels.empty()) return list_program_sites(report, settings.json, out);
  const std::vector<CheckFound> found = {{cat(settings.program.front(), " on ", settings.target),
                                          cat("tj-check --target ", settings.target, " --", words),
                                          std::move(report.findings)}};
  if (!settings.json) print_ended(found.front(), out);
  return print_findings(settings, found, out);
}

}  // namespace tj::tools
