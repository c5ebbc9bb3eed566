// See bench_predict.hpp.
#include "tools/bench_predict.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "ops/common/workloads.hpp"
#include "support/json.hpp"

namespace tj::tools {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Cycles of a tile of so many iterations (src/sched/predict.cpp), read from the schedule that the kernel was made
/// with.
struct TileCycles {
  double ii = 0, length = 0, overhead = 0;
  double of(std::int64_t iterations) const {
    return overhead + (iterations > 0 ? static_cast<double>(iterations - 1) * ii + length : 0);
  }
};
TileCycles tile_cycles(const KernelReport& report) {
  const auto schedule = support::SortedJson::parse(report.schedule_json);
  return {schedule.at("ii").get<double>(), schedule.at("length").get<double>(),
          schedule.at("overhead_cycles").get<double>()};
}

/// The longest tiles first, each to the block that is free first; blocks side by side on an SM take as long together as
/// one of them.
double launch_cycles(const PreparedLaunch& launch, std::vector<ops::TileCount> tiles) {
  if (tiles.empty()) return kUnknown;
  const TileCycles cycles = tile_cycles(launch.kernel->report);
  const unsigned at_once = std::max(
      1U, launch.kernel->sm_count * launch.kernel->blocks_per_sm() / std::max(1U, launch.kernel->shape.cluster));
  std::sort(tiles.begin(), tiles.end(),
            [](const ops::TileCount& x, const ops::TileCount& y) { return x.iterations > y.iterations; });
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at(std::greater<>(),
                                                                           std::vector<double>(at_once, 0.0));
  double end = 0;
  for (const ops::TileCount& group : tiles)
    for (std::int64_t tile = 0; tile < group.tiles; ++tile) {
      const double done = free_at.top() + cycles.of(group.iterations);
      free_at.pop();
      free_at.push(done);
      end = std::max(end, done);
    }
  return end;
}

}  // namespace

double predicted_us(const ops::Op& op, const void* args, const PreparedCall& call, const arch::Arch& arch) {
  const double cycles_per_us = arch.clock_ghz * 1e3;
  if (const double told = ops::predicted_cycles(op, args, call.kernel.choice, arch); told > 0)
    return told / cycles_per_us;
  double cycles = 0;
  std::size_t next = 0;
  op.steps(args, call.kernel, call.scratch.get(), [&](const ops::Step& step) {
    const PreparedLaunch& launch = call.launches[next++];
    cycles += launch_cycles(launch, ops::tiles_of(*step.op, step.args, launch.kernel->geometry, launch.plan.blocks));
  });
  return cycles / cycles_per_us;
}

}  // namespace tj::tools
