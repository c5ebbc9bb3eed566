// Four loops of tensor-core kernels as dependence graphs, built in code from their parameters: each is scheduled, its
// interval, bounds, proof and roles are printed, and its picture and trace are written. Runs no kernel.
//
//   06_graphs [--graph NAME] [--machine NAME] [--tma-cycles N] [--gemm-cycles N] [--exp-cycles N] [--tmem-cycles N]
//             [--load-cycles N] [--compute-cycles N] [--output-dir FOLDER]
//
// A cycle here is one operation on a tile. Exits 0 when every schedule is proven and passes the check, 1 when one does
// not, 2 when something could not run.
#include <tilejit/tilejit.hpp>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/arguments.hpp"
#include "common/files.hpp"
#include "common/output.hpp"

namespace {

namespace samples = tj::samples;

constexpr int kMaxCycles = 1000;
constexpr std::int64_t kTileBytes = 128 * 128 * 2, kScoreBytes = 128 * 128 * 4;  // of f16, and of f32 sums

/// Parameters of the graphs: what the command line gives, else each graph's own default.
struct Costs {
  std::map<std::string, int> given;
  std::set<std::string> known;
  int operator()(const std::string& name, int usual) {
    known.insert(name);
    const auto found = given.find(name);
    return found != given.end() ? found->second : usual;
  }
};

tj::Graph::Instruction load(const char* name, int cycles, std::int64_t bytes = 0) {
  tj::Graph::Instruction copy{.name = name, .cycles = cycles, .fu = "TMA", .variable_latency = true, .streaming = true};
  if (bytes > 0) copy.memory = {{"SMEM", bytes}};
  return copy;
}

/// S = Q K^T, P = exp(S), O += P V, with everything in place already.
tj::Graph simplified_fa(Costs& cost, const std::string& machine) {
  const int gemm = cost("gemm", 1), exp = cost("exp", 1);
  tj::Graph graph{.name = "simplified_fa", .machine = {.name = machine}};
  graph.instructions = {{.name = "S", .cycles = gemm, .fu = "TC"},
                        {.name = "P", .cycles = exp, .fu = "EXP"},
                        {.name = "O", .cycles = gemm, .fu = "TC"}};
  graph.edges = {{.src = "S", .dst = "P", .delay = gemm},
                 {.src = "P", .dst = "O", .delay = exp},
                 {.src = "O", .dst = "O", .delay = gemm, .delta = 1}};
  return graph;
}

/// The same with copies of K and V from global memory.
tj::Graph fa_hopper(Costs& cost, const std::string&) {
  const int tma = cost("tma", 1), gemm = cost("gemm", 2), exp = cost("exp", 2);
  tj::Graph graph{.name = "fa_hopper", .machine = {.name = "hopper"}};
  graph.instructions = {load("K_load", tma, kTileBytes),
                        load("V_load", tma, kTileBytes),
                        {.name = "S", .cycles = gemm, .fu = "TC"},
                        {.name = "P", .cycles = exp, .fu = "EXP"},
                        {.name = "O", .cycles = gemm, .fu = "TC"}};
  graph.edges = {{.src = "K_load", .dst = "S", .delay = tma},
                 {.src = "V_load", .dst = "O", .delay = tma},
                 {.src = "S", .dst = "P", .delay = gemm},
                 {.src = "P", .dst = "O", .delay = exp},
                 {.src = "O", .dst = "O", .delay = gemm, .delta = 1}};
  return graph;
}

/// Products twice as fast, with their results in tensor memory: scores are read from there, weights written back.
tj::Graph fa_blackwell(Costs& cost, const std::string&) {
  const int tma = cost("tma", 1), gemm = cost("gemm", 1), exp = cost("exp", 2), tmem = cost("tmem", 1);
  tj::Graph graph{.name = "fa_blackwell", .machine = {.name = "blackwell"}};
  graph.instructions = {load("K_load", tma, kTileBytes),
                        load("V_load", tma, kTileBytes),
                        {.name = "S", .cycles = gemm, .fu = "TC", .memory = {{"TMEM", kScoreBytes}}},
                        {.name = "S_read", .cycles = tmem, .fu = "TMEM"},
                        {.name = "P", .cycles = exp, .fu = "EXP"},
                        {.name = "P_write", .cycles = tmem, .fu = "TMEM"},
                        {.name = "O", .cycles = gemm, .fu = "TC"}};
  graph.edges = {{.src = "K_load", .dst = "S", .delay = tma},        {.src = "S", .dst = "S_read", .delay = gemm},
                 {.src = "S_read", .dst = "P", .delay = tmem},       {.src = "P", .dst = "P_write", .delay = exp},
                 {.src = "P_write", .dst = "O", .delay = tmem},      {.src = "V_load", .dst = "O", .delay = tma},
                 {.src = "O", .dst = "O", .delay = gemm, .delta = 1}};
  return graph;
}

/// C += A B with copies of both operands.
tj::Graph simple_gemm(Costs& cost, const std::string& machine) {
  const int copy = cost("load", 1), compute = cost("compute", 2);
  tj::Graph graph{.name = "simple_gemm", .machine = {.name = machine}};
  graph.instructions = {load("A_load", copy), load("B_load", copy), {.name = "C", .cycles = compute, .fu = "TC"}};
  graph.edges = {{.src = "A_load", .dst = "C", .delay = copy},
                 {.src = "B_load", .dst = "C", .delay = copy},
                 {.src = "C", .dst = "C", .delay = compute, .delta = 1}};
  return graph;
}

using Builder = tj::Graph (*)(Costs&, const std::string&);
constexpr std::pair<const char*, Builder> kGraphs[] = {{"simplified_fa", simplified_fa},
                                                       {"fa_hopper", fa_hopper},
                                                       {"fa_blackwell", fa_blackwell},
                                                       {"simple_gemm", simple_gemm}};

[[noreturn]] void refuse(const std::string& message) {
  throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument, message);
}

void print(const tj::Graph& graph, const tj::Schedule& schedule) {
  std::printf("%s on %s: %zu instructions, %zu edges\n", graph.name.c_str(), graph.machine.name.c_str(),
              graph.instructions.size(), graph.edges.size());
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
    std::printf("  ring %s: %d slot%s of %lld bytes\n", ring.value.c_str(), ring.slots, ring.slots == 1 ? "" : "s",
                static_cast<long long>(ring.slot_bytes));
}

int main_checked(int argc, char** argv) {
  samples::Arguments words(argc, argv);
  if (words.take_switch("--help")) {
    std::puts(
        "06_graphs [--graph NAME] [--machine hopper|blackwell] [--tma-cycles N] [--gemm-cycles N] [--exp-cycles N]\n"
        "          [--tmem-cycles N] [--load-cycles N] [--compute-cycles N] [--output-dir FOLDER]\n"
        "Graphs: simplified_fa, fa_hopper, fa_blackwell, simple_gemm; all of them where none is named.");
    return 0;
  }
  Costs cost;
  const std::string only = words.take("--graph").value_or("");
  const std::string machine = words.take("--machine").value_or("hopper");
  const std::string folder = words.take("--output-dir").value_or("");
  for (const char* name : {"tma", "gemm", "exp", "tmem", "load", "compute"})
    if (const auto cycles = words.take_number("--" + std::string(name) + "-cycles", 0, kMaxCycles))
      cost.given[name] = static_cast<int>(*cycles);
  if (const auto rest = words.rest(); !rest.empty())
    refuse("'" + rest.front() + "' means nothing to this sample; see --help");
  if (!folder.empty()) samples::check_writable(folder);

  std::vector<tj::Graph> graphs;
  for (const auto& [name, build] : kGraphs)
    if (only.empty() || only == name) graphs.push_back(build(cost, machine));
  if (graphs.empty()) refuse("--graph is '" + only + "'; allowed: simplified_fa, fa_hopper, fa_blackwell, simple_gemm");
  for (const auto& [name, cycles] : cost.given)
    if (cost.known.count(name) == 0) refuse("--" + name + "-cycles means nothing to " + only);

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
