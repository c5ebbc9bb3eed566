// The output of tj-check: sites, findings and mutants, as text and as JSON; see check.hpp.
#include <algorithm>
#include <iomanip>
#include <ostream>

#include "arch/arch.hpp"
#include "check/equivalents.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text_stream.hpp"
#include "tools/check.hpp"
#include "tools/options.hpp"
#include "tools/process.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;

void print(const Json& document, std::ostream& out) {
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

/// Sites by their numbers where one kernel is meant, else by its name too.
std::string site_id(const check::Kernel& kernel, const check::Site& site, bool alone) {
  return alone ? cat(site.id) : cat(kernel.name, ":", site.id);
}

std::string seeds_text(const check::Seeds& seeds) {
  return cat(seeds.count, seeds.count == 1 ? " seed, " : " seeds from ", seeds.first);
}

std::string again(const std::string& command, std::uint64_t seed, const CheckSettings& settings) {
  std::string words = cat(" --seeds 1 --seed ", seed);
  if (settings.seeds.data != 1) words += cat(" --data-seed ", settings.seeds.data);
  for (const auto& [flag, sites] :
       {std::pair{" --disable-site ", &settings.disabled}, std::pair{" --weaken-site ", &settings.weakened}})
    for (const support::SiteName& site : *sites) words += flag + support::to_string(site);
  const std::size_t program = command.find(" -- ");
  return program == std::string::npos ? command + words : command.substr(0, program) + words + command.substr(program);
}

void print_indented(const std::string& text, std::ostream& out) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out << "  " << text.substr(begin, end - begin) << '\n';
    begin = end + 1;
  }
}

/// The sites of the settings, as a change of each kernel that they are of. Throws for one that no kernel has.
std::vector<check::Change> changes_of(const CheckSettings& settings, const check::Subject& subject) {
  std::vector<check::Change> changes;
  const auto change_of = [&](const check::Kernel& kernel) -> check::Change& {
    for (check::Change& change : changes)
      if (change.kernel == &kernel) return change;
    return changes.emplace_back(check::Change{&kernel, {}, {}, nullptr});
  };
  const auto add = [&](const char* flag, const support::SiteName& site, bool weaken) {
    const check::Kernel* named = site.kernel.empty() ? &subject.own() : nullptr;
    std::string names;
    for (const check::Kernel* kernel : subject.kernels) {
      names += (names.empty() ? "" : ", ") + kernel->name;
      if (kernel->name == site.kernel) named = kernel;
    }
    if (named == nullptr) bad_use(cat(flag, " is '", support::to_string(site), "'; the kernels are ", names));
    const auto found = std::find_if(named->sites.begin(), named->sites.end(),
                                    [&](const check::Site& each) { return each.id == site.id; });
    if (found == named->sites.end())
      bad_use(cat(flag, " is '", support::to_string(site), "'; ", named->name,
                  named->sites.empty() ? std::string(" has no site") : cat(" has the sites 1 to ", named->sites.size()),
                  " (--list-sites)"));
    if (weaken && !check::can_be_weakened(*found))
      bad_use(cat(flag, " is '", support::to_string(site), "', a site of kind '", found->kind,
                  "'; allowed: a wait for groups, an announcement, a turn"));
    (weaken ? change_of(*named).weakened : change_of(*named).disabled).push_back(site.id);
  };
  for (const support::SiteName& site : settings.disabled) add("--disable-site", site, false);
  for (const support::SiteName& site : settings.weakened) add("--weaken-site", site, true);
  return changes;
}

/// Adds the changes that are known equivalents to what was found.
void add_excused(const std::vector<check::Change>& changes, CheckFound& found) {
  std::size_t sites = 0;
  for (const check::Change& change : changes)
    for (const bool weakened : {false, true})
      for (const int id : weakened ? change.weakened : change.disabled) {
        ++sites;
        const auto site = std::find_if(change.kernel->sites.begin(), change.kernel->sites.end(),
                                       [&](const check::Site& each) { return each.id == id; });
        std::string mutant = check::mutant_text(*site, weakened);
        if (const check::Equivalent* known = check::equivalent_of(change.kernel->name, mutant))
          found.excused.push_back({change.kernel->name, std::move(mutant), known});
      }
  found.all_excused = sites > 0 && found.excused.size() == sites;
}

std::string name_of(const CheckCase& each) {
  return cat(each.subject.own().name, " on ", each.subject.target, ", ", each.subject.trial.name);
}

}  // namespace

int list_sites(const std::vector<CheckCase>& cases, bool json, std::ostream& out) {
  std::vector<std::pair<const check::Kernel*, std::string>> kernels;  // and the target
  for (const CheckCase& each : cases)
    for (const check::Kernel* kernel : each.subject.kernels)
      if (std::none_of(kernels.begin(), kernels.end(), [&](const auto& known) { return known.first == kernel; }))
        kernels.emplace_back(kernel, each.subject.target);
  Json document = Json::array();
  for (const auto& [kernel, target] : kernels) {
    Json sites = Json::array();
    for (const check::Site& site : kernel->sites) {
      if (json)
        sites.push_back(
            {{"id", site.id}, {"kind", site.kind}, {"text", site.text}, {"weakens", check::can_be_weakened(site)}});
      else
        out << site_id(*kernel, site, kernels.size() == 1) << '\t' << site.kind << '\t' << site.text << '\n';
    }
    document.push_back({{"kernel", kernel->name}, {"target", target}, {"sites", std::move(sites)}});
  }
  if (json) print(document, out);
  return kExitOk;
}

void print_ended(const CheckFound& found, std::ostream& out) {
  const std::size_t count = found.findings.size();
  out << (found.equivalent() ? "equivalent"
          : count == 0       ? "clean"
                             : cat(count, count == 1 ? " finding" : " findings"))
      << ": " << found.subject << '\n';
  if (count == 0)
    for (const CheckFound::Excused& each : found.excused)
      out << "  " << each.kernel << ", " << each.mutant << ": known to change nothing, as " << each.equivalent->argument
          << '\n';
  require_written(out);
}

int print_findings(const CheckSettings& settings, const std::vector<CheckFound>& found, std::ostream& out) {
  std::size_t total = 0, at = 0;
  for (const CheckFound& each : found) total += each.findings.size();
  Json cases = Json::array();
  for (const CheckFound& each : found) {
    Json list = Json::array();
    for (const check::Finding& finding : each.findings) {
      const std::string command = again(each.command, finding.first_seed, settings);
      if (settings.json) {
        list.push_back({{"kernel", finding.fault.kernel},
                        {"code", tj::to_string(finding.fault.code)},
                        {"message", finding.fault.message},
                        {"log", finding.fault.log},
                        {"first_seed", finding.first_seed},
                        {"seeds", finding.seeds},
                        {"command", command}});
        continue;
      }
      out << "finding " << ++at << " of " << total << ": " << each.subject << '\n'
          << finding.fault.kernel << ": " << finding.fault.message << '\n';
      print_indented(finding.fault.log, out);
      out << "at " << finding.seeds << " of " << seeds_text(settings.seeds)
          << (settings.seeds.count == 1 ? "" : cat(", first at ", finding.first_seed)) << "; again:\n  " << command
          << "\n\n";
    }
    if (!settings.json) continue;
    cases.push_back({{"subject", each.subject}, {"command", each.command}, {"findings", std::move(list)}});
    if (each.excused.empty() || !each.findings.empty()) continue;
    Json excused = Json::array();
    for (const CheckFound::Excused& site : each.excused)
      excused.push_back({{"kernel", site.kernel}, {"mutant", site.mutant}, {"argument", site.equivalent->argument}});
    cases.back()["equivalent"] = std::move(excused);
  }
  if (settings.json)
    print({{"seeds", settings.seeds.count},
           {"first_seed", settings.seeds.first},
           {"data_seed", settings.seeds.data},
           {"findings", total},
           {"cases", std::move(cases)}},
          out);
  else
    out << found.size() << (found.size() == 1 ? " problem, " : " problems, ") << seeds_text(settings.seeds)
        << (settings.program.empty() ? cat(", values of seed ", settings.seeds.data) : "") << ": "
        << (std::all_of(found.begin(), found.end(), [](const CheckFound& each) { return each.equivalent(); })
                ? "equivalent"
            : total == 0 ? "clean"
                         : cat(total, total == 1 ? " finding" : " findings"))
        << '\n';
  return total == 0 ? kExitOk : kExitFailures;
}

int check_seeds(const CheckSettings& settings, const std::vector<CheckCase>& cases, CheckProgress& progress,
                std::ostream& out) {
  std::vector<std::vector<check::Change>>
      changes;  // all of them first: a site that a later kernel lacks is bad use, and nothing is run
  for (const CheckCase& each : cases) changes.push_back(changes_of(settings, each.subject));
  std::vector<CheckFound> found;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const CheckCase& each = cases[i];
    progress.begin(name_of(each), settings.seeds.count);
    found.push_back({name_of(each), each.command,
                     check::try_seeds(each.subject, settings.seeds, changes[i], [&] { progress.step(); })});
    add_excused(changes[i], found.back());
    progress.end();
    if (!settings.json) print_ended(found.back(), out);
  }
  return print_findings(settings, found, out);
}

namespace {

struct Score {
  std::size_t mutants = 0, caught = 0, equivalent = 0, survived = 0;
  void add(const check::Judged& judged) {
    ++mutants;
    caught += judged.verdict == check::Verdict::caught;
    equivalent += judged.verdict == check::Verdict::equivalent;
    survived += judged.verdict == check::Verdict::survived;
  }
  void add(const Score& other) {
    mutants += other.mutants;
    caught += other.caught;
    equivalent += other.equivalent;
    survived += other.survived;
  }
  /// The caught part of the mutants that are no equivalents.
  double percent() const {
    return mutants == equivalent ? 100
                                 : 100.0 * static_cast<double>(caught) / static_cast<double>(mutants - equivalent);
  }
  Json json() const {
    return {{"mutants", mutants},
            {"caught", caught},
            {"equivalent", equivalent},
            {"survived", survived},
            {"score", percent()}};
  }
  std::string row() const {
    support::TextStream text;
    text << std::setw(8) << mutants << std::setw(8) << caught << std::setw(12) << equivalent << std::setw(10)
         << survived << std::setw(8) << std::fixed << std::setprecision(1) << percent() << "%";
    return text.str();
  }
};

Json json_of(const check::Judged& judged) {
  Json json = {{"kernel", judged.mutant.kernel->name},
               {"mutant", judged.mutant.what},
               {"verdict", check::to_string(judged.verdict)}};
  if (judged.verdict == check::Verdict::caught) {
    json["seed"] = judged.seed;
    json["message"] = judged.message;
  } else {
    json["results_differ"] = judged.results_differ;
  }
  if (judged.verdict == check::Verdict::equivalent) json["argument"] = judged.equivalent->argument;
  return json;
}

/// The problems of one kernel, which follow each other.
struct MutatedCase {
  std::string name, command;
  std::size_t begin, end;  ///< of the cases
  Score score;
  std::vector<check::Judged> judged;
};

void print_row(const std::string& name, std::size_t width, const std::string& columns, std::ostream& out) {
  out << std::left << std::setw(static_cast<int>(width)) << name << std::right << columns << '\n';
  require_written(out);
}

/// Prints what is known when all rows are there.
void print_mutants(const CheckSettings& settings, const std::vector<MutatedCase>& cases, std::ostream& out) {
  for (const MutatedCase& each : cases) {
    if (each.score.survived == 0) continue;
    out << "survived of " << each.command << " --mutate --seeds " << settings.seeds.count << " --seed "
        << settings.seeds.first << '\n';
    for (const check::Judged& judged : each.judged)
      if (judged.verdict == check::Verdict::survived)
        out << "  " << judged.mutant.kernel->name << ", " << judged.mutant.what
            << (judged.results_differ ? " (its results differ)" : "") << '\n';
  }
  for (const check::Equivalent& known : check::equivalents()) {
    std::size_t count = 0;
    for (const MutatedCase& each : cases)
      count += static_cast<std::size_t>(
          std::count_if(each.judged.begin(), each.judged.end(),
                        [&](const check::Judged& judged) { return judged.equivalent == &known; }));
    if (count > 0)
      out << "equivalent, " << count << " of \"" << known.mutant << "\""
          << (*known.kernels == '\0' ? "" : cat(" in ", known.kernels, "...")) << ": " << known.argument << '\n';
  }
}

}  // namespace

int check_mutants(const CheckSettings& settings, const std::vector<CheckCase>& cases, CheckProgress& progress,
                  std::ostream& out) {
  std::vector<MutatedCase> mutated;
  std::size_t width = 6;
  for (std::size_t begin = 0, end; begin < cases.size(); begin = end) {
    const check::Subject& first = cases[begin].subject;
    for (end = begin; end < cases.size() && cases[end].subject.kernels == first.kernels; ++end) {
    }
    mutated.push_back({cat(first.own().name, " ", first.target), cases[begin].kernel_command, begin, end, {}, {}});
    width = std::max(width, mutated.back().name.size());
  }
  if (!settings.json) print_row("kernel", width, " mutants  caught  equivalent  survived    score", out);
  Score all;
  for (MutatedCase& each : mutated) {
    const CheckCase& first = cases[each.begin];
    std::vector<const check::Subject*> problems;
    for (std::size_t i = each.begin; i < each.end; ++i) problems.push_back(&cases[i].subject);
    std::vector<check::Mutant> mutants = check::mutants_of(first.subject, *first.kernels);
    progress.begin(name_of(first), mutants.size());
    each.judged = check::judge(problems, *first.kernels, std::move(mutants), settings.seeds, [&] { progress.step(); });
    progress.end();
    for (const check::Judged& judged : each.judged) each.score.add(judged);
    all.add(each.score);
    if (!settings.json) print_row(each.name, width, each.score.row(), out);
  }
  if (settings.json) {
    Json list = Json::array();
    for (const MutatedCase& each : mutated) {
      Json judged = Json::array();
      for (const check::Judged& mutant : each.judged) judged.push_back(json_of(mutant));
      list.push_back({{"kernel", each.name},
                      {"command", each.command},
                      {"score", each.score.json()},
                      {"mutants", std::move(judged)}});
    }
    print({{"seeds", settings.seeds.count},
           {"first_seed", settings.seeds.first},
           {"data_seed", settings.seeds.data},
           {"all", all.json()},
           {"kernels", std::move(list)}},
          out);
  } else {
    if (mutated.size() > 1) print_row("all", width, all.row(), out);
    print_mutants(settings, mutated, out);
  }
  return all.survived == 0 ? kExitOk : kExitFailures;
}

}  // namespace tj::tools
