// The names that reports give the parts of a unit: its sites, the calls of its nodes, and the marks of a unit that
// records.
//
// Decides their numbers and what is known of each; timeline decides where they stand. Invariant: ids are unique in a
// unit and count from 1, sites, calls and marks apart.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/record.hpp"

namespace tj::codegen {

enum class SiteKind {
  wait,         ///< waits for a phase of a barrier in shared memory
  arrive,       ///< arrives at such a barrier
  expect,       ///< an arrival that announces bytes
  fence,        ///< orders what its threads did, for the matrix unit, the copy engine or whoever arrives
  commit,       ///< the work that its threads have issued forms a group
  group_wait,   ///< waits for groups of the matrix unit or of stores
  copies_wait,  ///< waits for copies of its threads
  tensor_wait,  ///< waits for stores of its warp into tensor memory
  sync,         ///< sync of a block or a warp
  turn_wait,    ///< waits for this role's turn on a unit
  turn_arrive,  ///< gives the next role its turn
  cluster,      ///< all blocks of the cluster meet
  registers,    ///< a role takes registers, or gives them
  counter,      ///< sets a counter in global memory back, for the next launch
  signal,       ///< tells other blocks by such a counter
  await,        ///< waits for what other blocks tell by one
  grids         ///< waits for the grids before this one
};

/// The kind as the notes spell it: "group_wait".
const char* name_of(SiteKind kind);

/// One wait, arrive, fence, transaction count, sync or group wait; the model can switch it off by id.
struct Site {
  int id = 0;
  SiteKind kind = SiteKind::sync;
  std::string what;        ///< "role load, prologue: wait ring k empty"
  std::vector<int> roles;  ///< roles of the schedule, whose threads come here; empty: all threads of the block, or one
                           ///< for all of them
  int ring = -1;  ///< ring of the schedule that it is about; of rings that the members of a family have each, the first
                  ///< member's
  int node = -1;  ///< node of the graph that it is for; of a family, the first member's
};

/// A call of a node's body in the text; in a loop it serves all iterations.
struct Call {
  int id = 0;
  std::vector<int> nodes;          ///< nodes of the graph: one for each member of the family; none: see `section`
  std::vector<int> roles;          ///< roles of the schedule, in the same order
  std::string section;             ///< "prologue"; without nodes, what stands for one: "next tile"
  std::vector<int> reads, writes;  ///< rings, as in a site
};

/// Shared by the roles of one unit.
class Sites {
 public:
  explicit Sites(bool recording = false) : recording_(recording) {}
  /// Does the unit record when its marks are reached? Else it has none.
  bool recording() const { return recording_; }
  /// Returns the id.
  int add(Site site) {
    site.id = static_cast<int>(list_.size()) + 1;
    list_.push_back(std::move(site));
    return list_.back().id;
  }
  int add(Call call) {
    call.id = static_cast<int>(calls_.size()) + 1;
    calls_.push_back(std::move(call));
    return calls_.back().id;
  }
  /// The id, that of an equal place where there is one. Throws tj::Error(codegen, unsupported) where there are too
  /// many.
  int add(Mark mark);
  const std::vector<Site>& list() const { return list_; }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Mark>& marks() const { return marks_; }

 private:
  const bool recording_;
  std::vector<Site> list_;
  std::vector<Call> calls_;
  std::vector<Mark> marks_;
};

}  // namespace tj::codegen
