// Four loops of tensor-core kernels as dependence graphs, from their parameters, and two that are built here: each is
// scheduled, its interval, bounds, proof and roles are printed, its picture and trace are written. Runs no kernel.
//
//   06_graphs [--graph NAME] [--machine NAME] [--tma-cycles N] [--gemm-cycles N] [--exp-cycles N] [--tmem-cycles N]
//             [--load-cycles N] [--compute-cycles N] [--sub-tiles N] [--output-dir FOLDER]
//
// With two sub-tiles, attention's exponentials of one run under the products of the other. `--graph fa_hopper
// --gemm-cycles 1 --exp-cycles 2 --sub-tiles 2` has two roles that take turns on the tensor core.
//
// A cycle here is one operation on a tile. Exits 0 when every schedule is proven and passes the check, 1 when one does
// not, 2 when something could not run.
#include <tilejit/tilejit.hpp>

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/arguments.hpp"
#include "common/files.hpp"
#include "common/output.hpp"

namespace {

namespace samples = tj::samples;

constexpr int kMaxCycles = 1000;
constexpr const char* kCosts[] = {"tma", "gemm", "exp", "tmem", "load", "compute"};

/// A loop of one's own: D = scale(A B), with both operands copied. Its own machine has two units of arithmetic.
tj::Graph own_kernel() {
  tj::Graph graph{.name = "own_kernel"};
  graph.machine.functional_units = {{"TMA", 1}, {"TC", 1}, {"ALU", 2}};
  graph.machine.memory = {{"SMEM", 65536}};
  graph.instructions = {{.name = "load_a",
                         .cycles = 1,
                         .fu = "TMA",
                         .variable_latency = true,
                         .streaming = true,
                         .memory = {{"SMEM", 16384}}},
                        {.name = "load_b",
                         .cycles = 1,
                         .fu = "TMA",
                         .variable_latency = true,
                         .streaming = true,
                         .memory = {{"SMEM", 16384}}},
                        {.name = "mma", .cycles = 4, .fu = "TC"},
                        {.name = "scale", .rrt = {{"ALU", {2, 2, 1}}}}};
  graph.edges = {{.src = "load_a", .dst = "mma", .delay = 1},
                 {.src = "load_b", .dst = "mma", .delay = 1},
                 {.src = "mma", .dst = "scale", .delay = 4},
                 {.src = "mma", .dst = "mma", .delay = 4, .delta = 1}};
  return graph;
}

/// A tile's result is staged where the tile's q has been: `lies_in` names the value, and the schedule keeps the turns.
/// Values say what flows between roles, and scopes what runs once a tile.
tj::Graph one_place() {
  using Scope = tj::Graph::Scope;
  tj::Graph graph{.name = "one_place"};
  graph.machine.functional_units = {{"TMA", 1}, {"TC", 1}};
  graph.machine.memory = {{"SMEM", 65536}};
  graph.instructions = {
      {.name = "load_q", .cycles = 1, .fu = "TMA", .variable_latency = true, .scope = Scope::tile_begin},
      {.name = "load_k", .cycles = 1, .fu = "TMA", .variable_latency = true, .streaming = true},
      {.name = "mma", .cycles = 4, .fu = "TC"},
      {.name = "stage", .cycles = 2, .scope = Scope::tile_end},
      {.name = "put", .cycles = 1, .fu = "TMA", .scope = Scope::tile_end, .async = tj::Graph::Async::store}};
  graph.values = {{.name = "q", .slot_bytes = 16384, .scope = Scope::tile_begin},
                  {.name = "k", .slot_bytes = 16384, .max_slots = 2},
                  {.name = "o", .slot_bytes = 16384, .scope = Scope::tile_end, .lies_in = "q"}};
  graph.edges = {{.src = "load_q", .dst = "mma", .delay = 1, .value = "q"},
                 {.src = "load_k", .dst = "mma", .delay = 1, .value = "k"},
                 {.src = "mma", .dst = "mma", .delay = 4, .delta = 1},
                 {.src = "mma", .dst = "stage", .delay = 4},
                 {.src = "stage", .dst = "put", .delay = 2, .value = "o"}};
  return graph;
}

[[noreturn]] void refuse(const std::string& message) {
  throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument, message);
}

void print(const tj::Graph& graph, const tj::Schedule& schedule) {
  std::printf("%s on %s: %zu instructions, %zu edges\n", graph.name.c_str(),
              graph.machine.name.empty() ? "its own machine" : graph.machine.name.c_str(), graph.instructions.size(),
              graph.edges.size());
  std::printf("  II %d (%s); units allow %d, recurrences %d\n", schedule.ii(),
              schedule.proven_ii() ? "proven" : "not proven", schedule.resource_bound(), schedule.recurrence_bound());
  std::printf("  one iteration takes %d (%s), %d in flight\n", schedule.length(),
              schedule.proven_length() ? "proven" : "not proven", schedule.stages());
  std::printf("  why: %s\n", schedule.certificate().c_str());
  for (const tj::Schedule::Role& role : schedule.roles()) {
    std::printf("  role %s, %d warp%s:", role.name.c_str(), role.warps, role.warps == 1 ? "" : "s");
    for (const int index : role.nodes) {
      const tj::Schedule::Node& node = schedule.nodes()[static_cast<std::size_t>(index)];
      std::printf(" %s at %d (stage %d)", node.name.c_str(), node.cycle, node.stage);
    }
    std::printf("\n");
  }
  for (const tj::Schedule::Ring& ring : schedule.rings())
    std::printf("  ring %s: %d slot%s of %lld bytes%s\n", ring.value.c_str(), ring.slots, ring.slots == 1 ? "" : "s",
                static_cast<long long>(ring.slot_bytes),
                ring.lies_in.empty() ? "" : (", in the place of " + ring.lies_in).c_str());
  for (const tj::Schedule::Turns& turns : schedule.turns()) {
    std::printf("  turns on %s:", turns.unit.c_str());
    for (const tj::Schedule::Turns::Turn& turn : turns.turns)
      std::printf(" %s", schedule.roles()[static_cast<std::size_t>(turn.role)].name.c_str());
    std::printf("\n");
  }
}

/// The named graph, or all. Each takes the costs that it knows; a named one must know all that are given. own_kernel
/// and one_place take no parameters.
std::vector<tj::Graph> chosen(const std::string& only, const std::string& machine,
                              const std::map<std::string, int>& given, const std::optional<std::uint64_t>& sub_tiles) {
  const bool own = only == "own_kernel" || only == "one_place";
  if (own && !given.empty()) refuse("--" + given.begin()->first + "-cycles means nothing to " + only);
  if (own && !machine.empty()) refuse("--machine means nothing to " + only);
  if (own && sub_tiles) refuse("--sub-tiles means nothing to " + only);
  std::vector<tj::Graph> graphs;
  std::string names;
  for (const std::string& name : tj::example_graph_names()) {
    names += name + ", ";
    if (!only.empty() && only != name) continue;
    const std::map<std::string, int> known = tj::example_graph_costs(name);
    tj::GraphExample parameters{.sub_tiles = static_cast<int>(sub_tiles.value_or(1))};
    // A loop that reads tensor memory stays on its own machine where it is not asked for alone.
    if (!only.empty() || known.count("tmem") == 0) parameters.machine.name = machine;
    for (const auto& [cost, cycles] : given) {
      if (known.count(cost) != 0)
        parameters.costs[cost] = cycles;
      else if (!only.empty())
        refuse("--" + cost + "-cycles means nothing to " + only);
    }
    graphs.push_back(tj::example_graph(name, parameters));
  }
  if (only.empty() || only == "own_kernel") graphs.push_back(own_kernel());
  if (only.empty() || only == "one_place") graphs.push_back(one_place());
  if (graphs.empty()) refuse("--graph is '" + only + "'; allowed: " + names + "own_kernel, one_place");
  return graphs;
}

int main_checked(int argc, char** argv) {
  samples::Arguments words(argc, argv);
  if (words.take_switch("--help")) {
    std::puts(
        "06_graphs [--graph NAME] [--machine hopper|blackwell] [--tma-cycles N] [--gemm-cycles N] [--exp-cycles N]\n"
        "          [--tmem-cycles N] [--load-cycles N] [--compute-cycles N] [--sub-tiles 1|2|3] [--output-dir FOLDER]\n"
        "Graphs: simplified_fa, fa_hopper, fa_blackwell, simple_gemm, own_kernel, one_place; all of them where none is "
        "named.");
    return 0;
  }
  std::map<std::string, int> given;
  const std::string only = words.take("--graph").value_or("");
  const std::string machine = words.take("--machine").value_or("");
  const std::string folder = words.take("--output-dir").value_or("");
  const auto sub_tiles = words.take_number("--sub-tiles", 1, 3);
  for (const char* name : kCosts)
    if (const auto cycles = words.take_number("--" + std::string(name) + "-cycles", 0, kMaxCycles))
      given[name] = static_cast<int>(*cycles);
  if (const auto rest = words.rest(); !rest.empty())
    refuse("'" + rest.front() + "' means nothing to this sample; see --help");
  if (!folder.empty()) samples::check_writable(folder);

  std::vector<tj::Graph> graphs = chosen(only, machine, given, sub_tiles);

  bool good = true;
  std::vector<std::pair<std::string, std::string>> files;
  for (const tj::Graph& graph : graphs) {
    const tj::Schedule schedule = tj::schedule(graph);
    print(graph, schedule);
    for (const std::string& problem : schedule.verify()) std::printf("  WRONG: %s\n", problem.c_str());
    good = good && schedule.proven_ii() && schedule.proven_length() && schedule.verify().empty();
    files.emplace_back(graph.name + ".json", graph.json());
    files.emplace_back(graph.name + ".schedule.json", schedule.json());
    files.emplace_back(graph.name + ".svg", schedule.svg());
    files.emplace_back(graph.name + ".trace.json", schedule.trace());
  }
  if (!folder.empty()) {
    samples::write_files(folder, files);
    std::printf("wrote %zu files to %s: graphs, schedules, pictures (.svg) and traces for Perfetto\n", files.size(),
                folder.c_str());
  }
  std::printf("check    %s\n",
              good ? "ok: all intervals and lengths are proven, and each schedule was verified" : "WRONG");
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return tj::samples::all_written("06_graphs", main_checked(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "06_graphs: %s\n", error.what());
  }
  return 2;
}
