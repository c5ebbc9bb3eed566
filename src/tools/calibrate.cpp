// See calibrate.hpp.
#include "tools/calibrate.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <optional>
#include <ostream>

#include <tilejit/tilejit.hpp>

#include "arch/fact_file.hpp"
#include "arch/fact_limits.hpp"
#include "backends.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text.hpp"
#include "tools/bench_numbers.hpp"
#include "tools/calibrate_facts.hpp"
#include "tools/command_line.hpp"
#include "tools/documents.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"
#include "tools/process.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;
using Clock = std::chrono::steady_clock;

constexpr double kMarked = 0.1;  // of the shipped value

struct CalibrateSettings {
  std::string file, target;
  int rounds = 9;
  double time_limit_s = 300;
};

/// A fact that was to be measured.
struct Outcome {
  std::string fact, how;
  double shipped = 0;
  std::string kind;              ///< of the shipped one
  std::optional<Spread> spread;  ///< of its samples
  std::string left_out;          ///< why the file has it not
  double off() const { return shipped != 0 && spread ? spread->median / shipped - 1 : 0; }
};

struct Calibration {
  std::string target, arch, device, driver;
  double clock_mhz = 0, seconds = 0;
  int sm_count = 0;  ///< where it is not the shipped one; else 0
  std::vector<Outcome> outcomes;
  std::vector<std::string> kept;  ///< facts that no experiment measures
};

std::optional<int> parse(const std::vector<std::string>& words, CalibrateSettings& settings, std::ostream& out,
                         std::ostream& err) {
  CLI::App app(
      "Measures facts of the card at hand by small kernels, and writes them into a file for TJ_FACTS or --facts.",
      "tj-bench --calibrate");
  app.add_option("file", settings.file, "the file to write")->required()->check(no_flag);
  app.add_option("--target", settings.target,
                 "sm_90a, model:sm_90a, ... (default: TJ_TARGET, else the first GPU). On the CPU model the numbers "
                 "are made up: they show that all of it works")
      ->check(no_flag);
  bounded(app.add_option("--rounds", settings.rounds, "samples of each fact (default 9)"), 1, 1000);
  bounded(app.add_option("--time-limit", settings.time_limit_s,
                         "seconds after which nothing more is begun (default 300); facts that are left then are named"),
          1, 100000);
  app.footer(cat("The file's format: ", document("src/arch/README.md"),
                 "\nExample:\n  tj-bench --calibrate card.json && TJ_FACTS=card.json ./serve\nExit codes: 0 done, 1 no "
                 "device, a fact without a result, or time that was over, 2 bad use or an output that cannot be "
                 "written."));
  return parse_words(app, words, out, err);
}

/// A device that runs the target; a GPU unless the model was asked for by name.
Device device_for(Backends& backends, const CalibrateSettings& settings) {
  const std::string asked =
      settings.target.empty() ? support::environment_variable("TJ_TARGET").value_or("") : settings.target;
  const Device device = backends.default_device();
  if (device.kind == DeviceKind::cpu && asked.empty()) {
    try {
      backends.driver({DeviceKind::cuda, 0});
    } catch (const Error& error) {
      support::fail(error.stage, error.code,
                    cat("--calibrate measures a GPU, and there is none: ", error.message,
                        "; there it goes through all of it with numbers that are made up"));
    }
  }
  return device;
}

void require_probes(const arch::Arch& arch) {
  if (arch.vendor == "nvidia") return;
  support::fail(Stage::target, Code::unsupported,
                cat("--calibrate has no probes for '", arch.name, "', of vendor '", arch.vendor,
                    "'; allowed: targets of NVIDIA GPUs. A file of facts may be written by hand: ",
                    document("src/arch/README.md")));
}

/// Why a file may not say it; empty where it may.
std::string beyond_limits(const std::string& fact, double value) {
  const arch::FactLimits* const limits = arch::limits_of(fact);
  if (limits != nullptr && value >= limits->least && value <= limits->most) return {};
  return limits == nullptr ? "no file may say it" : cat("beyond ", limits->least, " to ", limits->most);
}

std::string percent(double share) { return cat(number_text(share * 100, 1), "%"); }

class Calibrator {
 public:
  Calibrator(const CalibrateSettings& settings, std::ostream& out, std::ostream& err)
      : settings_(settings),
        out_(out),
        log_(LogLevel::warn, [&err](LogLevel, std::string_view text) { err << "tj-bench: " << text << '\n'; }),
        resolved_(resolved(settings)),
        backends_(resolved_, log_) {}

  Calibration run() {
    const Device device = device_for(backends_, settings_);
    const arch::Target target = backends_.target(device);
    require_probes(*target.arch);
    Lab lab(backends_, device, target, settings_.rounds);
    Calibration found;
    found.target = target.name();
    found.arch = target.arch->base.empty() ? target.arch->name : target.arch->base;
    found.device = target.model ? "CPU model (steps, which are no cycles)" : lab.info().name;
    found.driver = lab.info().driver;
    if (!target.model && lab.info().sm_count != target.arch->sm_count) found.sm_count = lab.info().sm_count;
    const std::vector<Experiment> experiments = experiments_for(*target.arch);
    out_ << "measuring " << found.target << " on " << found.device << ", at most "
         << number_text(settings_.time_limit_s, 0) << " s\n"
         << std::flush;
    for (std::size_t i = 0; i < experiments.size(); ++i) {
      out_ << '[' << i + 1 << '/' << experiments.size() << "] " << number_text(elapsed_s(), 1) << " s: ";
      for (const std::string& fact : experiments[i].facts) out_ << fact << ' ';
      out_ << std::endl;
      add(found, lab, experiments[i]);
    }
    if (!over()) found.clock_mhz = lab.clock_mhz();
    keep(found, *target.arch);
    found.seconds = elapsed_s();
    return found;
  }

 private:
  static support::Settings resolved(const CalibrateSettings& settings) {
    Options options;
    if (!settings.target.empty()) options.target = settings.target;
    options.use_disk_cache = false;
    options.facts_file = "";  // measured beside what is shipped
    return support::resolve_settings(options);
  }
  double elapsed_s() const { return ms_since(start_) * 1e-3; }
  bool over() const { return elapsed_s() > settings_.time_limit_s; }

  void add(Calibration& found, Lab& lab, const Experiment& experiment) {
    FactSamples samples;
    std::string failed;
    if (over()) {
      failed = "the time limit was over";
    } else {
      try {
        samples = experiment.run(lab);
      } catch (const Error& error) {
        failed = error.message;
      }
    }
    for (const std::string& fact : experiment.facts) {
      Outcome outcome{fact, experiment.how, lab.arch().fact(fact), {}, {}, failed};
      if (!samples[fact].empty())
        outcome.spread = spread_of(samples[fact]);
      else if (failed.empty())
        outcome.left_out = "it gave no result";
      if (outcome.spread) outcome.left_out = beyond_limits(fact, outcome.spread->median);
      found.outcomes.push_back(std::move(outcome));
    }
  }

  static void keep(Calibration& found, const arch::Arch& arch) {
    for (const arch::FactOrigin& origin : arch::fact_origins(arch)) {
      const auto measured = std::find_if(found.outcomes.begin(), found.outcomes.end(),
                                         [&](const Outcome& each) { return each.fact == origin.name; });
      if (measured == found.outcomes.end())
        found.kept.push_back(origin.name);
      else
        measured->kind = origin.kind;
    }
  }

  const CalibrateSettings& settings_;
  std::ostream& out_;
  const support::Log log_;
  const support::Settings resolved_;
  Backends backends_;
  const Clock::time_point start_ = Clock::now();
};

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

/// Six digits are more than any of these measurements has.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(std::fabs(value))) - 5);
  return std::round(value / unit) * unit;
}

std::string file_text(const Calibration& found) {
  Json facts = Json::object();
  for (const Outcome& each : found.outcomes)
    if (each.spread && each.left_out.empty())
      facts[each.fact] = {{"value", rounded(each.spread->median)},
                          {"spread", to_json(*each.spread)},
                          {"source", cat("tj-bench --calibrate: ", each.how)}};
  if (found.sm_count > 0) facts["sm_count"] = found.sm_count;
  Json measured = {{"date", date_now()},     {"device", found.device},
                   {"driver", found.driver}, {"clock_mhz", std::round(found.clock_mhz)},
                   {"build", build_id()},    {"seconds", std::round(found.seconds)}};
  const Json document = {{"tilejit_facts", 1}, {"arch", found.arch}, {"measured", measured}, {"facts", facts}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void report(const Calibration& found, const std::string& file, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {{"fact", "shipped", "measured", "p10", "p90", "off", "shipped is"}};
  int marked = 0;
  for (const Outcome& each : found.outcomes) {
    const bool far = each.spread && std::fabs(each.off()) > kMarked;
    marked += far ? 1 : 0;
    rows.push_back({each.fact, number_text(each.shipped, 2), each.spread ? number_text(each.spread->median, 2) : "-",
                    each.spread ? number_text(each.spread->p10, 2) : "-",
                    each.spread ? number_text(each.spread->p90, 2) : "-",
                    cat(each.spread ? percent(each.off()) : "-", far ? " *" : "  "), each.kind});
  }
  print_table(rows, out);
  out << "*: more than " << percent(kMarked) << " from the shipped value: " << marked << " of " << found.outcomes.size()
      << " facts\n";
  if (found.sm_count > 0) out << "multiprocessors: " << found.sm_count << ", not those of the usual product\n";
  if (found.clock_mhz > 0) out << "clock while all SMs work: " << number_text(found.clock_mhz, 0) << " MHz\n";
  for (const Outcome& each : found.outcomes)
    if (!each.left_out.empty()) out << "left out of the file: " << each.fact << ": " << each.left_out << '\n';
  out << found.kept.size() << " facts stay as shipped, as no small kernel measures them:";
  for (const std::string& fact : found.kept) out << ' ' << fact;
  out << '\n' << support::shown_path(file) << " written in " << number_text(found.seconds, 1) << " s\n" << std::flush;
}

}  // namespace

int calibrate_card(const std::vector<std::string>& words, std::ostream& out, std::ostream& err) {
  return run_tool("tj-bench", BadUse::targets_too, out, err, [&] {
    CalibrateSettings settings;
    if (const auto code = parse(words, settings, out, err)) return *code;
    const Calibration found = Calibrator(settings, out, err).run();
    const std::string text = file_text(found);
    arch::read_facts(text, settings.file, "--calibrate");  // what is written can be read
    write_output_file("--calibrate", settings.file, text);
    report(found, settings.file, out);
    const bool whole = std::all_of(found.outcomes.begin(), found.outcomes.end(),
                                   [](const Outcome& each) { return each.left_out.empty(); });
    return whole ? kExitOk : kExitFailures;
  });
}

}  // namespace tj::tools
