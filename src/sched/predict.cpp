// Numbers that follow from graph and schedule: what an iteration holds of a unit, and the throughput that a schedule
// promises. One tile takes its overhead, one II for each iteration but the last, and one
// length. Blocks side by side on an SM take as long together as one of them.
#include <algorithm>

#include "sched/schedule.hpp"

namespace tj::sched {

std::int64_t held_cycles(const graph::Graph& graph, int unit) {
  std::int64_t cycles = 0;
  for (const graph::Node& node : graph.nodes)
    for (const graph::Reservation& use : node.reservations)
      if (node.scope == graph::Scope::iteration && use.unit == unit) cycles += std::int64_t{use.cycles} * use.count;
  return cycles;
}

double predict_tflops(const graph::Graph& graph, const Schedule& schedule, int sm_count, double clock_ghz,
                      double iterations) {
  if (iterations <= 0 || schedule.ii <= 0) return 0;
  const double steady_cycles = std::max(0.0, iterations - 1) * schedule.ii;
  const double cycles = graph.overhead_cycles + steady_cycles + schedule.length;
  return graph.flops_per_iteration * iterations / cycles * clock_ghz * sm_count * graph.blocks_per_sm / 1e3;
}

}  // namespace tj::sched
