// User graphs as JSON, both ways. The format is written down in README.md beside this file.
//
// Decides how a text becomes a graph, and what is refused. Does not decide what is scheduled from it. Invariant: a
// graph that was read passes check(); read_json(to_json(graph)) schedules as `graph` does.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace tj::graph {

/// A longer text is refused.
inline constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;

/// A machine whose name is in no list, because the name says what is left of another machine; nothing for other names.
/// Throws tj::Error where such a name is not right.
using MachineFinder = std::function<std::optional<Machine>(const std::string& name)>;

/// The graph of one JSON document, under `name` where it gives itself none. `machines` are those that "machine" may
/// name besides the normalised machines of examples.hpp; `find` is asked about other names. Throws tj::Error(graph,
/// invalid_argument) for anything that is not the format or not a legal graph. It names the place, such as
/// "instructions[3].fu". Nothing else is thrown, whatever the bytes are.
Graph read_json(std::string_view text, std::string_view name = "graph", const std::vector<Machine>& machines = {},
                const MachineFinder& find = {});

/// The document of a graph, with the machine by name where `machines` has it. Throws tj::Error(graph, unsupported) for
/// a config member that the format has no field for.
std::string to_json(const Graph& graph, const std::vector<Machine>& machines = {});

}  // namespace tj::graph
