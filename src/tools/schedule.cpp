// tj-schedule: options, one graph, one schedule, text or JSON.
//
// Options that belong to an op (--dtype, --head-dim, ...) are handed to the op, which names what it allows; one without
// a value (--causal) means "true".
#include "tools/schedule.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <system_error>

#include <tilejit/error.hpp>
#include <tilejit/graph.hpp>
#include <tilejit/graph_examples.hpp>

#include "arch/arch.hpp"
#include "arch/fact_file.hpp"
#include "arch/named_target.hpp"
#include "graph/examples.hpp"
#include "graph/json_reader.hpp"
#include "ops/common/machine.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/common/own_texts.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"
#include "sched/picture/svg.hpp"
#include "sched/picture/trace.hpp"
#include "sched/schedule.hpp"
#include "sched/user_options.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text.hpp"
#include "tools/command_line.hpp"
#include "tools/documents.hpp"
#include "tools/facts.hpp"
#include "tools/input_file.hpp"
#include "tools/limits.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"
#include "tools/process.hpp"

namespace tj::tools {
namespace {

using support::cat;
using Flags = std::map<std::string, std::vector<std::string>>;

struct Settings {
  std::string op, target, example, graph_file;
  std::string candidate;           ///< of the graph file
  std::string machine;             ///< of the example
  std::vector<std::string> costs;  ///< of the example: "gemm=2"
  int sub_tiles = 1;
  std::string svg, trace;  ///< files to write
  std::string roles = "joint";
  int streaming_latency = -1;
  bool json = false, show_facts = false;
  std::string facts;  ///< a file of them
  sched::Options options;
  Flags op_flags;
  std::vector<std::string> own_flags;  ///< that tj-schedule has itself
  std::set<std::string> given;         ///< flags of it that the command line has
};

/// The graph that is scheduled, and what its prediction needs.
struct Subject {
  std::string name, target;
  graph::Graph graph;
  sched::Options options;  ///< with which it was made
  sched::Schedule schedule;
  std::optional<double> tflops;
  const arch::Arch* arch = nullptr;  ///< whose facts gave the costs; null: a graph brings its own
};

/// "--dtype f16 --causal" -> {dtype: [f16], causal: [true]}.
Flags parse_op_flags(const std::vector<std::string>& words) {
  Flags flags;
  for (const ops::GivenFlag& flag : ops::read_flags(words)) {
    std::vector<std::string> values = flag.values;
    if (values.empty()) values.emplace_back("true");
    const bool several = !ops::is_text_flag(flag.name) && (values.front() == "both" || values.size() > 1);
    if (several || flags.count(flag.name) != 0)
      bad_use(cat("--", support::shown(flag.name), " has several values; tj-schedule shows one kernel, give one"));
    flags[flag.name] = std::move(values);
  }
  return flags;
}

constexpr const char* kFooter =
    "Examples:\n"
    "  tj-schedule --op fmha --head-dim 128 --causal true --target sm_90a --svg fmha.svg\n"
    "  tj-schedule --graph-example fa_hopper        attention on normalised costs\n"
    "  tj-schedule --graph-example fa_hopper --costs gemm=1,exp=2 --sub-tiles 2\n"
    "  tj-schedule --graph FILE --trace trace.json  a graph of your own\n"
    "Exit codes: 0 done, 1 there is no such schedule, 2 bad use or an output that cannot be written.";

void add_example_options(CLI::App& app, Settings& settings) {
  app.add_option("--graph-example", settings.example,
                 "instead of an op: simplified_fa, fa_hopper, fa_blackwell or simple_gemm, on normalised costs")
      ->check(no_flag);
  app.add_option("--costs", settings.costs, "costs of --graph-example, in cycles, such as gemm=2,exp=1")
      ->delimiter(',')
      ->check(no_flag);
  bounded(app.add_option("--sub-tiles", settings.sub_tiles,
                         "tiles of rows that --graph-example works on side by side, each with instructions of its own"),
          1, graph::kMaxSubTiles);
  app.add_option("--machine", settings.machine,
                 "machine of --graph-example: hopper, blackwell, sm_90a, ... (default: the example's own)")
      ->check(no_flag);
}

void add_options(CLI::App& app, Settings& settings) {
  app.add_option("--op", settings.op,
                 "fmha, gemm, ...; further flags (--dtype, --head-dim, --causal, ...) belong to the op, the first of "
                 "its defaults is taken for those left out")
      ->check(no_flag);
  app.add_option("--target", settings.target,
                 "sm_90a, model:sm_90a, sm_90+copies=threads+smem=99K, sm_90+code=ptx, ... (default: TJ_TARGET, else "
                 "the first known architecture); for --graph its machine or one of its targets (default: its machine)")
      ->check(no_flag);
  add_example_options(app, settings);
  app.add_option("--graph", settings.graph_file,
                 cat("instead of an op: a JSON file with a machine, instructions and edges (",
                     document("src/graph/README.md"), ")"))
      ->check(no_flag);
  app.add_option("--candidate", settings.candidate,
                 "the form of --graph to show (default: that which does most in a cycle)")
      ->check(no_flag);
  bounded(app.add_option("--max-stages", settings.options.max_stages,
                         "most stages of an iteration in flight; 1: iterations do not overlap; 0: any (default)"),
          0, std::numeric_limits<int>::max());
  bounded(app.add_option("--min-ii", settings.options.min_ii, "try no smaller initiation interval, in cycles"), 0,
          sched::kMaxMinIi);
  bounded(app.add_option("--max-slots", settings.options.max_slots,
                         "most slots of a ring; 0: what the op and memory allow (default)"),
          0, std::numeric_limits<int>::max());
  app.add_option("--roles", settings.roles,
                 "joint: roles and cycles in one search (default); split: what completes by itself apart, a role for "
                 "each copy of the rest")
      ->check(CLI::IsMember({"joint", "split"}));
  bounded(app.add_option(
              "--budget", settings.options.node_budget,
              "nodes that the exact search may visit before it settles for less, unproven (default: by the size of "
              "the graph)"),
          0, sched::kMaxNodeBudget);
  bounded(app.add_option("--streaming-latency", settings.streaming_latency, "0: streaming loads count with latency 0"),
          0, 0);
  app.add_option("--svg", settings.svg,
                 "also write a picture to this file: units in the steady state, roles over the first iterations")
      ->check(no_flag);
  app.add_option("--trace", settings.trace,
                 "also write a trace for Perfetto or chrome://tracing to this file, one microsecond a cycle")
      ->check(no_flag);
  app.add_flag("--json", settings.json, "print one JSON document");
  add_facts_option(app, settings.facts);
  app.add_flag("--show-facts", settings.show_facts,
               "list each fact of the architecture that costs follow from, its value, and where it comes from");
  app.footer(kFooter);
}

/// Fills settings; an exit code when there is nothing left to do (help, or a mistake that was reported).
std::optional<int> parse(const std::vector<std::string>& words, Settings& settings, std::ostream& out,
                         std::ostream& err) {
  CLI::App app(
      "Shows the schedule of a kernel: initiation interval, bounds, cycles, stages, roles, rings. Compiles nothing.",
      "tj-schedule");
  add_options(app, settings);
  app.allow_extras();
  if (const std::optional<int> done = parse_words(app, words, out, err)) return done;
  settings.own_flags = own_flags(app);
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0) settings.given.insert(option->get_name());
  settings.options.joint = settings.roles == "joint";
  settings.options.streaming_latency_zero = settings.streaming_latency == 0;
  const std::vector<std::string> extras = app.remaining();
  const int given = !settings.op.empty() + !settings.example.empty() + !settings.graph_file.empty();
  if (given != 1) {
    for (const std::string& extra : extras)
      if (const std::string meant = meant_flag(extra, settings.own_flags); !meant.empty())
        bad_use(cat("'", support::shown(extra), "' is no flag of tj-schedule's own", meant));
    bad_use("give one of --op, --graph and --graph-example; see --help");
  }
  if (settings.op.empty()) {
    const char* instead = settings.example.empty() ? "--graph" : "--graph-example";
    if (!extras.empty())
      bad_use(cat("'", support::shown(extras.front()), "' means nothing to ", instead, "; see --help",
                  meant_flag(extras.front(), settings.own_flags)));
    if (!settings.target.empty() && !settings.example.empty())
      bad_use(cat("--target means nothing to ", instead, ": the graph brings its machine"));
    if (!settings.example.empty() && (!settings.facts.empty() || settings.show_facts))
      bad_use(cat(settings.facts.empty() ? "--show-facts" : "--facts", " means nothing to ", instead,
                  ": the graph brings its costs"));
  }
  for (const auto& flag : {"--costs", "--sub-tiles", "--machine"})
    if (settings.example.empty() && app.count(flag) > 0)
      bad_use(cat(flag, " means nothing without --graph-example; give both"));
  if (settings.graph_file.empty() && !settings.candidate.empty())
    bad_use("--candidate means nothing without --graph; give both");
  settings.op_flags = parse_op_flags(extras);
  return std::nullopt;
}

/// {"gemm=2"} -> {gemm: 2}.
std::map<std::string, int> read_costs(const std::vector<std::string>& words) {
  std::map<std::string, int> costs;
  for (const std::string& word : words) {
    const std::size_t split = word.find('=');
    int cycles = 0;
    const char* end = word.data() + word.size();
    const char* begin = split == std::string::npos ? end : word.data() + split + 1;
    const auto [read, error] = std::from_chars(begin, end, cycles);
    if (split == 0 || begin == end || read != end || error != std::errc())
      bad_use(
          cat("--costs has '", support::shown(word), "'; allowed are names with whole cycles, such as gemm=2,exp=1"));
    if (!costs.emplace(word.substr(0, split), cycles).second)
      bad_use(cat("--costs has '", support::shown(word.substr(0, split)), "' twice; keep one"));
  }
  return costs;
}

graph::Graph find_example(const Settings& settings) {
  const std::string& name = settings.example;
  const std::vector<std::string> known = graph::example_names();
  if (std::find(known.begin(), known.end(), name) == known.end())
    bad_use(cat("--graph-example is '", support::shown(name), "'; allowed are ", ops::joined(known),
                support::meant(name, known)));
  GraphExample parameters{{}, read_costs(settings.costs), settings.sub_tiles};
  parameters.machine.name = settings.machine;
  try {
    return ops::read_graph(example_graph(name, parameters).json(), name);
  } catch (const Error& e) {
    bad_use(e.message);
  }
}

/// The target as other tools take it: what was given, else what the environment asks for.
arch::Target find_target(const std::string& given, const arch::FactFile* facts) {
  const std::string text = given.empty() ? support::environment_variable("TJ_TARGET").value_or("") : given;
  try {
    if (text.empty()) return usual_target(facts);
    return parse_target(text, given.empty() ? "TJ_TARGET" : "--target", facts);
  } catch (const Error& e) {
    bad_use(e.message);
  }
}

std::vector<ops::Request> find_requests(const ops::Op& op, const Settings& settings, const arch::Target& target) {
  try {
    return requests_named(op, settings.op_flags, *target.arch);
  } catch (const Error& e) {
    rethrow_with_own_flag(e.message, settings.own_flags);
    throw;
  }
}

Subject of_op(const Settings& settings) {
  const ops::Op& op = find_op(settings.op);
  const arch::Target target = find_target(settings.target, given_facts(settings.facts));
  const std::vector<ops::Request> requests = find_requests(op, settings, target);
  const auto served = std::find_if(requests.begin(), requests.end(), [&](const ops::Request& each) {
    return !each.beside && serves(op, each, *target.arch);
  });
  const ops::Request& request = served != requests.end() ? *served : requests.front();
  Choice choice = choose(op, request, *target.arch, settings.options);
  const ops::Candidate& candidate = choice.candidate;
  Subject subject;
  subject.name = request.name;
  subject.target = target.name();
  subject.arch = target.arch;
  const double all_flops = candidate.graph.flops_per_iteration * candidate.typical_iterations;
  if (all_flops > 0)  // of the flops that the user asked for: masked work counts as time, not as result
    subject.tflops = sched::predict_tflops(candidate.graph, choice.schedule, target.arch->sm_count,
                                           target.arch->clock_ghz, candidate.typical_iterations) *
                     (candidate.useful_flops / all_flops);
  subject.graph = candidate.graph;
  subject.schedule = std::move(choice.schedule);
  subject.options = options_for(candidate, settings.options);
  return subject;
}

/// Options of the command line go before those of the graph.
void put_options(const Settings& settings, ScheduleOptions& options) {
  const sched::Options& given = settings.options;
  const auto has = [&](const char* flag) { return settings.given.count(flag) != 0; };
  if (has("--max-stages")) options.max_stages = given.max_stages;
  if (has("--min-ii")) options.min_ii = given.min_ii;
  if (has("--max-slots")) options.max_slots = given.max_slots;
  if (has("--budget")) options.node_budget = given.node_budget;
  if (has("--streaming-latency")) options.streaming_latency_zero = true;
  if (has("--roles")) options.joint = given.joint;
}

/// The arch of the graph's machine with the facts given; null where the machine is no arch, which has none.
const arch::Arch* find_arch(const Settings& settings, const std::string& machine) {
  const arch::Arch* const arch = ops::arch_named(machine);
  if (arch != nullptr) return &arch::with_facts(*arch, given_facts(settings.facts));
  if (!settings.facts.empty() || settings.show_facts)
    bad_use(cat(settings.facts.empty() ? "--show-facts" : "--facts", " means nothing to ",
                machine.empty() ? "a machine that the graph describes" : cat("machine '", machine, "'"),
                ", which has no facts; allowed: a graph whose machine is a target, such as sm_90a"));
  return nullptr;
}

/// The graph of the file for the target. A mistake in the file is bad use, as one on the command line is; what the
/// graph asks for and cannot have is not.
Graph read_graph(const Settings& settings, std::ostream& err) {
  const std::string& path = settings.graph_file;
  const std::string text =
      read_input_file({"tj-schedule", "--graph", path, "give a JSON file"}, graph::kMaxTextBytes, err);
  const char* flag = "";  // that the next mistake is in
  try {
    Graph graph = Graph::parse(text, std::filesystem::path(path).stem().string());
    flag = "--target ";
    if (!settings.target.empty()) graph.machine.name = graph.resolved(settings.target).machine.name;
    flag = "";
    if (const arch::Arch* const arch = find_arch(settings, graph.machine.name)) graph.machine.name = arch->name;
    graph.targets.clear();
    flag = "--candidate ";
    return settings.candidate.empty() ? graph : graph.resolved("", settings.candidate);
  } catch (const Error& e) {
    bad_use(cat("--graph ", support::shown_path(path), ": ", flag, e.message));
  }
}

Subject of_example(const Settings& settings) {
  Subject subject;
  subject.graph = find_example(settings);
  subject.name = subject.graph.name;
  subject.options = settings.options;
  subject.schedule = sched::schedule(subject.graph, settings.options);
  return subject;
}

Subject of_graph(const Settings& settings, std::ostream& err) {
  Graph given = read_graph(settings, err);
  put_options(settings, given.options);
  std::string candidate = settings.candidate;
  if (!given.candidates.empty()) candidate = tj::schedule(given).candidate();
  const Graph one = candidate == settings.candidate ? given.resolved() : given.resolved("", candidate);
  Subject subject;
  subject.graph = ops::read_graph(one.json(), one.name);
  const arch::Arch* const arch = arch::find(given.machine.name);
  if (arch != nullptr && (arch->facts_file != nullptr || settings.show_facts)) subject.arch = arch;
  subject.name = one.name + (candidate.empty() ? "" : " as " + candidate);
  subject.options = sched::to_options(given.options);
  subject.schedule = sched::schedule(subject.graph, subject.options);
  return subject;
}

Subject of_settings(const Settings& settings, std::ostream& err) {
  if (!settings.op.empty()) return of_op(settings);
  Subject subject = settings.example.empty() ? of_graph(settings, err) : of_example(settings);
  subject.target = subject.graph.machine.name;
  return subject;
}

void print(const Subject& subject, const Settings& settings, std::ostream& out) {
  if (settings.json) {
    auto document = support::Json::parse(sched::to_json(subject.graph, subject.schedule));
    document["kernel"] = subject.name;
    document["target"] = subject.target;
    document["predicted_tflops"] = subject.tflops ? support::Json(*subject.tflops) : support::Json(nullptr);
    if (subject.arch != nullptr) document["facts"] = facts_json(*subject.arch);
    out << document.dump(2, ' ', false, support::Json::error_handler_t::replace) << "\n";
    return;
  }
  out << subject.name << " for " << subject.target << "\n" << sched::to_text(subject.graph, subject.schedule);
  out << limits_line(subject.graph, subject.options, subject.schedule);
  if (subject.tflops) out << "predicted: " << static_cast<int>(*subject.tflops + 0.5) << " TFLOP/s\n";
  if (subject.arch != nullptr) print_facts(*subject.arch, settings.show_facts, out);
}

}  // namespace

int schedule(const std::vector<std::string>& words, std::ostream& out, std::ostream& err) {
  return run_tool("tj-schedule", BadUse::arguments, out, err, [&] {
    Settings settings;
    if (const auto code = parse(words, settings, out, err)) return *code;
    require_different_files({{"--svg", settings.svg}, {"--trace", settings.trace}});
    const Subject subject = of_settings(settings, err);
    if (!settings.svg.empty()) write_output_file("--svg", settings.svg, sched::to_svg(subject.graph, subject.schedule));
    if (!settings.trace.empty())
      write_output_file("--trace", settings.trace, sched::to_trace(subject.graph, subject.schedule));
    print(subject, settings, out);
    return kExitOk;
  });
}

}  // namespace tj::tools
