// Loops of attention and matrix products taken apart to single loads, matrix steps, maxima, exponentials, sums and
// conversions, in raw cycles. The modulo search meets such graphs where nodes are small and many are alike.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace tj::test {

struct LoopShape {
  int copies = 2;        ///< consumers, each with its own tile
  int matrix_steps = 2;  ///< parts that one product is cut into
  int parts = 2;         ///< parts that the scores of a copy are cut into between the products
  int matrix_cycles = 256;
  int exp_cycles = 512;  ///< cycles of all parts of a copy together, as are the next two
  int max_cycles = 256;
  int alu_cycles = 128;
  int copy_cycles = 180;
  int copy_latency = 670;
  int drain = 90;  ///< from the end of a matrix step until its result may be used
};

class LoopBuilder {
 public:
  explicit LoopBuilder(const std::string& name) {
    graph_.name = name;
    graph_.machine.name = "raw cycles";
    graph_.machine.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"TMA", 1}};
  }

  int add(const std::string& name, const char* unit, int held, int latency) {
    graph::Node node;
    node.name = node.body = name;
    node.reservations = {{graph_.machine.unit_index(unit), 0, held, 1}};
    node.cycles = held;
    node.latency = latency;
    graph_.nodes.push_back(std::move(node));
    return static_cast<int>(graph_.nodes.size()) - 1;
  }

  int load(const std::string& name, const LoopShape& shape) {
    const int node = add(name, "TMA", shape.copy_cycles, shape.copy_latency);
    graph_.nodes.back().variable_latency = graph_.nodes.back().streaming = true;
    return node;
  }

  /// dst waits for the whole latency of src.
  void after(int src, int dst, int distance = 0) {
    edge(src, dst, graph_.nodes[static_cast<std::size_t>(src)].latency, distance);
  }
  void edge(int src, int dst, int delay, int distance = 0) {
    graph_.edges.push_back({src, dst, delay, distance, false, -1, 0, false});
  }

  graph::Graph take() { return std::move(graph_); }

 private:
  graph::Graph graph_;
};

/// One product of `steps` dependent matrix steps, each of which reads its own load; the last one's index.
inline int product(LoopBuilder& loop, const std::string& name, const LoopShape& shape, const std::vector<int>& loads,
                   int first_reads, int distance) {
  int previous = -1, first = -1;
  for (int k = 0; k < shape.matrix_steps; ++k) {
    const int step =
        loop.add(name + "." + std::to_string(k), "TC", shape.matrix_cycles, shape.matrix_cycles + shape.drain);
    loop.after(loads[static_cast<std::size_t>(k)], step);
    if (previous >= 0) loop.edge(previous, step, shape.matrix_cycles);
    if (previous < 0) first = step;
    previous = step;
  }
  if (first_reads >= 0) loop.after(first_reads, first, distance);
  return previous;
}

/// load K -> S -> max -> exp parts -> sum and convert parts -> O; the maximum and the output are carried.
inline graph::Graph attention_loop(const LoopShape& shape) {
  LoopBuilder loop("attention_" + std::to_string(shape.copies) + "x" + std::to_string(shape.matrix_steps) + "x" +
                   std::to_string(shape.parts));
  std::vector<int> k_loads, v_loads;
  for (int s = 0; s < shape.matrix_steps; ++s) {
    k_loads.push_back(loop.load("load_k." + std::to_string(s), shape));
    v_loads.push_back(loop.load("load_v." + std::to_string(s), shape));
  }
  for (int c = 0; c < shape.copies; ++c) {
    const std::string copy = "." + std::to_string(c);
    const int scores = product(loop, "qk" + copy, shape, k_loads, -1, 0);
    int maximum = -1;
    for (int p = 0; p < shape.parts; ++p) {
      const int part = loop.add("max" + copy + "." + std::to_string(p), "ALU", shape.max_cycles / shape.parts,
                                shape.max_cycles / shape.parts + 20);
      loop.after(maximum < 0 ? scores : maximum, part);
      maximum = part;
    }
    const int rescale = loop.add("rescale" + copy, "ALU", shape.alu_cycles, shape.alu_cycles + 20);
    loop.after(maximum, rescale);
    int sum = -1, last = rescale;
    for (int p = 0; p < shape.parts; ++p) {
      const std::string part = copy + "." + std::to_string(p);
      const int exp =
          loop.add("exp" + part, "EXP", shape.exp_cycles / shape.parts, shape.exp_cycles / shape.parts + 30);
      const int add =
          loop.add("sum" + part, "ALU", shape.alu_cycles / shape.parts, shape.alu_cycles / shape.parts + 20);
      const int convert =
          loop.add("convert" + part, "ALU", shape.alu_cycles / shape.parts, shape.alu_cycles / shape.parts + 20);
      loop.after(maximum, exp);
      loop.after(exp, add);
      loop.after(exp, convert);
      if (sum >= 0) loop.after(sum, add);
      sum = add;
      if (p + 1 == shape.parts) last = convert;
    }
    const int output = product(loop, "pv" + copy, shape, v_loads, last, 0);
    loop.after(rescale, output - shape.matrix_steps + 1);
    loop.edge(maximum, maximum, shape.max_cycles / shape.parts + 20, 1);
    loop.after(output, rescale, 1);
    loop.edge(sum, sum, shape.alu_cycles / shape.parts + 20, 1);
  }
  return loop.take();
}

/// load A, load B -> matrix steps of each copy, accumulated. Every part of the result so far is also scaled and stored,
/// as a loop over tiles does behind its main loop.
inline graph::Graph gemm_loop(const LoopShape& shape) {
  LoopBuilder loop("gemm_" + std::to_string(shape.copies) + "x" + std::to_string(shape.matrix_steps) + "x" +
                   std::to_string(shape.parts));
  std::vector<int> b_loads;
  for (int s = 0; s < shape.matrix_steps; ++s) b_loads.push_back(loop.load("load_b." + std::to_string(s), shape));
  for (int c = 0; c < shape.copies; ++c) {
    const std::string copy = "." + std::to_string(c);
    std::vector<int> a_loads;
    for (int s = 0; s < shape.matrix_steps; ++s)
      a_loads.push_back(loop.load("load_a" + copy + "." + std::to_string(s), shape));
    const int last = product(loop, "mma" + copy, shape, b_loads, -1, 0);
    const int first = last - shape.matrix_steps + 1;
    for (int s = 0; s < shape.matrix_steps; ++s) loop.after(a_loads[static_cast<std::size_t>(s)], first + s);
    loop.edge(last, first, shape.matrix_cycles, 1);
    for (int p = 0; p < shape.parts; ++p) {
      const std::string part = copy + "." + std::to_string(p);
      const int scale =
          loop.add("scale" + part, "ALU", shape.alu_cycles / shape.parts, shape.alu_cycles / shape.parts + 20);
      const int gelu =
          loop.add("gelu" + part, "EXP", shape.exp_cycles / shape.parts / 2, shape.exp_cycles / shape.parts / 2 + 30);
      const int convert =
          loop.add("convert" + part, "ALU", shape.alu_cycles / shape.parts, shape.alu_cycles / shape.parts + 20);
      loop.after(last, scale);
      loop.after(scale, gelu);
      loop.after(gelu, convert);
    }
  }
  return loop.take();
}

/// Shapes of 28 to 53 nodes.
inline std::vector<graph::Graph> loop_graphs() {
  std::vector<graph::Graph> list;
  const auto shape = [](int copies, int steps, int parts, int matrix, int exp) {
    LoopShape s;
    s.copies = copies;
    s.matrix_steps = steps;
    s.parts = parts;
    s.matrix_cycles = matrix;
    s.exp_cycles = exp;
    return s;
  };
  for (const auto& [matrix, exp] : {std::pair(256, 512), std::pair(128, 512), std::pair(320, 640), std::pair(192, 384),
                                    std::pair(128, 256), std::pair(512, 1024), std::pair(160, 500)}) {
    list.push_back(attention_loop(shape(1, 4, 4, matrix, exp)));
    list.push_back(attention_loop(shape(2, 2, 2, matrix, exp)));
    list.push_back(attention_loop(shape(2, 2, 3, matrix, exp)));
    list.push_back(attention_loop(shape(2, 4, 3, matrix, exp)));
    list.push_back(attention_loop(shape(3, 2, 2, matrix, exp)));
    list.push_back(gemm_loop(shape(2, 4, 2, matrix, exp)));
    list.push_back(gemm_loop(shape(2, 4, 4, matrix, exp)));
    list.push_back(gemm_loop(shape(3, 3, 4, matrix, exp)));
  }
  return list;
}

}  // namespace tj::test
