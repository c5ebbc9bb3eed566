// The examples of tilejit/graph_examples.hpp.
//
// Decides how their parameters are read. Builds no graph itself (graph/examples.hpp).
#include <cstdint>
#include <utility>

#include <tilejit/graph_examples.hpp>

#include "custom/graph_document.hpp"
#include "graph/examples.hpp"
#include "graph/json_fields.hpp"
#include "graph/json_tree.hpp"
#include "ops/common/machine.hpp"
#include "support/text.hpp"

namespace tj {

GraphExample GraphExample::parse(std::string_view json) {
  GraphExample example;
  if (json.empty()) return example;
  const graph::Json tree = graph::parse_json(json, "parameters");
  const graph::Fields fields("parameters");
  fields.keys(tree, "the document", {"machine", "costs", "sub_tiles"});
  if (const graph::Json* machine = graph::Fields::optional(tree, "machine")) example.machine = read_machine(*machine);
  if (const graph::Json* costs = graph::Fields::optional(tree, "costs"))
    for (const auto& [name, cycles] : fields.object(*costs, "costs").items())
      example.costs[name] = fields.number(cycles, "costs." + support::shown(name), 0, graph::kMaxExampleCost);
  example.sub_tiles = fields.number_or(tree, "", "sub_tiles", 1, 1, graph::kMaxSubTiles);
  return example;
}

Graph example_graph(std::string_view name, const GraphExample& given) {
  graph::ExampleParameters parameters{given.costs, given.sub_tiles, {}};
  if (given.machine != Graph::Machine()) {
    Graph probe;
    probe.name = support::shown(name);
    probe.machine = given.machine;
    probe.instructions.push_back({.name = "none"});
    parameters.machine = read_document(probe).machine;
  }
  return Graph::parse(ops::write_graph(graph::example(name, parameters)));
}

std::map<std::string, int> example_graph_costs(std::string_view name) {
  const std::vector<std::pair<std::string, int>>& costs = graph::find_example(name).costs;
  return {costs.begin(), costs.end()};
}

std::vector<std::string> example_graph_names() { return graph::example_names(); }

}  // namespace tj
