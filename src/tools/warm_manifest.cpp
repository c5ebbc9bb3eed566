// See warm_manifest.hpp.
#include "tools/warm_manifest.hpp"

#include <algorithm>
#include <map>
#include <ostream>
#include <set>

#include "backends.hpp"
#include "cache/cache.hpp"
#include "maker.hpp"
#include "support/fail.hpp"
#include "support/log.hpp"
#include "support/text.hpp"
#include "tools/input_file.hpp"
#include "tools/options.hpp"
#include "tools/warm.hpp"
#include "tools/warm_keep.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;  // some 300000 lines

std::string read_text(const char* flag, const std::string& path, std::ostream& err) {
  std::string text =
      read_input_file({"tj-warm", flag, path, "give a file that a run wrote under TJ_RECORD"}, kMaxFileBytes, err);
  if (text.size() > kMaxFileBytes)
    bad_use(cat(flag, ": '", support::shown_path(path), "' is too large; allowed: at most ", kMaxFileBytes, " bytes"));
  return text;
}

std::string title(const WantedKernel& kernel) { return cat(kernel.request.name, " for ", kernel.target.name()); }
std::string title(const WantedTuning& tuning) {
  return cat(tuning.problem.name, " on ", tuning.machine.device, ": ", tuning.choice);
}

/// The lines of one problem on one machine.
struct Group {
  cache::Key key;
  const WantedTuning* first = nullptr;
  std::set<std::string> choices;
};
std::vector<Group> groups_of(const Manifest& wanted) {
  std::vector<Group> groups;
  std::map<std::string, std::size_t> places;
  for (const WantedTuning& tuning : wanted.tunings) {
    const cache::Key key = tuning_key(tuning.machine, *tuning.op, tuning.problem);
    const auto [place, is_new] = places.try_emplace(key.request_hex + key.compiler_hex, groups.size());
    if (is_new) groups.push_back({key, &tuning, {}});
    groups[place->second].choices.insert(tuning.choice);
  }
  return groups;
}

std::vector<WantedKernel> kernels_once(const Manifest& wanted) {
  std::vector<WantedKernel> kernels;
  std::set<std::string> seen;
  for (const WantedKernel& kernel : wanted.kernels)
    if (seen.insert(manifest_line(kernel.request, kernel.target)).second) kernels.push_back(kernel);
  return kernels;
}

/// A cache as a run with these settings would look at it. Changes nothing there.
class Presence {
 public:
  Presence(const support::Settings& settings, std::ostream& err)
      : settings_(settings),
        log_(settings.log_level, [&err](LogLevel, std::string_view text) { err << "tj-warm: " << text << '\n'; }),
        backends_(settings_, log_),
        store_(settings.cache_dir, 0, {}, settings.pack_keys),
        maker_(settings_, log_, backends_, &store_) {}

  std::vector<cache::LayerState> layers() const { return store_.layers(); }
  bool has(const WantedKernel& kernel, std::string* problem) {
    return maker_.on_disk(kernel.op, kernel.request, kernel.target, problem);
  }
  bool has(const Group& group, std::string* problem) {
    const auto entry = store_.look(group.key, problem);
    const auto found = entry ? read_tuning(group.key, *entry, group.first->machine, *problem) : std::nullopt;
    if (!found) return false;
    if (group.choices.count(found->choice) != 0) return true;
    *problem = cat("the cache has the choice ", found->choice);
    return false;
  }

 private:
  const support::Settings settings_;
  const support::Log log_;
  Backends backends_;
  cache::Store store_;
  KernelMaker maker_;
};

struct Missing {
  std::size_t line;
  std::string what, problem;
};

void print(const std::vector<Missing>& missing, std::ostream& out) {
  for (const Missing& each : missing)
    out << "missing: line " << each.line << ": " << support::one_line(each.what)
        << (each.problem.empty() ? "" : ": " + support::one_line(each.problem)) << '\n';
}

Json to_json(const std::vector<Missing>& missing) {
  Json list = Json::array();
  for (const Missing& each : missing) {
    list.push_back({{"line", each.line}, {"name", each.what}});
    if (!each.problem.empty()) list.back()["problem"] = each.problem;
  }
  return list;
}

}  // namespace

Manifest read_wanted(const char* flag, const std::string& path, std::ostream& err) {
  Manifest wanted = read_manifest(read_text(flag, path, err));
  for (const WantedKernel& kernel : wanted.kernels)
    if (kernel.op != nullptr && !serves(*kernel.op, kernel.request, *kernel.target.arch))
      wanted.bad.emplace_back(
          kernel.line, cat("'", kernel.target.name(), "' does not serve ", kernel.request.name, "; remove the line"));
  if (!wanted.bad.empty()) {
    std::sort(wanted.bad.begin(), wanted.bad.end());
    std::string list;
    for (const auto& [line, problem] : wanted.bad) list += cat("line ", line, ": ", support::one_line(problem), "\n");
    support::fail(Stage::argument, Code::invalid_argument,
                  cat(flag, ": '", support::shown_path(path), "' has ", wanted.bad.size(),
                      wanted.bad.size() == 1 ? " bad line" : " bad lines", ", so nothing was done:"),
                  list);
  }
  if (wanted.kernels.empty() && wanted.tunings.empty())
    bad_use(
        cat(flag, ": '", support::shown_path(path), "' lists nothing; give a file that a run wrote under TJ_RECORD"));
  return wanted;
}

std::vector<Job> jobs_of(const Manifest& wanted) {
  std::vector<Job> jobs;
  for (WantedKernel& kernel : kernels_once(wanted))
    if (kernel.op != nullptr) jobs.push_back({std::move(kernel.request), kernel.target.name()});
  return jobs;
}

Json KeptChoices::to_json() const {
  return {{"written", written}, {"there", there}, {"failed", failed}, {"left_out", left_out}};
}

KeptChoices keep_choices(const Manifest& wanted, const support::Settings& settings, std::ostream& err) {
  KeptChoices kept;
  Presence presence(settings, err);
  std::string problem;
  for (const WantedKernel& kernel : kernels_once(wanted))
    if (kernel.op == nullptr && !presence.has(kernel, &problem)) kept.left_out.push_back(title(kernel));
  if (!kept.left_out.empty()) {
    err << "left out, as only their program can make them: ";
    print_names(err, kept.left_out);
  }
  cache::Store store(settings.cache_dir, settings.cache_max_size_bytes, {}, settings.pack_keys);
  for (const Group& group : groups_of(wanted)) {
    const WantedTuning& tuning = *group.first;
    if (presence.has(group, &problem)) {
      ++kept.there;
    } else if (store.store(group.key, tuning_entry(tuning.machine, *tuning.op, tuning.problem, tuning.choice, 0))) {
      ++kept.written;
    } else {
      if (kept.failed++ == 0)
        err << "failed: " << title(tuning) << ": the choice is not in the cache at '"
            << support::shown_path(settings.cache_dir) << "': " << why_not_kept(settings.cache_dir) << '\n';
    }
  }
  if (kept.failed > 1) err << "failed for the same reason: " << kept.failed - 1 << " measured choices more\n";
  return kept;
}

int check_covered(const std::string& path, const support::Settings& settings, bool json, std::ostream& out,
                  std::ostream& err) {
  const Manifest wanted = read_wanted("--covers", path, err);
  Presence presence(settings, err);
  std::vector<Missing> missing;
  std::string problem;
  const std::vector<WantedKernel> kernels = kernels_once(wanted);
  const std::vector<Group> groups = groups_of(wanted);
  for (const WantedKernel& kernel : kernels)
    if (!presence.has(kernel, &problem)) missing.push_back({kernel.line, title(kernel), problem});
  for (const Group& group : groups)
    if (!presence.has(group, &problem)) missing.push_back({group.first->line, title(*group.first), problem});
  const std::vector<cache::LayerState> layers = presence.layers();
  if (layers.size() == 1 && !layers.front().problem.empty())
    say_unusable(settings.cache_dir, layers.front().problem, err);
  if (json) {
    Json document = {{"cache_dir", settings.cache_dir},
                     {"covered", missing.empty()},
                     {"kernels", kernels.size()},
                     {"tuned", groups.size()},
                     {"missing", to_json(missing)}};
    if (layers.size() > 1) document["layers"] = tools::to_json(layers);
    out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    print(missing, out);
    out << kernels.size() << " kernels and " << groups.size()
        << " measured choices: " << kernels.size() + groups.size() - missing.size() << " there, " << missing.size()
        << " missing; cache " << support::one_line(settings.cache_dir) << '\n';
    print_layers(layers, out);
  }
  return missing.empty() ? kExitOk : kExitFailures;
}

}  // namespace tj::tools
