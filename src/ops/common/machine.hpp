// An arch as the scheduler's machine.
//
// Decides what of an arch a graph is scheduled against: units, memory spaces, registers. Knows no op, adds no unit of
// an op's own. Invariant: equal archs give equal machines.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.hpp"
#include "graph/graph.hpp"

namespace tj::graph {
class Fields;
}

namespace tj::ops {

/// Units of the arch with their capacities, its memory spaces, its registers and how they move; named like the arch. Of
/// memory and registers what each of `blocks_per_sm` blocks side by side on an SM has: the graph says the same number.
graph::Machine machine_of(const arch::Arch& arch, int blocks_per_sm = 1);

/// The arch that a graph's machine is named after, with its options; null for other names.
const arch::Arch* arch_named(std::string_view machine);

/// Whether a graph for the machine of this name runs on the arch: its own name, or without its file of facts. Such a
/// file changes no number of a user's graph; expressions have its facts.
bool is_machine_of(std::string_view machine, const arch::Arch& arch);

/// A user's graph (graph/json_reader.hpp), which may name the machine of any arch, with options too (arch::parse_arch).
/// Throws as read_json does.
graph::Graph read_graph(std::string_view text, std::string_view name);
/// Throws as read_graph does where no machine has this name; the message says which place named it.
void need_machine(const graph::Fields& fields, const std::string& place, const std::string& name);
/// The document of such a graph, its machine by name where it has one.
std::string write_graph(const graph::Graph& graph);

/// The least shared memory to launch a block with so that no more than `blocks` of them are side by side on an SM of
/// the chip. It counts all of the SM's memory, even if the arch has less by an option.
std::int64_t least_smem_for(const arch::Arch& arch, int blocks);

/// A time that a model gives, in whole cycles: no less than it.
int cycles(double value);

/// Candidate::definitions of a unit whose matrix instructions have these numbers of columns.
std::vector<std::string> matrix_widths(std::initializer_list<int> widths);

}  // namespace tj::ops
