// The four graphs of examples.hpp, built from a few helpers.
#include "graph/examples.hpp"

#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::graph {
namespace {

constexpr std::int64_t kTileBytes = 128 * 128 * 2;   ///< 128x128 of 16 bits
constexpr std::int64_t kScoreBytes = 128 * 128 * 4;  ///< 128x128 of 32 bits

int add(Graph& graph, const char* name, const char* unit, int cycles) {
  const int index = graph.machine.unit_index(unit);
  if (index < 0)
    support::fail(
        Stage::graph, Code::invalid_argument,
        support::cat("graph '", graph.name, "': machine '", graph.machine.name, "' has no unit '", unit, "'; add it"));
  Node node;
  node.name = name;
  node.body = name;
  node.reservations = {{index, 0, cycles, 1}};
  node.cycles = cycles;
  node.latency = cycles;
  graph.nodes.push_back(std::move(node));
  return static_cast<int>(graph.nodes.size()) - 1;
}

int add_load(Graph& graph, const char* name, int cycles) {
  const int index = add(graph, name, "TMA", cycles);
  Node& node = graph.nodes.back();
  node.variable_latency = true;
  node.streaming = true;
  node.async = Async::copy;
  node.warps = 1;
  return index;
}

/// A tile in shared memory that a load fills and one node reads.
void add_tile(Graph& graph, const char* name, int load, int reader) {
  graph.nodes[static_cast<std::size_t>(load)].memory_bytes["SMEM"] = kTileBytes;
  Value value;
  value.name = name;
  value.slot_bytes = kTileBytes;
  graph.values.push_back(std::move(value));
  for (Edge& edge : graph.edges)
    if (edge.src == load && edge.dst == reader) edge.value = static_cast<int>(graph.values.size()) - 1;
}

/// dst of `distance` iterations later waits for the whole of src.
void after(Graph& graph, int src, int dst, int distance = 0) {
  Edge edge;
  edge.src = src;
  edge.dst = dst;
  edge.delay = graph.nodes[static_cast<std::size_t>(src)].latency;
  edge.distance = distance;
  graph.edges.push_back(edge);
}

Graph start(const char* name, const Machine& machine) {
  Graph graph;
  graph.name = name;
  graph.machine = machine;
  return graph;
}

}  // namespace

Machine normalised_hopper() {
  Machine machine;
  machine.name = "hopper (normalised)";
  machine.units = {{"TC", 1}, {"EXP", 1}, {"TMA", 1}};
  machine.memory_bytes = {{"SMEM", 227 * 1024}};
  return machine;
}

Machine normalised_blackwell() {
  Machine machine = normalised_hopper();
  machine.name = "blackwell (normalised)";
  machine.units.push_back({"TMEM", 1});
  machine.memory_bytes["TMEM"] = 256 * 1024;
  return machine;
}

Graph simplified_fa(int gemm_cycles, int exp_cycles, const Machine& machine) {
  Graph graph = start("simplified_fa", machine);
  const int s = add(graph, "S", "TC", gemm_cycles);
  const int p = add(graph, "P", "EXP", exp_cycles);
  const int o = add(graph, "O", "TC", gemm_cycles);
  after(graph, s, p);
  after(graph, p, o);
  after(graph, o, o, 1);
  return graph;
}

Graph fa_hopper(int tma_cycles, int gemm_cycles, int exp_cycles) {
  Graph graph = start("fa_hopper", normalised_hopper());
  const int k_load = add_load(graph, "K_load", tma_cycles);
  const int v_load = add_load(graph, "V_load", tma_cycles);
  const int s = add(graph, "S", "TC", gemm_cycles);
  const int p = add(graph, "P", "EXP", exp_cycles);
  const int o = add(graph, "O", "TC", gemm_cycles);
  after(graph, k_load, s);
  after(graph, v_load, o);
  after(graph, s, p);
  after(graph, p, o);
  after(graph, o, o, 1);
  add_tile(graph, "K", k_load, s);
  add_tile(graph, "V", v_load, o);
  return graph;
}

Graph fa_blackwell(int tma_cycles, int gemm_cycles, int exp_cycles, int tmem_cycles) {
  Graph graph = start("fa_blackwell", normalised_blackwell());
  const int k_load = add_load(graph, "K_load", tma_cycles);
  const int v_load = add_load(graph, "V_load", tma_cycles);
  const int s = add(graph, "S", "TC", gemm_cycles);
  const int s_read = add(graph, "S_read", "TMEM", tmem_cycles);
  const int p = add(graph, "P", "EXP", exp_cycles);
  const int p_write = add(graph, "P_write", "TMEM", tmem_cycles);
  const int o = add(graph, "O", "TC", gemm_cycles);
  after(graph, k_load, s);
  after(graph, s, s_read);
  after(graph, s_read, p);
  after(graph, p, p_write);
  after(graph, p_write, o);
  after(graph, v_load, o);
  after(graph, o, o, 1);
  add_tile(graph, "K", k_load, s);
  add_tile(graph, "V", v_load, o);
  graph.nodes[static_cast<std::size_t>(s)].memory_bytes["TMEM"] = kScoreBytes;
  return graph;
}

Graph simple_gemm(int load_cycles, int compute_cycles, const Machine& machine) {
  Graph graph = start("simple_gemm", machine);
  const int a = add_load(graph, "A_load", load_cycles);
  const int b = add_load(graph, "B_load", load_cycles);
  const int c = add(graph, "C", "TC", compute_cycles);
  after(graph, a, c);
  after(graph, b, c);
  after(graph, c, c, 1);
  return graph;
}

const std::vector<std::string>& example_names() {
  static constinit support::Lasting<const std::vector<std::string>> names;
  return names.get(
      [] { return std::vector<std::string>{"simplified_fa", "fa_hopper", "fa_blackwell", "simple_gemm"}; });
}

Graph example(std::string_view name) {
  if (name == "simplified_fa") return simplified_fa();
  if (name == "fa_hopper") return fa_hopper();
  if (name == "fa_blackwell") return fa_blackwell();
  if (name == "simple_gemm") return simple_gemm();
  std::string known;
  for (const std::string& each : example_names()) known += (known.empty() ? "" : ", ") + each;
  support::fail(Stage::graph, Code::invalid_argument,
                support::cat("example graph '", name, "' is not known; use one of ", known));
}

}  // namespace tj::graph
