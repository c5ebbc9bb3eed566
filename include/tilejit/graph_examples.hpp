// Graphs with known schedules: loops of attention and of a product, with their costs as parameters.
//
//     const tj::Graph graph = tj::example_graph("fa_hopper", {.costs = {{"gemm", 1}, {"exp", 2}}, .sub_tiles = 2});
//     const tj::Schedule schedule = tj::schedule(graph);  // II 4, proven; its two roles take turns on TC
//
// Decides which loops there are, and what of them is a parameter. A cycle is one operation on a tile. Thread safety:
// any thread may call any of this at any time. A graph is plain data, to be changed before it is scheduled.
//
// | name | loop | machine | costs, in cycles, with their defaults |
// |---|---|---|---|
// | simplified_fa | S = gemm(Q, K), P = exp(S), O += gemm(P, V) | hopper | gemm 1, exp 1 |
// | fa_hopper | the same with loads of K and V, 32 KB of SMEM each | hopper | tma 1, gemm 2, exp 2 |
// | fa_blackwell | S is read from tensor memory, P written there | blackwell | tma 1, gemm 1, exp 2, tmem 1 |
// | simple_gemm | C += gemm(A, B) with loads of A and B | hopper | load 1, compute 2 |
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/export.hpp>
#include <tilejit/graph.hpp>

namespace tj {

/// The parameters of an example. Members have the names of the keys of the JSON form, which C takes.
struct TJ_API GraphExample {
  /// A name, or a description with the units of the loop. Without a name and units: the example's own.
  Graph::Machine machine{};
  std::map<std::string, int> costs{};  ///< 0 to 65536 each, such as {"gemm", 2}; those left out have their defaults
  /// Tiles of rows that the loop works on side by side, 1 to 3. Each has instructions of its own ("S.0", "S.1") with
  /// the registers of its rows, and all share what is loaded for K and V, or B.
  int sub_tiles = 1;
  bool operator==(const GraphExample&) const = default;

  /// {"costs": {"gemm": 2}, "sub_tiles": 2, "machine": "blackwell"}; keys that are left out have their defaults, an
  /// empty text all of them. Throws tj::Error(graph, invalid_argument) that names key, value and what is allowed.
  static GraphExample parse(std::string_view json);
};

/// The graph of an example. Throws tj::Error(graph, invalid_argument) that names the parameter, its value and what is
/// allowed.
TJ_API Graph example_graph(std::string_view name, const GraphExample& parameters = {});

/// The names of an example's costs with their defaults. Throws as example_graph() does.
TJ_API std::map<std::string, int> example_graph_costs(std::string_view name);

/// Names that example_graph() knows, in a fixed order.
TJ_API std::vector<std::string> example_graph_names();

}  // namespace tj
