// Edges at one initiation interval, and the rounds that they leave to what they do not tie together.
//
// Decides no times. Invariant: where a schedule is, there is one inside rounds_apart() that differs from it by whole
// rounds of strongly connected components.
#pragma once

#include "sched/modulo/closure.hpp"
#include "sched/modulo/problem.hpp"

namespace tj::sched {

constexpr int kHorizon = 1 << 26;  ///< no time that is searched for lies beyond it

/// The edges before close().
Closure edges_at(const Problem& problem, int ii);

/// Each strongly connected component somewhere in one round, index 0 the origin and node n at n + 1. Edges between
/// components are met later by whole rounds. `edges` are closed.
Closure rounds_apart(const Closure& edges, int ii);

/// Bounds of times become bounds of distances.
void through_origin(Closure& root);

}  // namespace tj::sched
