// User graphs as JSON, both ways. The format is written down in README.md beside this file.
//
// Decides how a text becomes a graph, and what is refused. Does not decide what is scheduled from it. Invariant: a graph
// that was read passes check(); read_json(to_json(graph)) schedules as `graph` does.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "graph/graph.hpp"

namespace tj::graph {

/// A longer text is refused.
inline constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;

/// The graph of one JSON document, under `name`. Throws tj::Error(graph, invalid_argument) that names the place, such as
/// "instructions[3].fu", for anything that is not the format or not a legal graph; nothing else, whatever the bytes are.
/// A node with SMEM becomes a producer of a value that all its edges to other nodes carry.
Graph read_json(std::string_view text, std::string_view name = "graph");

/// The document of a graph. Throws tj::Error(graph, unsupported) where the format has no field for what decides the
/// graph's schedule: tile scopes, copies of a context, spill costs, asynchronous matrix nodes, edges tied to one role.
std::string to_json(const Graph& graph);

}  // namespace tj::graph
