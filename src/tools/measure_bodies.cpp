// See measure_bodies.hpp.
#include "tools/measure_bodies.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ostream>

#include <tilejit/graph.hpp>

#include "ops/common/op_flags.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"
#include "support/text.hpp"
#include "tools/command_line.hpp"
#include "tools/facts.hpp"
#include "tools/graph_files.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"
#include "tools/process.hpp"

namespace tj::tools {
namespace {

using graph::Async;
using support::at;
using support::cat;

struct BodySettings {
  TimelineProblem problem;
  GraphFiles graph;
  std::string write;
};

constexpr const char* kFooter =
    "With --op, further flags are the op's: kernel and sizes, as tj-check takes them. With --graph, --trial and "
    "--candidate name what is launched\n"
    "(default: the first trial whose use is \"both\" or \"time\", of the candidate that is predicted to do most). Of a "
    "graph with candidates\nor targets, --write keeps the one that ran.\n"
    "A body's time goes from its call to its return, of its role's first warp, medians over the iterations in the "
    "middle of tiles. What completes\n"
    "by itself has then only been issued; of products, the time until the role sees their end stands beside it. Waits "
    "are not part of it; work of\n"
    "other roles on the same units is.\n"
    "Examples:\n"
    "  tj-bench --measure-bodies --graph gemm.json --folder bodies --write measured.json\n"
    "  tj-bench --measure-bodies --op fmha --head-dim 128 --causal true\n"
    "Exit codes: 0 done, 1 the kernel could not be made or run, 2 bad use or an output that cannot be written.";

std::optional<int> parse(const std::vector<std::string>& words, BodySettings& settings, std::ostream& out,
                         std::ostream& err) {
  TimelineProblem& problem = settings.problem;
  CLI::App app("Measures the cycles of a kernel's node bodies, and shows them beside the graph's costs.",
               "tj-bench --measure-bodies");
  auto* op = app.add_option("--op", problem.op, "fmha, gemm, ...")->check(no_flag);
  add_graph_options(app, settings.graph, "is measured");
  app.get_option("--graph")->excludes(op);
  app.add_option("--target", problem.target,
                 "sm_90a, ... (default: TJ_TARGET, else the first GPU); the model of one counts steps, no cycles")
      ->check(no_flag);
  add_facts_option(app, problem.facts);
  app.add_option("--write", settings.write, "write the graph with the measured costs to this file")
      ->check(no_flag)
      ->needs("--graph");
  bounded(app.add_option("--launches", problem.launches, "launches before the one that is measured (default 10)"), 1,
          100000);
  app.add_option("--seed", problem.seed, "of the tensors' values (default 1)");
  app.footer(kFooter);
  app.allow_extras();
  if (const std::optional<int> done = parse_words(app, words, out, err)) return done;
  if (problem.op.empty() && !settings.graph.given()) bad_use("give one of --op and --graph; see --help");
  for (const ops::GivenFlag& flag : ops::read_flags(app.remaining())) {
    if (problem.flags.count(flag.name) != 0) bad_use(cat("--", flag.name, " is given twice; give it once"));
    problem.flags[flag.name] = flag.values.empty() ? std::vector<std::string>{"true"} : flag.values;
  }
  return std::nullopt;
}

std::string known(const std::optional<std::int64_t>& value) { return value ? cat(*value) : "-"; }
std::string right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

void print(const MeasuredTimeline& measured, const std::vector<MeasuredBody>& bodies, std::ostream& out) {
  const RecordedRun& run = measured.run;
  out << run.kernel << " for " << run.target << " on " << run.device << "; " << run.problem << '\n';
  if (run.on_model)
    out << "measured in steps of the CPU model (turns of warps and completions), which are no cycles: they say nothing "
           "of costs\n";
  std::size_t width = 4;
  for (const graph::Node& node : measured.graph().nodes) width = std::max(width, node.name.size());
  out << "node" << std::string(width - 4, ' ') << "   graph: issue  warp cycles  latency   measured: call  complete\n";
  for (const MeasuredBody& body : bodies) {
    const graph::Node& node = measured.graph().nodes[at(body.node)];
    out << node.name << std::string(width - node.name.size(), ' ') << right(cat(node.cycles), 15)
        << right(cat(node.warp_cycles), 13) << right(cat(std::max(node.cycles, node.latency)), 9)
        << right(known(body.call), 17) << right(known(body.done), 10) << '\n';
  }
}

/// Throws tj::Error(target) that says why there is no GPU.
void need_device(const BodySettings& settings, const RecordedRun& run) {
  if (!run.on_model) return;
  if (!settings.write.empty())
    support::fail(Stage::target, Code::unsupported,
                  cat("--write keeps cycles of a GPU, and this ran on '", run.target, "', which counts steps"));
}

bool has_forms(const Graph& graph) { return !graph.candidates.empty() || !graph.targets.empty(); }

int run_measure(const std::vector<std::string>& words, std::ostream& out, std::ostream& err) {
  BodySettings settings;
  if (const std::optional<int> done = parse(words, settings, out, err)) return *done;
  custom::Description description;
  std::unique_ptr<GraphOp> graph;
  if (settings.graph.given()) {
    description = read_graph_files("tj-bench", settings.graph, err);
    graph = graph_op_of(description, settings.graph);
    settings.problem.graph = graph.get();
  }
  settings.problem.needs_device = settings.problem.target.empty() && !support::environment_variable("TJ_TARGET");
  const support::Log log(LogLevel::warn,
                         [&err](LogLevel, std::string_view text) { err << "tj-bench: " << text << '\n'; });
  const MeasuredTimeline measured = measure_timeline(run_recorded(settings.problem, log));
  need_device(settings, measured.run);
  const std::vector<MeasuredBody> bodies = measured_bodies(measured);
  print(measured, bodies, out);
  if (!settings.write.empty()) {
    const std::vector<MeasuredCost> costs = costs_of(measured.graph(), bodies, description.graph);
    for (const MeasuredCost& cost : costs)
      out << cost.instruction << '.' << cost.member << ": " << cost.given << " becomes " << cost.measured << '\n';
    const RecordedRun& run = measured.run;
    write_output_file("--write", settings.write, with_costs(description.graph, run.form, description.name, costs));
    if (has_forms(Graph::parse(description.graph, description.name)))
      out << "written: the form" << (run.candidate.empty() ? "" : " of candidate '" + run.candidate + "'") << " for "
          << run.target << " alone, without parameters, candidates, targets and trials\n";
  }
  out.flush();
  return kExitOk;
}

}  // namespace

std::vector<MeasuredBody> measured_bodies(const MeasuredTimeline& measured) {
  std::vector<MeasuredBody> bodies(measured.graph().nodes.size());
  for (std::size_t n = 0; n < bodies.size(); ++n) bodies[n].node = static_cast<int>(n);
  for (const RoleRow& role : measured.comparison.roles)
    for (const auto* rows : {&role.nodes, &role.once})
      for (const NodeRow& row : *rows) {
        bodies[at(row.node)].call = row.measured_issue;
        bodies[at(row.node)].done = row.measured_done;
      }
  return bodies;
}

std::vector<MeasuredCost> costs_of(const graph::Graph& graph, const std::vector<MeasuredBody>& bodies,
                                   std::string_view document) {
  const Graph given = Graph::parse(document, graph.name);
  std::vector<MeasuredCost> costs;
  for (const MeasuredBody& body : bodies) {
    const graph::Node& node = graph.nodes[at(body.node)];
    const Graph::Instruction& own = given.instructions[at(body.node)];
    const auto says = [&](const char* member, bool number) { return number || own.expressions.count(member) > 0; };
    const auto add = [&](const char* member, bool number, int value, const std::optional<std::int64_t>& measured) {
      if (!measured || !says(member, number)) return false;
      costs.push_back({node.name, member, value, static_cast<int>(*measured)});
      return true;
    };
    const bool calls = node.async == Async::none;
    const bool warps = add("warp_cycles", own.warp_cycles != 0, node.warp_cycles, body.call);
    const bool late = add("latency", own.latency.has_value(), node.latency, calls ? body.call : body.done);
    if (!calls) add("issue_cycles", own.issue_cycles.has_value(), own.issue_cycles.value_or(0), body.call);
    if (calls && !warps && !late && own.rrt.empty()) add("cycles", true, node.cycles, body.call);
  }
  return costs;
}

std::string with_costs(std::string_view document, std::string_view form, std::string_view name,
                       const std::vector<MeasuredCost>& costs) {
  Graph graph = Graph::parse(document, name);
  if (has_forms(graph)) graph = Graph::parse(form, name);
  for (const MeasuredCost& cost : costs)
    for (Graph::Instruction& own : graph.instructions) {
      if (own.name != cost.instruction) continue;
      own.expressions.erase(cost.member);
      if (cost.member == "cycles") own.cycles = cost.measured;
      if (cost.member == "warp_cycles") own.warp_cycles = cost.measured;
      if (cost.member == "issue_cycles") own.issue_cycles = cost.measured;
      if (cost.member == "latency") own.latency = cost.measured;
      if (cost.member != "latency" && cost.member != "cycles") continue;
      for (Graph::Edge& edge : graph.edges)
        if (edge.src == own.name && edge.delay == cost.given && edge.expressions.count("delay") == 0)
          edge.delay = cost.measured;
    }
  return graph.json();
}

int measure_bodies(const std::vector<std::string>& words, std::ostream& out, std::ostream& err) {
  return run_tool("tj-bench", BadUse::arguments, out, err, [&] { return run_measure(words, out, err); });
}

}  // namespace tj::tools
