// Rings: how many slots each value between roles needs, and how many it gets.
//
// Decides slots and memory. Does not move nodes. Invariant: with these slots the schedule's own order of events is
// executable, so no role waits for ever, and the bytes fit.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"
#include "sched/modulo/problem.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// The most slots that value and options allow; 0 for a value that needs no ring of several slots. Throws
/// tj::Error(schedule, invalid_argument) when the option is below a value's minimum.
SlotCaps slot_caps(const graph::Graph& graph, const Options& options);

/// Slots that the lifetimes of a schedule need, per value; at least the value's minimum. Needs the roles' order.
std::vector<int> slots_needed(const graph::Graph& graph, const Schedule& schedule);

/// Bytes of shared memory with these slots, barriers included.
std::int64_t ring_bytes(const graph::Graph& graph, const Schedule& schedule, const std::vector<int>& slots);
/// The bytes that the machine has; negative when it does not say.
std::int64_t ring_capacity(const graph::Graph& graph);

/// Takes slots away, deepest ring first, until the bytes fit. Throws tj::Error(schedule, unsupported) with the bytes
/// when the minima do not fit.
std::vector<int> shrink_to_fit(const graph::Graph& graph, const Schedule& schedule, std::vector<int> slots);

/// Fills `rings` with the slots given, then deepens rings that streaming loads fill, evenly, up to `caps` and the
/// memory.
void make_rings(const graph::Graph& graph, const std::vector<int>& slots, const SlotCaps& caps, Schedule& schedule);

/// Moves copies as late as their readers and units allow, so that slots are held no longer than needed. Keeps the
/// length.
void delay_copies(const Problem& problem, const graph::Graph& graph, int ii, std::vector<int>& cycle);

}  // namespace tj::sched
