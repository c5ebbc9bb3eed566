// Predictions of a schedule for a problem, and reasons why a step was slower than the one before.
//
// Decides how tiles are dealt to a device, and which changes of a schedule cost time. Measures nothing. Invariant: what
// is not known is 0, or no words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/schedule_changes.hpp"

namespace tj::samples {

/// Tiles of a problem that have the same number of iterations.
struct Tiles {
  std::int64_t count = 0, iterations = 0;
};

/// Those of a product whose schedule's graph names the tile: gemm_f16_kk_128x256x64c2x1; empty where it names none.
std::vector<Tiles> gemm_tiles(const ScheduleFacts& schedule, std::int64_t m, std::int64_t n, std::int64_t k);
/// Those of attention, of as many keys as queries: fmha_f16_d128_64x64_4warps_basic. Under a causal mask they differ.
std::vector<Tiles> fmha_tiles(const ScheduleFacts& schedule, std::int64_t heads, std::int64_t seq_len, bool causal);

/// Milliseconds, on the device and at the clock that the schedule's arch is described with. The longest tiles go first,
/// each to the block that is free first; blocks side by side on an SM take as long together as one of them.
double predicted_ms(const ScheduleFacts& schedule, std::vector<Tiles> tiles);

/// A step that was slower than the one before (measured below 1): whether its schedule says so (predicted; 0: unknown),
/// what binds it, and what changed that costs time. Empty for a step that gained, and where nothing was measured.
std::string why_slower(const ScheduleFacts& before, const ScheduleFacts& now, double measured, double predicted);

}  // namespace tj::samples
