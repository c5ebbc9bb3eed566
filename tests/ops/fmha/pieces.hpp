// Attention by pieces of keys for tests: a kernel's schedule, the order of its pieces there, and another legal one.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "ops/fmha/fmha.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"

namespace tj::test {

inline Choice choice_of(const ops::FmhaKernel& kernel, const arch::Arch& arch) {
  return choose(ops::fmha_op(), ops::fmha_request(kernel), arch);
}

/// A node of a piece: weigh_<piece> or pv_<piece>, with its cycles from begin to end.
struct PieceNode {
  bool weighs = false;
  int piece = 0, begin = 0, end = 0;
  bool operator==(const PieceNode&) const = default;
};

/// The nodes of pieces, in the order of the role's text.
inline std::vector<PieceNode> nodes_of_pieces(const Choice& choice) {
  std::vector<PieceNode> list;
  for (std::size_t n = 0; n < choice.candidate.graph.nodes.size(); ++n) {
    const graph::Node& node = choice.candidate.graph.nodes[n];
    const bool weighs = node.body.starts_with("weigh_");
    if (!weighs && !node.body.starts_with("pv_")) continue;
    const int begin = choice.schedule.cycle[n];
    list.push_back({weighs, std::stoi(node.body.substr(weighs ? 6 : 3)), begin, begin + node.latency});
  }
  std::sort(list.begin(), list.end(), [](const PieceNode& a, const PieceNode& b) { return a.begin < b.begin; });
  return list;
}
inline std::vector<std::string> order_of_pieces(const Choice& choice) {
  std::vector<std::string> names;
  for (const PieceNode& node : nodes_of_pieces(choice))
    names.push_back((node.weighs ? "weigh_" : "pv_") + std::to_string(node.piece));
  return names;
}

/// The schedule that is best where all weights come before the first product.
inline Choice all_weights_first(Choice choice) {
  graph::Graph& graph = choice.candidate.graph;
  const int pieces = static_cast<int>(order_of_pieces(choice).size()) / 2;
  const int last = graph.node_index("weigh_" + std::to_string(pieces - 1) + ".0"), first = graph.node_index("pv_0.0");
  graph.edges.push_back({last, first, graph.nodes[static_cast<std::size_t>(last)].latency, 0});
  graph.edges.back().same_role = true;
  choice.schedule = sched::schedule(graph, options_for(choice.candidate));
  CHECK(sched::verify(graph, choice.schedule).empty());
  return choice;
}

}  // namespace tj::test
