// Places of rings, roles and named barriers: shared-memory offsets, columns of tensor memory, warps, barrier ids.
//
// Decides addresses and numbers only; columns come from tensor_places.hpp. Invariant: slots are aligned as their value
// asks, nothing in shared memory overlaps but values of which one lies in the other's place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

struct RingPlace {
  std::string type_name;                       ///< "RingK"
  std::int64_t data = 0, full = 0, empty = 0;  ///< byte offsets
  int column = 0, slot_columns = 0;  ///< for a ring in tensor memory, instead of data; slot_columns 0: in shared memory
  int member_columns = 0;            ///< from there to the ring of the next member of a family
  int full_arrivals = 0, empty_arrivals = 0;
  int members =
      1;  ///< for the first member of a family that has a ring each: how many rings lie here, one behind the other
};

struct RolePlace {
  int first_warp = 0;
  bool single_thread = false;  ///< every node copies or stores in bulk or asks for products: one thread runs the role
};

/// Warps that share one register count.
struct Group {
  std::vector<int> roles;
  int first_warp = 0;
  int registers = 0;
};

struct Layout {
  std::vector<RingPlace> rings;  ///< as Schedule::rings
  std::vector<RolePlace> roles;  ///< as Schedule::roles
  RingPlace places;  ///< of a walk that draws: the ring of what is drawn; without barriers no arrivals. Of a sliced
                     ///< walk: the one slot of the sums that the other blocks send
  std::vector<Group> groups;
  std::vector<int> first_barrier_id;  ///< per order barrier
  int threads = 0;
  int entry_registers = 0;
  std::int64_t smem_bytes = 0;
  int tensor_columns = 0;           ///< columns of tensor memory that a block takes; 0: none
  std::int64_t tensor_address = 0;  ///< byte offset of the word that says where they begin
};

/// Throws tj::Error(codegen) when the schedule does not fit the machine.
Layout make_layout(const graph::Graph& graph, const sched::Schedule& schedule);

/// The part of a pair in a value's barriers, in a kernel whose pairs of blocks let one block ask for the products of
/// both. A value that the unit reads says full in the first block alone, for both blocks' slots. A value that the unit
/// fills is handed back there by both. The unit itself arrives in both blocks.
enum class OfPair { none, read, filled };
OfPair of_pair(const graph::Graph& graph, int value);

/// A value that is filled once a tile is never filled again where there is no next tile.
bool filled_once(const graph::Graph& graph, const graph::Value& value);

/// Does the role ask for products of a pair of blocks, so that only the first block of a pair runs it?
bool runs_in_first_of_pair(const graph::Graph& graph, const sched::Schedule& schedule, int role);

/// Warps that issue a product of the matrix unit together.
inline constexpr int kGroupWarps = 4;
/// Is the matrix unit all that reads the value in the role, once an iteration? A product of a group of warps begins
/// when all of them have asked for it, and is done for all of them at once: one of them says so.
bool handed_back_by_groups(const graph::Graph& graph, const sched::Schedule& schedule, int role, int value);

/// Does a node of the role read the value?
bool role_reads(const graph::Graph& graph, const sched::Schedule& schedule, int role, int value);

}  // namespace tj::codegen
