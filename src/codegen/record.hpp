// A unit that records: the meaning of its marks, and the layout of its records in memory.
//
// Decides which places of a role are marked, and the layout that kernel_templates/recording.cuh has, too. Does not
// decide the order of anything: a mark is a line between lines that are there without it. Invariant: equal places of a
// role share a mark, whatever section of the text they stand in. A mark's number fits beside a record's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

/// A number comes with each mark; brackets say which.
enum class MarkKind {
  role_begin,  ///< the role's thread is there (which multiprocessor)
  role_end,    ///< it has nothing more to do (0)
  tile_begin,  ///< of the next tile (its iterations)
  tile_end,    ///< (0)
  node_begin,  ///< the node's body is called, or the lines that only its issuing thread runs (iteration; of a tile's
               ///< begin and end 0)
  node_end,    ///< ... has returned: a node that completes by itself has been issued (the same)
  node_done,   ///< a matrix node: the role has seen that it is complete (the same)
  wait_begin,  ///< (iteration of the awaited value; 0 where it has none)
  wait_end     ///< (the same)
};

/// The spelling of reports: "node begin".
const char* name_of(MarkKind kind);

struct Mark {
  int id = 0;
  MarkKind kind = MarkKind::role_begin;
  std::vector<int> roles;  ///< roles of the schedule: the members of a family
  std::vector<int> nodes;  ///< nodes of the graph, in the same order; empty where it is about none. A wait has the node
                           ///< that waits
  std::vector<std::string> what = {};  ///< the text of a wait, for each of the roles: "k full"
  bool iterates = false;               ///< the number is an iteration
  bool same_place(const Mark& other) const {
    return kind == other.kind && roles == other.roles && nodes == other.nodes && what == other.what &&
           iterates == other.iterates;
  }
};

inline constexpr int kMarkNumberBits = 20;                           ///< of a record's first word
inline constexpr int kMaxMarks = (1 << (32 - kMarkNumberBits)) - 1;  ///< ids count from 1: a record is never 0

/// The struct behind a recording unit's parameter, at a multiple of 8: kernel_templates/recording.cuh.
struct RecordsParam {
  std::uint64_t buffer = 0;
  std::uint32_t first_block = 0, blocks = 0, warps = 0, warp_bytes = 0;
};
static_assert(sizeof(RecordsParam) == 24, "as kernel_templates/recording.cuh");

struct Record {
  std::uint32_t word = 0, clock = 0;
  int mark() const { return static_cast<int>(word >> kMarkNumberBits); }
  int number() const { return static_cast<int>(word & ((1u << kMarkNumberBits) - 1u)); }
};
static_assert(sizeof(Record) == 8, "as kernel_templates/recording.cuh");

/// The offset of RecordsParam behind a parameter of so many bytes.
constexpr std::size_t records_offset(std::size_t params_bytes) { return (params_bytes + 7) / 8 * 8; }

/// Names that recording units use besides those of all units.
bool is_recording_name(std::string_view name);

}  // namespace tj::codegen
