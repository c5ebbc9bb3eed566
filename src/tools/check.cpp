// tj-check: options, and which of its ways of working they ask for.
//
// Options that belong to an op (--dtype, --head-dim, --seq-q, ...) are not listed here: they are handed to the op,
// which names what it allows. So a new op needs no change in this file.
#include "tools/check.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <ostream>
#include <utility>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "arch/fact_file.hpp"
#include "arch/named_target.hpp"
#include "ops/common/op_flags.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"
#include "tools/command_line.hpp"
#include "tools/facts.hpp"
#include "tools/options.hpp"
#include "tools/process.hpp"

namespace tj::tools {
namespace {

using support::cat;

constexpr std::uint64_t kUsualSeeds = 20, kSeedsOfMutants = 200;  // most mutants are caught at the first
constexpr std::uint64_t kMostSeeds = 1000000;

constexpr const char* kFooter =
    "With --graph, --trial and --candidate name what is tried: default all trials whose use is \"both\" or \"check\", "
    "in\n"
    "every candidate that has a schedule. Results are compared where the trial says what it expects.\n"
    "With --op, further flags select kernels and sizes and belong to the op. Several values are separated by\n"
    "commas, and all combinations are checked. A flag that is left out has its first value, a size one in which\n"
    "each ring's slots come round.\n"
    "  fmha: as tj-warm lists them, --rung, and --batch --heads --kv-heads --seq-q --seq-k\n"
    "  gemm: as tj-warm lists them, --rung v1,..., and --m --n --k --batch; without --tile the one that is predicted\n"
    "  grouped_gemm: as tj-warm lists them, and --n --k --counts 0,70,1 (rows of groups); without --tile the one "
    "predicted\n"
    "  chunk_o: as tj-warm lists them, and --heads --lengths 70,64,130 (of sequences)\n"
    "  chunk_indices: --lengths\n"
    "  chunk_cumsum: --dtype --v-heads --lengths\n"
    "  chunk_states: as tj-warm lists them, and --heads --v-heads --lengths\n"
    "  chunk_solve, chunk_wu: --dtype --head-dim --heads --v-heads --lengths\n"
    "  merge_states: --dtype --out --states --heads --rows --d\n"
    "  quantise: --dtype --gate --row-indices --m --k --block-rows 1,128\n"
    "  gated_delta_rule: as tj-warm lists them, and --heads --v-heads --lengths 1,1,1 (of sequences)\n"
    "  combine: --dtype --out --tokens --columns --choices\n"
    "  copy_rows: --batch --rows --columns\n"
    "  sum_parts: --out --m --n --parts\n"
    "Behind \"--\" stands a program of your own, such as one that launches a graph and node bodies of yours. It\n"
    "runs once for each seed, with these variables: TJ_TARGET (the target), TJ_MODEL_SEED (the seed),\n"
    "TJ_MODEL_DISABLE and TJ_MODEL_WEAKEN (the sites), TJ_MODEL_REPORT (a file that the library appends to).\n"
    "It must use tensors in host memory, and end with status 0 when all is well.\n"
    "Examples:\n"
    "  tj-check --op fmha --head-dim 128 --causal true --target gfx1100\n"
    "  tj-check --op gemm --tile 128x128x64 --mutate\n"
    "  tj-check --graph gemm.json --trial edges --mutate\n"
    "  tj-check --seeds 50 --target model:sm_90a -- samples/05_custom_gemm --m 300 --k 1000\n"
    "Exit codes: 0 clean (--mutate: every mutant caught or equivalent), 1 findings (survivors) or a kernel that cannot "
    "be made, 2 bad use or an output\nthat cannot be written.";

constexpr std::uint64_t kMostSeed = std::numeric_limits<std::int64_t>::max();

void add_options(CLI::App& app, CheckSettings& settings, std::vector<std::string>& off,
                 std::vector<std::string>& weak) {
  auto* op = app.add_option("--op", settings.op, "fmha, gemm, chunk_o, ...")->check(no_flag);
  auto* all =
      app.add_flag("--all", settings.all, "every shipped op, on every family of matrix instructions")->excludes(op);
  add_graph_options(app, settings.graph, "is tried");
  app.add_option("--target", settings.target,
                 "sm_90a or model:sm_90a, gfx1100, ...: either means the model of that architecture (default: "
                 "TJ_TARGET, else the first known one)")
      ->check(no_flag)
      ->excludes(all);
  bounded(app.add_option(
              "--seeds", settings.seeds.count,
              "orders of events that are tried (default: 20; with --mutate at most 200, until a mutant is caught)"),
          1, kMostSeeds);
  bounded(app.add_option("--seed", settings.seeds.first, "the first of them (default: 1)"), 0, kMostSeed);
  bounded(app.add_option("--data-seed", settings.seeds.data, "of the values that tensors hold (default: 1)"), 0,
          kMostSeed);
  app.add_option(
         "--disable-site", off,
         "a site that does nothing: NUMBER, or KERNEL:NUMBER where a call launches several kernels; may be given again")
      ->check(no_flag)
      ->delimiter(',');
  app.add_option("--weaken-site", weak,
                 "a site that does less: a wait for groups leaves one more under way, an announcement says half the "
                 "bytes, a turn is passed on without a wait")
      ->check(no_flag)
      ->delimiter(',');
  auto* list = app.add_flag("--list-sites", settings.list_sites,
                            "list the sites, run nothing: number, kind and text, a line each, separated by tabs");
  app.add_flag("--mutate", settings.mutate,
               "switch off or weaken each site in turn, change ring depths, and expect each to be found")
      ->excludes(list);
  bounded(app.add_option("--jobs", settings.seeds.threads, "runs at a time (default: one a core)"), 1, 256);
  app.add_option("--cache-dir", settings.cache_dir, "in place of TJ_CACHE_DIR")->check(some_folder);
  app.add_flag("--json", settings.json, "print one JSON document and nothing else");
  app.allow_extras();
  app.footer(kFooter);
}

/// The arch's model, whether or not that was said.
std::string model_of(const std::string& given) {
  std::string name = given.empty() ? support::environment_variable("TJ_TARGET").value_or("") : given;
  const arch::FactFile* const facts = given_facts("");
  if (name.empty()) name = arch::shipped_name(*usual_target(facts).arch);
  arch::Target target = parse_target(name, given.empty() ? "TJ_TARGET" : "--target", facts);
  target.model = true;
  return target.name();
}

void check_use(const CheckSettings& settings) {
  if (settings.op.empty() && !settings.graph.given() && !settings.op_flags.empty())
    refuse_without_op("tj-check", settings.op_flags, settings.own_flags);
  const int given = !settings.op.empty() + settings.graph.given() + settings.all + !settings.program.empty();
  if (given != 1) bad_use("give one of --op, --graph, --all and a program behind --; see --help");
  const bool sites = !settings.disabled.empty() || !settings.weakened.empty();
  if (settings.seeds.data != 1 && !settings.program.empty())
    bad_use(cat("--data-seed is '", settings.seeds.data,
                "' with a program; allowed: leave it out, a program chooses its own values"));
  if (settings.mutate && !settings.program.empty())
    bad_use(
        "--mutate is given with a program; mutants are made of --op, --graph or --all: switch a program's sites off by "
        "--disable-site");
  if (sites && (settings.mutate || settings.all || settings.list_sites))
    bad_use(
        "--disable-site and --weaken-site are given with --mutate, --all or --list-sites; allowed: with --op, "
        "--graph or a program");
}

/// Fills settings; an exit code when there is nothing left to do (help, or a mistake that was reported).
std::optional<int> parse(const std::vector<std::string>& words, CheckSettings& settings, std::ostream& out,
                         std::ostream& err) {
  const auto behind = std::find(words.begin(), words.end(), "--");
  if (behind != words.end()) {
    settings.program.assign(behind + 1, words.end());
    if (settings.program.empty()) bad_use("-- is followed by nothing; give a program and its arguments behind it");
  }
  settings.seeds.count = 0;
  std::vector<std::string> own(words.begin(), behind), off, weak;
  CLI::App app(
      "Looks for deadlocks, races and misuse of barriers in kernels, on the CPU model of an architecture. Needs no "
      "GPU.",
      "tj-check");
  add_options(app, settings, off, weak);
  if (const std::optional<int> done = parse_words(app, own, out, err)) return done;
  settings.own_flags = own_flags(app);
  if (settings.seeds.count == 0) settings.seeds.count = settings.mutate ? kSeedsOfMutants : kUsualSeeds;
  for (const ops::GivenFlag& flag : ops::read_flags(app.remaining())) {
    auto& values = settings.op_flags[flag.name];
    if (flag.values.empty()) values.emplace_back("true");
    values.insert(values.end(), flag.values.begin(), flag.values.end());
  }
  for (const std::string& text : off) settings.disabled.push_back(support::parse_site("--disable-site", text));
  for (const std::string& text : weak) settings.weakened.push_back(support::parse_site("--weaken-site", text));
  check_use(settings);
  if (settings.graph.given()) {
    settings.graph_op = read_graph_op("tj-check", settings.graph, err);
    // A graph says itself what it is for.
    if (settings.target.empty() && !support::environment_variable("TJ_TARGET"))
      settings.target = settings.graph_op->maker().document().targets().front();
  }
  settings.target = model_of(settings.target);
  return std::nullopt;
}

}  // namespace

struct CheckProgress::State {
  std::ostream& err;
  const bool terminal;
  std::string what;
  std::size_t done = 0, total = 0;
  bool dirty = false;
  std::mutex mutex;
};
CheckProgress::CheckProgress(std::ostream& err, bool terminal)
    : state_(new State{err, terminal, {}, 0, 0, false, {}}) {}
CheckProgress::~CheckProgress() { end(); }
void CheckProgress::begin(const std::string& what, std::size_t total) {
  const std::lock_guard lock(state_->mutex);
  state_->what = what;
  state_->done = 0;
  state_->total = total;
}
void CheckProgress::step() {
  const std::lock_guard lock(state_->mutex);
  ++state_->done;
  if (!state_->terminal) return;
  state_->err << "\r\x1b[K" << state_->what << ": " << state_->done << " of " << state_->total << std::flush;
  state_->dirty = true;
}
void CheckProgress::waits(double waited_s) {
  const std::lock_guard lock(state_->mutex);
  if (state_->dirty) state_->err << "\r\x1b[K";
  state_->dirty = false;
  state_->err << "tj-check: run " << state_->done + 1 << " of " << state_->total << " of '"
              << support::shown(state_->what) << "' has not ended after " << static_cast<long>(waited_s)
              << " s; it is waited for without a limit\n"
              << std::flush;
}
void CheckProgress::end() {
  const std::lock_guard lock(state_->mutex);
  if (state_->dirty) state_->err << "\r\x1b[K" << std::flush;
  state_->dirty = false;
}

struct CheckKernels::State {
  support::Settings settings;
  std::map<std::string, std::unique_ptr<check::Kernels>> kernels;
};
CheckKernels::CheckKernels(const CheckSettings& settings) : state_(std::make_unique<State>()) {
  Options options;
  if (!settings.cache_dir.empty()) options.cache_dir = settings.cache_dir;
  options.target = "";      // each case has its own,
  options.facts_file = "";  // and its facts in its name
  state_->settings = support::resolve_settings(options);
}
CheckKernels::~CheckKernels() = default;
check::Kernels& CheckKernels::of(const std::string& target) {
  auto& kept = state_->kernels[target];
  if (!kept)
    kept = std::make_unique<check::Kernels>(state_->settings, arch::parse_target(target),
                                            support::Log(state_->settings.log_level, {}));
  return *kept;
}

std::vector<CheckCase> check_cases(const CheckSettings& settings, CheckKernels& kernels, CheckProgress& progress) {
  const ops::Op* const own = settings.graph_op.get();
  const auto op_of = [&](const check::Case& of) -> const ops::Op& { return own != nullptr ? *own : find_op(of.op); };
  const std::vector<check::Case> cases =
      settings.all ? check::full_set() : std::vector<check::Case>{{settings.op, settings.target, settings.op_flags}};
  std::vector<std::pair<const check::Case*, ops::Trial>> trials;
  for (const check::Case& each : cases)
    for (ops::Trial& trial : op_of(each).trials(each.flags, *kernels.of(each.target).target().arch))
      trials.emplace_back(&each, std::move(trial));
  progress.begin("kernels for problems", trials.size());
  std::vector<CheckCase> made;
  for (auto& [of, trial] : trials) {
    check::Kernels& maker = kernels.of(of->target);
    const std::string subject = own != nullptr ? settings.graph.flags() : cat("--op ", of->op);
    std::string command =
        cat("tj-check ", subject, " --target ", of->target, trial.flags.empty() ? "" : " ", trial.flags);
    std::string of_kernel =
        cat("tj-check ", subject, " --target ", of->target, trial.kernel_flags.empty() ? "" : " ", trial.kernel_flags);
    made.push_back(
        {check::make_subject(op_of(*of), std::move(trial), maker), &maker, std::move(command), std::move(of_kernel)});
    progress.step();
  }
  progress.end();
  return made;
}

namespace {

int run(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, bool terminal) {
  CheckSettings settings;
  if (const std::optional<int> done = parse(words, settings, out, err)) return *done;
  CheckProgress progress(err, terminal);
  if (!settings.program.empty()) return check_program(settings, progress, out);
  CheckKernels kernels(settings);
  std::vector<CheckCase> cases;
  try {
    cases = check_cases(settings, kernels, progress);
  } catch (const Error& error) {
    rethrow_with_own_flag(error.message, settings.own_flags);
    throw;
  }
  if (settings.list_sites) return list_sites(cases, settings.json, out);
  return settings.mutate ? check_mutants(settings, cases, progress, out) : check_seeds(settings, cases, progress, out);
}

}  // namespace

int check(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, bool terminal) {
  return run_tool("tj-check", BadUse::targets_too, out, err, [&] { return run(words, out, err, terminal); });
}

}  // namespace tj::tools
