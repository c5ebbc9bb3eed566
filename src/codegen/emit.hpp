// Schedule + graph -> one translation unit.
//
// Decides the text around node bodies: roles, order, prologue, steady state, epilogue, rings, waits and signals.
// Knows no op, node or arch by name. Invariant: the same graph and schedule give the same bytes.
#pragma once

#include <string>
#include <vector>

#include "codegen/sites.hpp"
#include "graph/graph.hpp"
#include "sched/schedule.hpp"
#include "support/launch_shape.hpp"

namespace tj::codegen {

struct Unit {
  std::string text;
  support::LaunchShape shape;
  std::vector<Site> sites;
  std::vector<Call> calls;
  std::vector<Mark> marks;       ///< marks of a unit that records, else none
  std::vector<int> first_warps;  ///< one for each role of the schedule: in a unit that records, its first warp's thread
                                 ///< writes the records
  std::string notes;             ///< notes at the text's end about the unit, as JSON
};

struct EmitOptions {
  /// Times at which roles come to their nodes and waits are written to memory. RecordsParam stands behind the kernel's
  /// parameter (record.hpp). The option adds lines, and names the parameter otherwise. The rest of the text is the same
  /// as with the option off.
  bool record = false;
};

/// `primitives` names the file of kernel_templates/arch/ without its suffix. Throws tj::Error(codegen) when the
/// schedule cannot be expressed, naming node and reason.
Unit emit(const graph::Graph& graph, const sched::Schedule& schedule, const std::string& primitives,
          const EmitOptions& options = {});

}  // namespace tj::codegen
