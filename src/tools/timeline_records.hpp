// The records of a kernel, put together again: roles, tiles, nodes and waits of a block, with times.
//
// Decides how records become spans, and what makes a row of them complete. Does not decide what they are compared with,
// nor how they are shown. Invariant: times of a block count from its first record, and rise within a role.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/emit.hpp"
#include "codegen/record.hpp"
#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::tools {

/// A call of a node's body, or a wait.
struct Span {
  int node = -1;       ///< of a wait: who waits, -1 where it is for several
  std::string wait;    ///< "k full"; empty: a node
  int iteration = -1;  ///< -1: of none
  std::int64_t begin = 0, end = 0;
  std::int64_t done = -1;  ///< of a matrix node: when the role saw that it is complete; -1 where it did not look for it
};

struct TileSpans {
  int iterations = 0;
  std::int64_t begin = 0;
  std::int64_t end = -1;  ///< -1: the records were full before
  std::vector<Span> spans;
  bool whole() const { return end >= 0; }
};

struct RoleSpans {
  int role = -1;
  int processor = 0;                 ///< which multiprocessor
  std::int64_t begin = 0, end = -1;  ///< end -1: the records were full before
  std::vector<TileSpans> tiles;
  std::vector<Span> after;  ///< waits behind the last tile
};

struct BlockSpans {
  unsigned block = 0;
  std::vector<RoleSpans> roles;  ///< of the schedule, in its order
};

/// The records of each role's first warp, up to the first that is empty. Throws tj::Error(launch, internal) with role
/// and place when the unit cannot have written them: no record at all, a begin without its end, a clock that goes back.
/// A role that this block of a pair leaves to the other is left out.
BlockSpans read_block(const graph::Graph& graph, const codegen::Unit& unit, const sched::Schedule& schedule,
                      unsigned block, std::span<const codegen::Record> records, std::size_t warp_records);

/// Whole tiles have each node once in each iteration, in the order of the schedule: "" or what is wrong first.
std::string check_block(const graph::Graph& graph, const sched::Schedule& schedule, const BlockSpans& block);

}  // namespace tj::tools
