// Throughput that a schedule promises. One tile takes its overhead, one II for each iteration but the last, and one
// length. Blocks side by side on an SM take as long together as one of them.
#include <algorithm>

#include "sched/schedule.hpp"

namespace tj::sched {

double predict_tflops(const graph::Graph& graph, const Schedule& schedule, int sm_count, double clock_ghz,
                      double iterations) {
  if (iterations <= 0 || schedule.ii <= 0) return 0;
  const double steady_cycles = std::max(0.0, iterations - 1) * schedule.ii;
  const double cycles = graph.overhead_cycles + steady_cycles + schedule.length;
  return graph.flops_per_iteration * iterations / cycles * clock_ghz * sm_count * graph.blocks_per_sm / 1e3;
}

}  // namespace tj::sched
