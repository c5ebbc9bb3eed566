// tj-warm: options, and kernels made by several threads.
//
// Options that belong to an op (--dtype, --head-dim, ...) are not listed here: they are handed to the op, which names
// what it allows. So a new op needs no change in this file.
#include "tools/warm.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <ostream>
#include <set>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "arch/named_target.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/op.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text.hpp"
#include "tools/command_line.hpp"
#include "tools/documents.hpp"
#include "tools/facts.hpp"
#include "tools/process.hpp"
#include "tools/warm_keep.hpp"
#include "tools/warm_make.hpp"
#include "tools/warm_manifest.hpp"
#include "tools/warm_pack.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::vector<std::string> targets, op_names;
  std::string cache_dir, facts;
  int jobs = 0;  ///< 0: one a core
  bool json = false, list = false, verify = false, tune = false;
  GraphFiles graph;
  std::string manifest, covers;              ///< paths; empty: not wanted
  std::string pack, unpack, sign, make_key;  ///< likewise
  std::vector<std::string> tune_only;
  int tune_limit = 0, tune_rounds = 0;
  Flags op_flags;
  std::vector<std::string> own_flags;  ///< that tj-warm has itself
};

/// Every flag with all values that were given to it.
Flags parse_op_flags(const std::vector<std::string>& words, const std::vector<std::string>& own) {
  Flags flags;
  for (const ops::GivenFlag& flag : ops::read_flags(words)) {
    if (flag.values.empty())
      bad_use(cat("--", support::shown(flag.name), " needs a value, or is no flag at all; see --help",
                  meant_flag(flag.name, own)));
    flags[flag.name].insert(flags[flag.name].end(), flag.values.begin(), flag.values.end());
  }
  return flags;
}

void add_options(CLI::App& app, Settings& settings) {
  app.add_option("--target", settings.targets,
                 "sm_90a, gfx1100, model:sm_90a, sm_90+copies=threads+smem=99K, sm_90+code=ptx, ... (default: "
                 "TJ_TARGET, else what "
                 "this machine's first GPU runs, else the first known architecture)")
      ->delimiter(',')
      ->check(no_flag);
  app.add_option("--op", settings.op_names, "fmha, gemm, ... (default: every op)")->delimiter(',')->check(no_flag);
  app.add_option("--cache-dir", settings.cache_dir,
                 "in place of TJ_CACHE_DIR: a folder, or layers with ':' between them")
      ->check(some_folder);
  add_facts_option(app, settings.facts);
  bounded(app.add_option("--jobs", settings.jobs, "kernels made at a time (default: one a core)"), 1, 256);
  app.add_flag("--json", settings.json, "print one JSON document and nothing else");
  auto* list =
      app.add_flag("--list", settings.list, "list the cache; exit 1 when an entry is damaged or it cannot be used");
  app.add_flag("--verify", settings.verify,
               "check every entry of the cache; exit 1 when one is damaged or it cannot be used")
      ->excludes(list);
  app.add_option("--manifest", settings.manifest,
                 "make what a file lists that a run wrote (TJ_RECORD), without a GPU; needs no --op and no --target")
      ->check(no_flag)
      ->excludes(list)
      ->excludes("--verify");
  app.add_option("--covers", settings.covers, "is all that such a file lists in the cache; if not, a list and exit 1")
      ->check(no_flag)
      ->excludes(list)
      ->excludes("--verify")
      ->excludes("--manifest");
  auto* pack =
      app.add_option("--pack", settings.pack, "write the whole cache into one file, which TJ_CACHE_DIR may name")
          ->check(no_flag);
  app.add_option("--sign", settings.sign, "the file with the secret key that signs the pack")
      ->check(no_flag)
      ->needs(pack);
  app.add_option("--unpack", settings.unpack, "write what such a file has into the cache")->check(no_flag);
  app.add_option("--make-key", settings.make_key,
                 "write a new secret key into this file, and the public one beside it, under its name with .pub")
      ->check(no_flag);
  auto* tune = app.add_flag("--tune", settings.tune,
                            "on a GPU, time the kernels that can serve given sizes and keep the fastest one's name")
                   ->excludes(list)
                   ->excludes("--verify")
                   ->excludes("--manifest")
                   ->excludes("--covers");
  add_graph_options(app, settings.graph, "has its candidates timed (with --tune)");
  app.get_option("--graph")->needs(tune);
  app.add_option("--tune-only", settings.tune_only,
                 "names of the kernels that are timed, such as 128x256x64 (default: all)")
      ->delimiter(',')
      ->check(no_flag)
      ->needs(tune);
  bounded(app.add_option("--tune-limit", settings.tune_limit,
                         "kernels timed for a problem, best predicted first (default: all)"),
          1, 1000)
      ->needs(tune);
  bounded(app.add_option("--tune-rounds", settings.tune_rounds, "rounds of timing (default: 10)"), 1, 10000)
      ->needs(tune);
}

/// A way of working that takes few of the other options.
struct Mode {
  const char* given;  ///< "--list or --verify, which take"
  const char* takes;  ///< "--cache-dir and --json"
  std::vector<std::string_view> allowed;
};
std::optional<Mode> mode_of(const Settings& settings) {
  if (settings.list || settings.verify)
    return Mode{"--list or --verify, which take", "--cache-dir and --json", {"--list", "--verify"}};
  if (!settings.manifest.empty())
    return Mode{
        "--manifest, which takes", "--cache-dir, --facts, --jobs and --json", {"--manifest", "--jobs", "--facts"}};
  if (!settings.covers.empty())
    return Mode{"--covers, which takes", "--cache-dir, --facts and --json", {"--covers", "--facts"}};
  if (!settings.pack.empty())
    return Mode{"--pack, which takes", "--cache-dir, --sign and --json", {"--pack", "--sign"}};
  if (!settings.unpack.empty()) return Mode{"--unpack, which takes", "--cache-dir and --json", {"--unpack"}};
  if (!settings.make_key.empty()) return Mode{"--make-key, which takes", "no other flag", {"--make-key"}};
  return std::nullopt;
}

/// Refuses what a mode does not take.
void check_mode(const CLI::App& app, const Settings& settings) {
  const std::optional<Mode> mode = mode_of(settings);
  if (!mode) return;
  const auto refuse = [&](const std::string& flag) {
    bad_use(cat(flag, " is given with ", mode->given, " ", mode->takes, " only"));
  };
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const bool allowed = name == "--cache-dir" || name == "--json" ||
                         std::find(mode->allowed.begin(), mode->allowed.end(), name) != mode->allowed.end();
    if (option->count() > 0 && !allowed) refuse(name);
  }
  if (settings.op_flags.empty()) return;
  const std::string& flag = settings.op_flags.begin()->first;
  bad_use(cat("--", support::shown(flag), " is given with ", mode->given, " ", mode->takes, " only",
              meant_flag(flag, settings.own_flags)));
}

/// Fills settings; an exit code when there is nothing left to do (help, or a mistake that was reported).
std::optional<int> parse(const std::vector<std::string>& words, Settings& settings, std::ostream& out,
                         std::ostream& err) {
  CLI::App app("Compiles kernels into the disk cache ahead of time, without a GPU; lists and checks that cache.",
               "tj-warm");
  add_options(app, settings);
  app.allow_extras();
  app.footer(warm_footer());
  if (const std::optional<int> done = parse_words(app, words, out, err)) return done;
  settings.own_flags = own_flags(app);
  settings.op_flags = parse_op_flags(app.remaining(), settings.own_flags);
  check_mode(app, settings);
  if (settings.op_names.empty() && !settings.op_flags.empty() && !settings.tune)
    refuse_without_op("tj-warm", settings.op_flags, settings.own_flags);
  return std::nullopt;
}

/// When an op's default set, or every op, was asked for, nobody named what a target lacks. It is left out, in words,
/// where anything is left of an op that was named.
std::vector<Job> find_jobs(const Settings& settings, const Runtime& runtime, std::ostream& err) {
  std::vector<const ops::Op*> chosen;
  for (const std::string& name : settings.op_names) chosen.push_back(&find_op(name));
  if (chosen.empty()) chosen = ops::all();

  std::vector<std::string> targets;
  const arch::FactFile* const facts = given_facts(settings.facts);
  for (const std::string& name : settings.targets) targets.push_back(parse_target(name, "--target", facts).name());
  const std::string asked = support::environment_variable("TJ_TARGET").value_or("");
  if (targets.empty() && !asked.empty()) targets.push_back(parse_target(asked, "TJ_TARGET", facts).name());
  const bool of_device = targets.empty();  // then an op takes what a call of it would
  const Device device = of_device ? runtime.default_device() : Device{};
  const bool on_device = of_device && device.kind != DeviceKind::cpu;
  if (of_device) targets.push_back(on_device ? runtime.target_of(device) : usual_target(facts).name());
  std::vector<Job> jobs;
  std::set<std::pair<std::string, std::string>> seen;  // "--causal both,true" names some kernels twice
  for (const std::string& each_target : targets)
    for (const ops::Op* op : chosen) {
      const std::string target = on_device ? runtime.target_of(device, op->name()) : each_target;
      const arch::Arch& arch = *arch::parse_target(target).arch;
      std::vector<ops::Request> requests = op->requests_for(settings.op_flags, arch);
      const auto unserved = std::stable_partition(
          requests.begin(), requests.end(), [&](const ops::Request& request) { return serves(*op, request, arch); });
      if (unserved != requests.end() && (unserved != requests.begin() || settings.op_names.empty())) {
        err << "left out, as " << target << " does not serve them:";
        for (auto each = unserved; each != requests.end(); ++each) err << ' ' << each->name;
        err << '\n';
        requests.erase(unserved, requests.end());
      }
      for (ops::Request& request : requests)
        if (seen.emplace(request.name, target).second)
          jobs.push_back({std::move(request), target, on_device ? std::optional(device) : std::nullopt});
    }
  return jobs;
}

void print_json(const std::string& cache_dir, const std::vector<Job>& jobs, const std::vector<Outcome>& outcomes,
                double total_ms, const std::optional<KeptChoices>& choices, std::ostream& out) {
  Json kernels = Json::array();
  std::size_t failures = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Outcome& o = outcomes[i];
    Json kernel = {{"name", jobs[i].request.name}, {"target", jobs[i].target}, {"ok", o.ok}, {"total_ms", o.total_ms}};
    if (o.ok) {
      kernel["origin"] = Progress::origin(o);
      kernel["schedule_ms"] = o.report.schedule_ms;
      kernel["codegen_ms"] = o.report.codegen_ms;
      kernel["compile_ms"] = o.report.compile_ms;
      kernel["registers"] = o.report.registers;
    } else {
      ++failures;
      kernel["error"] = o.error;
      kernel["log"] = o.log;
    }
    kernels.push_back(std::move(kernel));
  }
  Json document = {{"cache_dir", cache_dir},
                   {"failures", failures + (choices ? choices->failed : 0)},
                   {"total_ms", total_ms},
                   {"kernels", kernels}};
  if (choices) document["choices"] = choices->to_json();
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

int warm_kernels(const Settings& settings, const support::Settings& resolved, std::ostream& out, std::ostream& err,
                 bool terminal) {
  const std::string& cache_dir = resolved.cache_dir;
  std::optional<Manifest> wanted;
  if (!settings.manifest.empty()) wanted = read_wanted("--manifest", settings.manifest, err);
  Progress progress(out, err, terminal, settings.json, resolved.log_level);
  Options options;
  options.cache_dir = cache_dir;
  set_facts(options.facts_file, settings.facts);
  if (wanted) options.facts_file = "";  // each line names its own facts, or none
  progress.follow(options);
  Runtime runtime(options);
  std::vector<Job> jobs = wanted ? jobs_of(*wanted) : find_jobs(settings, runtime, err);
  if (jobs.empty() && !wanted)
    support::fail(
        Stage::target, Code::unsupported,
        cat("no target that was asked for serves any op; ", document("src/arch/README.md"), " lists targets"));
  std::vector<Outcome> outcomes(jobs.size());
  const std::vector<std::size_t> worth = jobs_worth_making(resolved, jobs, outcomes, progress);
  progress.started(worth.size());
  const int threads = threads_for(settings.jobs, worth.size());
  const Clock::time_point start = Clock::now();
  make_all(runtime, jobs, worth, threads, progress, outcomes);
  const double total_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (jobs[i].device && outcomes[i].ok && !outcomes[i].report.target.empty())
      jobs[i].target = outcomes[i].report.target;
  check_kept(resolved, jobs, outcomes, runtime.counters().evictions, progress);
  progress.end();
  std::optional<KeptChoices> choices;
  if (wanted) choices = keep_choices(*wanted, resolved, err);

  const auto failures = std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return !o.ok; });
  if (settings.json) {
    print_json(cache_dir, jobs, outcomes, total_ms, choices, out);
  } else {
    const auto compiled = std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) {
      return o.ok && o.report.origin == KernelOrigin::compiled;
    });
    if (choices && choices->written + choices->there + choices->failed > 0)
      out << choices->written + choices->there + choices->failed << " measured choices: " << choices->written
          << " written, " << choices->there << " already in the cache, " << choices->failed << " failed\n";
    out << jobs.size() << " kernels: " << compiled << " compiled, "
        << static_cast<long>(jobs.size()) - compiled - failures << " already in the cache, " << failures << " failed; "
        << static_cast<long>(total_ms) << " ms with " << threads << " threads; cache " << support::one_line(cache_dir)
        << '\n';
  }
  return failures > 0 || (choices && choices->failed > 0) ? kExitFailures : kExitOk;
}

int run(const Settings& settings, std::ostream& out, std::ostream& err, bool terminal) {
  Options options;
  if (!settings.cache_dir.empty()) options.cache_dir = settings.cache_dir;
  const support::Settings resolved = support::resolve_settings(options);
  if (settings.list || settings.verify) return list_cache(resolved, settings.verify, settings.json, out, err);
  if (!settings.pack.empty()) return pack_cache(settings.pack, settings.sign, resolved, settings.json, out, err);
  if (!settings.unpack.empty()) return unpack_cache(settings.unpack, resolved, settings.json, out, err);
  if (!settings.make_key.empty()) return make_key(settings.make_key, out);
  given_facts(settings.facts);  // names of targets in manifests may have their hash
  if (!settings.covers.empty()) return check_covered(settings.covers, resolved, settings.json, out, err);
  if (settings.tune) {
    const TuneWork work{settings.op_names,  settings.targets, settings.op_flags,   resolved.cache_dir,
                        settings.tune_only, settings.jobs,    settings.tune_limit, settings.tune_rounds,
                        settings.json,      settings.facts,   settings.graph};
    return tune_problems(work, resolved, out, err, terminal);
  }
  return warm_kernels(settings, resolved, out, err, terminal);
}

}  // namespace

int warm(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, bool terminal) {
  return run_tool("tj-warm", BadUse::targets_too, out, err, [&] {
    Settings settings;
    if (const std::optional<int> done = parse(words, settings, out, err)) return *done;
    try {
      return run(settings, out, err, terminal);
    } catch (const Error& error) {
      rethrow_with_own_flag(error.message, settings.own_flags);
      throw;
    }
  });
}

}  // namespace tj::tools
