// Facts that the model's reports need about a unit: its roles, rings, calls and sites, as one JSON text at the unit's
// end.
//
// Decides that text; its fields are described in kernel_templates/README.md. Devices see nothing of it. Invariant: one
// line of the unit's text for each entry, and their concatenation is the JSON.
#pragma once

#include <string>

#include "codegen/layout.hpp"
#include "codegen/sites.hpp"
#include "codegen/writer.hpp"
#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

/// Writes TJ_NOTES(symbol, ...) and returns the JSON.
std::string write_notes(Writer& writer, const char* symbol, const graph::Graph& graph, const sched::Schedule& schedule,
                        const Layout& layout, const Sites& sites);

}  // namespace tj::codegen
