// The four graphs of examples.hpp, built from a few helpers.
#include "graph/examples.hpp"

#include <algorithm>
#include <cstddef>

#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace tj::graph {
namespace {

constexpr std::int64_t kTileBytes = 128 * 128 * 2;   ///< 128x128 of 16 bits
constexpr std::int64_t kScoreBytes = 128 * 128 * 4;  ///< 128x128 of 32 bits

int add(Graph& graph, const std::string& name, const char* unit, int cycles) {
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

int add_load(Graph& graph, const std::string& name, int cycles) {
  const int index = add(graph, name, "TMA", cycles);
  Node& node = graph.nodes.back();
  node.variable_latency = true;
  node.streaming = true;
  node.async = Async::copy;
  node.warps = 1;
  return index;
}

/// A tile in shared memory that a load fills for all nodes that follow it.
void add_tile(Graph& graph, const char* name, int load) {
  graph.nodes[static_cast<std::size_t>(load)].memory_bytes["SMEM"] = kTileBytes;
  Value value;
  value.name = name;
  value.slot_bytes = kTileBytes;
  graph.values.push_back(std::move(value));
  for (Edge& edge : graph.edges)
    if (edge.src == load) edge.value = static_cast<int>(graph.values.size()) - 1;
}

/// A tile in tensor memory that one node leaves for those that follow it, in whichever role they are.
void handed_over(Graph& graph, const std::string& name, int from) {
  Value value;
  value.name = name;
  value.slot_bytes = kTileBytes;
  value.max_slots = 2;
  value.space = Space::tensor;
  graph.values.push_back(std::move(value));
  for (Edge& edge : graph.edges)
    if (edge.src == from) edge.value = static_cast<int>(graph.values.size()) - 1;
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

// --- sub-tiles ---
// One sub-tile is the loop as it stands. Of several, each has its own nodes, whose registers a thread of four warps
// holds: 64 rows of 128 keys or columns in f32 are 64, as 16-bit numbers 32. In tensor memory a row has a thread.
constexpr int kScoreRegisters = 64, kWeightRegisters = 32, kOutputRegisters = 64;
constexpr int kRowScoreRegisters = 128, kRowWeightRegisters = 64;

/// The copies of a loop body.
class SubTiles {
 public:
  SubTiles(Graph& graph, int count) : graph_(graph), count_(count) {}

  int count() const { return count_; }
  /// The node of sub-tile c: "S" where there is one sub-tile, else "S.0", "S.1".
  int add(int c, const char* name, const char* unit, int cycles, int registers) {
    const int index = tj::graph::add(graph_, count_ == 1 ? name : support::cat(name, ".", c), unit, cycles);
    if (count_ == 1) return index;
    Node& node = graph_.nodes.back();
    node.body = name;
    node.copy = c;
    node.registers = registers;
    return index;
  }
  /// A product, whose warps go on while it runs.
  int product(int c, const char* name, int cycles, int registers) {
    const int index = add(c, name, "TC", cycles, registers);
    if (count_ > 1) graph_.nodes.back().async = Async::matrix;
    return index;
  }
  /// Work that keeps its warps for so long.
  int work(int c, const char* name, const char* unit, int cycles, int registers) {
    const int index = add(c, name, unit, cycles, registers);
    if (count_ > 1) graph_.nodes.back().warp_cycles = cycles;
    return index;
  }
  /// dst follows src, whose result stays in the registers of one role where there are several.
  void in_registers(int src, int dst) {
    after(graph_, src, dst);
    if (count_ == 1) return;
    graph_.edges.back().same_role = true;
    graph_.edges.back().blocking = graph_.nodes[static_cast<std::size_t>(src)].async == Async::matrix;
  }
  /// dst reads in tensor memory what src, a product, has left there.
  void in_tensor_memory(int src, int dst) {
    after(graph_, src, dst);
    graph_.edges.back().blocking = count_ > 1;
  }

 private:
  Graph& graph_;
  const int count_;
};

/// S, P and O of one sub-tile, with their edges. `k` and `v` are loads, or -1.
void attention(Graph& graph, SubTiles& tiles, int c, int gemm_cycles, int exp_cycles, int k, int v) {
  const int s = tiles.product(c, "S", gemm_cycles, kScoreRegisters);
  const int p = tiles.work(c, "P", "EXP", exp_cycles, kWeightRegisters);
  const int o = tiles.product(c, "O", gemm_cycles, kOutputRegisters);
  if (k >= 0) after(graph, k, s);
  if (v >= 0) after(graph, v, o);
  tiles.in_registers(s, p);
  tiles.in_registers(p, o);
  after(graph, o, o, 1);
}

}  // namespace

Machine normalised_hopper() {
  Machine machine;
  machine.name = "hopper (normalised)";
  machine.units = {{"TC", 1}, {"EXP", 1}, {"TMA", 1}};
  machine.memory_bytes = {{"SMEM", 227 * 1024}};
  machine.register_roles = true;  // as on the GPUs of these names: three sub-tiles fit beside the loads
  return machine;
}

Machine normalised_blackwell() {
  Machine machine = normalised_hopper();
  machine.name = "blackwell (normalised)";
  machine.units.push_back({"TMEM", 1});
  machine.memory_bytes["TMEM"] = 256 * 1024;
  return machine;
}

Graph simplified_fa(int gemm_cycles, int exp_cycles, const Machine& machine, int sub_tiles) {
  Graph graph = start("simplified_fa", machine);
  SubTiles tiles(graph, sub_tiles);
  for (int c = 0; c < sub_tiles; ++c) attention(graph, tiles, c, gemm_cycles, exp_cycles, -1, -1);
  return graph;
}

Graph fa_hopper(int tma_cycles, int gemm_cycles, int exp_cycles, const Machine& machine, int sub_tiles) {
  Graph graph = start("fa_hopper", machine);
  SubTiles tiles(graph, sub_tiles);
  const int k_load = add_load(graph, "K_load", tma_cycles);
  const int v_load = add_load(graph, "V_load", tma_cycles);
  for (int c = 0; c < sub_tiles; ++c) attention(graph, tiles, c, gemm_cycles, exp_cycles, k_load, v_load);
  add_tile(graph, "K", k_load);
  add_tile(graph, "V", v_load);
  return graph;
}

Graph fa_blackwell(int tma_cycles, int gemm_cycles, int exp_cycles, int tmem_cycles, const Machine& machine,
                   int sub_tiles) {
  Graph graph = start("fa_blackwell", machine);
  SubTiles tiles(graph, sub_tiles);
  const int k_load = add_load(graph, "K_load", tma_cycles);
  const int v_load = add_load(graph, "V_load", tma_cycles);
  for (int c = 0; c < sub_tiles; ++c) {
    const int s = tiles.product(c, "S", gemm_cycles, 0);
    graph.nodes.back().memory_bytes["TMEM"] = kScoreBytes;
    const int s_read = tiles.work(c, "S_read", "TMEM", tmem_cycles, kRowScoreRegisters);
    const int p = tiles.work(c, "P", "EXP", exp_cycles, kRowWeightRegisters);
    const int p_write = tiles.work(c, "P_write", "TMEM", tmem_cycles, 0);
    const int o = tiles.product(c, "O", gemm_cycles, 0);
    after(graph, k_load, s);
    tiles.in_tensor_memory(s, s_read);
    tiles.in_registers(s_read, p);
    tiles.in_registers(p, p_write);
    after(graph, p_write, o);
    after(graph, v_load, o);
    after(graph, o, o, 1);
    if (sub_tiles == 1) continue;
    for (const int product : {s, o}) graph.nodes[static_cast<std::size_t>(product)].warps = 1;
    handed_over(graph, support::cat("P.", c), p_write);
  }
  add_tile(graph, "K", k_load);
  add_tile(graph, "V", v_load);
  return graph;
}

Graph simple_gemm(int load_cycles, int compute_cycles, const Machine& machine, int sub_tiles) {
  Graph graph = start("simple_gemm", machine);
  SubTiles tiles(graph, sub_tiles);
  std::vector<int> left;
  for (int c = 0; c < sub_tiles; ++c)
    left.push_back(add_load(graph, sub_tiles == 1 ? "A_load" : support::cat("A_load.", c), load_cycles));
  const int b = add_load(graph, "B_load", load_cycles);
  for (int c = 0; c < sub_tiles; ++c) {
    const int product = tiles.product(c, "C", compute_cycles, 2 * kOutputRegisters);
    after(graph, left[static_cast<std::size_t>(c)], product);
    after(graph, b, product);
    after(graph, product, product, 1);
  }
  return graph;
}

const std::vector<Example>& examples() {
  static constinit support::Lasting<const std::vector<Example>> all;
  return all.get([] {
    return std::vector<Example>{{"simplified_fa", "hopper", {{"gemm", 1}, {"exp", 1}}},
                                {"fa_hopper", "hopper", {{"tma", 1}, {"gemm", 2}, {"exp", 2}}},
                                {"fa_blackwell", "blackwell", {{"tma", 1}, {"gemm", 1}, {"exp", 2}, {"tmem", 1}}},
                                {"simple_gemm", "hopper", {{"load", 1}, {"compute", 2}}}};
  });
}

std::vector<std::string> example_names() {
  std::vector<std::string> names;
  for (const Example& each : examples()) names.push_back(each.name);
  return names;
}

namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  support::fail(Stage::graph, Code::invalid_argument, support::cat(parts...));
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// The costs in the example's order.
std::vector<int> costs_of(const Example& example, const std::map<std::string, int>& given) {
  std::vector<int> costs;
  std::vector<std::string> known;
  for (const auto& [name, usual] : example.costs) {
    const auto found = given.find(name);
    costs.push_back(found == given.end() ? usual : found->second);
    known.push_back(name);
    if (costs.back() < 0 || costs.back() > kMaxExampleCost)
      refuse("cost '", name, "' of example graph '", example.name, "' is ", costs.back(), "; allowed are 0 to ",
             kMaxExampleCost, " cycles");
  }
  for (const auto& [name, cycles] : given)
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse("cost '", support::shown(name), "' means nothing to example graph '", example.name, "'; allowed are ",
             joined(known));
  return costs;
}

}  // namespace

const Example& find_example(std::string_view name) {
  for (const Example& each : examples())
    if (each.name == name) return each;
  refuse("example graph '", support::shown(name), "' is not known; use one of ", joined(example_names()));
}

Graph example(std::string_view name, const ExampleParameters& parameters) {
  const Example& known = find_example(name);
  const std::vector<int> cost = costs_of(known, parameters.costs);
  if (parameters.sub_tiles < 1 || parameters.sub_tiles > kMaxSubTiles)
    refuse("sub_tiles of example graph '", known.name, "' is ", parameters.sub_tiles, "; allowed are 1 to ",
           kMaxSubTiles);
  const Machine machine = parameters.machine          ? *parameters.machine
                          : known.machine == "hopper" ? normalised_hopper()
                                                      : normalised_blackwell();
  const int n = parameters.sub_tiles;
  if (name == "simplified_fa") return simplified_fa(cost[0], cost[1], machine, n);
  if (name == "fa_hopper") return fa_hopper(cost[0], cost[1], cost[2], machine, n);
  if (name == "fa_blackwell") return fa_blackwell(cost[0], cost[1], cost[2], cost[3], machine, n);
  return simple_gemm(cost[0], cost[1], machine, n);
}

}  // namespace tj::graph
