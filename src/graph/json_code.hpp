// The "code" and "values" of a user graph, both ways: the texts of its kernel, and the values that its roles exchange.
//
// Decides the layout of both, and which values a document without any implies. Does not check names (code.hpp).
// Invariant: a text that was written is read as it was.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "graph/json_fields.hpp"
#include "graph/json_tree.hpp"

namespace tj::graph {

/// Fills namespace, includes, params_type and config.
void read_code(const Fields& fields, const Json& json, Graph& graph);
/// Throws tj::Error(graph, unsupported) for a config member that is no number, flag or type.
Json code_json(const Graph& graph);

/// Appends the values of a document that lists them; returns name -> index.
std::map<std::string, int> read_values(const Fields& fields, const Json& json, Graph& graph);
Json value_json(const Graph& graph, const Value& value);

/// Without a list, a node hands on its result in shared memory: values, and the value of each edge.
struct ImpliedValues {
  std::vector<Value> values;
  std::vector<int> of_edge;
};
ImpliedValues implied_values(const Graph& graph);
/// Are these the graph's values?
bool values_are_implied(const Graph& graph);

const char* scope_word(Scope scope);

}  // namespace tj::graph
