// The "machine" of a user graph, both ways.
//
// Decides which machines have a name: the normalised machines of examples.hpp, and those that the caller brings. The
// caller brings the real targets, as this folder does not know archs. Invariant: a machine that was written is read as
// it was, but for its name.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "graph/json_fields.hpp"
#include "graph/json_reader.hpp"
#include "graph/json_tree.hpp"

namespace tj::graph {

struct ReadMachine {
  Machine machine;
  bool bounded = true;  ///< the machine says which memory spaces it has
};

/// The machine of a name that stands at `place`: "machine", which may be an object as well, or "targets[0]".
Machine find_machine(const Fields& fields, const std::string& place, const std::string& given,
                     const std::vector<Machine>& machines, const MachineFinder& find);

/// The share of each of `blocks_per_sm` blocks of a named machine; a machine that is an object says it itself.
ReadMachine read_machine(const Fields& fields, const Json& json, const std::vector<Machine>& machines,
                         const MachineFinder& find, int blocks_per_sm);

Json machine_json(const Machine& machine, const std::vector<Machine>& machines, int blocks_per_sm);

}  // namespace tj::graph
