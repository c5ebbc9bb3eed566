// Attention over tensor memory (see examples.hpp): a loop on a machine with asynchronous products outside registers,
// before anybody has decided who runs what.
#include <algorithm>

#include "graph/examples.hpp"
#include "support/fail.hpp"

namespace tj::graph {
namespace {

using support::cat;

class Builder {
 public:
  Builder(const TensorMemoryAttention& costs, const Machine& machine) : costs_(costs) {
    graph_.name = cat("attention_tensor_memory_", costs.sub_tiles);
    graph_.machine = machine;
    graph_.values = {{"k", costs.load_bytes}, {"v", costs.load_bytes}};
  }

  Graph build() {
    const int load_k = load("load_k"), load_v = load("load_v");
    for (int c = 0; c < costs_.sub_tiles; ++c) sub_tile(c, load_k, load_v);
    check(graph_);
    return std::move(graph_);
  }

 private:
  int unit(const char* name) const {
    const int index = graph_.machine.unit_index(name);
    if (index < 0)
      support::fail(
          Stage::graph, Code::invalid_argument,
          cat("graph '", graph_.name, "': machine '", graph_.machine.name, "' has no unit '", name, "'; add it"));
    return index;
  }

  Node& node(int index) { return graph_.nodes[static_cast<std::size_t>(index)]; }

  int add(const std::string& body, int copy) {
    Node n;
    n.name = copy < 0 ? body : cat(body, ".", copy);
    n.body = body;
    n.copy = std::max(copy, 0);
    graph_.nodes.push_back(std::move(n));
    return static_cast<int>(graph_.nodes.size()) - 1;
  }

  int load(const char* name) {
    const int index = add(name, -1);
    Node& n = node(index);
    n.async = Async::copy;
    n.reservations = {{unit("TMA"), 0, costs_.load_cycles, 1}};
    n.cycles = n.warps = 1;
    n.latency = costs_.load_latency;
    n.variable_latency = n.streaming = true;
    n.memory_bytes["SMEM"] = costs_.load_bytes;
    return index;
  }

  /// Issued by one warp; its result is in tensor memory.
  int product(const char* body, int copy, std::int64_t bytes) {
    const int index = add(body, copy);
    Node& n = node(index);
    n.async = Async::matrix;
    n.reservations = {{unit("TC"), 0, costs_.matrix_cycles, 1}};
    n.cycles = n.warp_cycles = costs_.matrix_issue;
    n.latency = costs_.matrix_latency;
    n.warps = 1;
    n.memory_bytes["TMEM"] = bytes;
    return index;
  }

  int work(const char* body, int copy, int cycles, std::vector<Reservation> uses) {
    const int index = add(body, copy);
    Node& n = node(index);
    n.reservations = std::move(uses);
    n.cycles = n.latency = n.warp_cycles = cycles;
    return index;
  }

  void edge(int src, int dst, int distance, int spill, bool blocking = false, int value = -1) {
    graph_.edges.push_back({src, dst, node(src).latency, distance, blocking, value, spill, false});
  }

  void sub_tile(int c, int load_k, int load_v) {
    const int s = product("s", c, costs_.score_bytes);
    const int read = work("read_s", c, costs_.score_read, {{unit("TMEM"), 0, costs_.score_read, 1}});
    const int maximum = work("max", c, costs_.maximum, {{unit("ALU"), 0, costs_.maximum, 1}});
    const int run = std::max(costs_.exponential, costs_.arithmetic);
    const int exponential =
        work("exp", c, run, {{unit("EXP"), 0, costs_.exponential, 1}, {unit("ALU"), 0, costs_.arithmetic, 1}});
    const int write = work("write_p", c, costs_.weight_write, {{unit("TMEM"), 0, costs_.weight_write, 1}});
    const int moved = costs_.output_read + costs_.output_scale;
    const int correct = work("correct", c, moved + costs_.output_write,
                             {{unit("TMEM"), 0, costs_.output_read, 1},
                              {unit("ALU"), costs_.output_read, costs_.output_scale, 1},
                              {unit("TMEM"), moved, costs_.output_write, 1}});
    const int o = product("o", c, costs_.output_bytes);
    node(read).registers = costs_.score_registers;
    node(maximum).registers = costs_.state_registers;
    node(correct).registers = costs_.output_registers;
    node(write).memory_bytes["TMEM"] = costs_.weight_bytes;

    edge(load_k, s, 0, 0, false, 0);
    edge(s, read, 0, 0, true);
    edge(read, maximum, 0, costs_.score_exchange);
    edge(maximum, maximum, 1, costs_.factor_exchange);
    edge(maximum, exponential, 0, costs_.factor_exchange);
    edge(read, exponential, 0, costs_.score_exchange);
    edge(exponential, write, 0, costs_.score_exchange);
    edge(read, write, 0, costs_.score_exchange);  // the weights take the place of the scores
    edge(maximum, correct, 0, costs_.factor_exchange);
    edge(o, correct, 1, 0, true);
    edge(correct, o, 0, costs_.signal);
    edge(write, o, 0, costs_.signal);
    edge(load_v, o, 0, 0, false, 1);
    // Products of one accumulator follow each other through the unit.
    graph_.edges.push_back({o, o, costs_.matrix_cycles, 1, false, -1, 0, false});
  }

  const TensorMemoryAttention costs_;
  Graph graph_;
};

}  // namespace

Graph attention_with_tensor_memory(const TensorMemoryAttention& costs, const Machine& machine) {
  return Builder(costs, machine).build();
}

}  // namespace tj::graph
