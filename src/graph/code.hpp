// Names that a graph must give so that code can be made from it: bodies, contexts, types and files.
//
// Decides which names an emitted unit can hold. Does not decide whether they exist (the compiler knows) nor whether the
// schedule can be expressed (codegen). Invariant: an op's own graphs pass.
#pragma once

#include <string_view>

#include "graph/graph.hpp"

namespace tj::graph {

/// Does the graph say anything about code?
bool has_code(const Graph& graph);

/// Throws tj::Error(graph, invalid_argument) naming the first node, value or member that an emitted unit could not
/// hold.
void check_code(const Graph& graph);

/// A letter or _, then letters, digits and _.
bool is_identifier(std::string_view text);
/// Identifiers with :: between them.
bool is_qualified_name(std::string_view text);

}  // namespace tj::graph
