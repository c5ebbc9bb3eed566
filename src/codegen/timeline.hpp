// Events of one role, in order, for a given trip count: every call, wait, arrive, fence and release.
//
// Decides where synchronisation goes, by simulating the role: which groups are pending, which slots are held. Does not
// write text. Invariant: an event list is right for exactly its trip count; patterns over trip counts are found, not
// assumed.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "sched/schedule.hpp"

namespace tj::codegen {

enum class EventKind {
  wait_full,       ///< a value read by the next call has arrived
  wait_empty,      ///< the slot that the next call fills is free
  wait_place,      ///< what another ring, `ring`, held in the place that `node` fills has been handed back (places.hpp)
  expect_full,     ///< announce the bytes of the next call's copies
  matrix_fence,    ///< registers and shared memory are ready for the matrix unit
  call,            ///< the node's body
  matrix_commit,   ///< the call's matrix instructions form a group
  proxy_fence,     ///< ordinary stores of the call before asynchronous readers, where the value has such
  publish,         ///< the call's stores are complete
  publish_copies,  ///< each thread's copies of the call arrive for the value when they are done
  unit_publish,    ///< the matrix unit arrives for the value when the products that the role has asked for are done
  unit_release,    ///< the matrix unit hands the slot back then, as the last of this role that reads it
  store_commit,    ///< the call's bulk stores form a group
  store_wait,      ///< at most `pending` newest groups of stores have still to read
  matrix_wait,     ///< at most `pending` newest groups are unfinished
  done,            ///< a node's completion has been observed
  release,         ///< this role reads the slot no more
  order_wait,      ///< this role's turn on a shared unit
  order_arrive,    ///< the next role's turn
  block_sync,      ///< all that the block's threads did to its slots is done, where nothing else tells; `node` is what
                   ///< follows in a step
  warp_sync        ///< the same for a warp
};

struct Event {
  EventKind kind = EventKind::call;
  int node = -1;
  int ring = -1;       ///< ring of the schedule
  int iteration = -1;  ///< iteration of the instance, or of the filling of a ring; for a store_wait, of the newest
                       ///< group that it is for. -1 for tile scope, for syncs, and at the tile's end for what the last
                       ///< iteration left in a ring of iterations
  int pending = 0;
  int order = -1;  ///< order barrier of the schedule
  friend bool operator==(const Event&, const Event&) = default;
};

constexpr bool is_sync(EventKind kind) { return kind == EventKind::block_sync || kind == EventKind::warp_sync; }

struct Timeline {
  std::vector<Event> tile_begin;
  std::vector<std::vector<Event>> steps;  ///< step s holds iteration s - stage of each node
  std::vector<Event> tile_end;
};

/// The pattern over all trip counts n. n < peel has a list of its own. n >= peel runs steps 0..peel-1, then `steady`
/// for steps peel..n-1 (iterations relative to the step), then `drain` (iterations relative to n).
struct Pattern {
  int peel = 0;
  std::vector<Event> tile_begin;
  std::vector<std::vector<Event>> prologue;
  std::vector<Event> steady;
  std::vector<std::vector<Event>> drain;
  std::vector<Event> drain_end;   ///< before the tile-end nodes, iterations relative to n
  std::vector<Timeline> shorter;  ///< for n = 0 .. peel-1
  std::vector<Event> without;     ///< of a tile without iterations alone, before the tile-end nodes
  std::vector<Event> tile_end;
};

/// Roles of so many stages and more have one text for all steps (rolled.hpp). It has no place for what one step does
/// beside its iterations.
inline constexpr int kManyStages = 3;

/// Iterations counted from `origin`; those of tile scope stay -1.
std::vector<Event> relative(std::vector<Event> events, int origin);
/// The end of a tile in two parts. The first has events that the loop still asks for, relative to the trip count. The
/// second has events that come whatever it is.
std::pair<std::vector<Event>, std::vector<Event>> split_end(const std::vector<Event>& end, int trip_count);

/// Stage of a node counted from the smallest stage of its role.
int role_stage(const graph::Graph& graph, const sched::Schedule& schedule, int node);

/// The role's events for a trip count.
Timeline simulate(const graph::Graph& graph, const sched::Schedule& schedule, int role, int trip_count);

/// Throws tj::Error(codegen) when no pattern repeats.
Pattern find_pattern(const graph::Graph& graph, const sched::Schedule& schedule, int role);

}  // namespace tj::codegen
