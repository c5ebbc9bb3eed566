// The launch shape: how a kernel is started, but for its grid. It is the same struct from the emitted unit to the
// driver.
//
// Decides nothing. Its numbers come from codegen, are kept in the cache entry, and never change after that.
#pragma once

#include <cstdint>
#include <string>

namespace tj::support {

struct LaunchShape {
  unsigned threads = 0;          ///< of a block
  unsigned cluster = 1;          ///< consecutive blocks that run together and reach each other; divides every grid
  unsigned blocks_per_sm = 1;    ///< blocks that are to run side by side on an SM
  unsigned across_blocks = 0;    ///< 1: blocks wait for others by counters in global memory
  unsigned block_counters = 0;   ///< of these, for each block, beside one for all
  std::int64_t piece_bytes = 0;  ///< of global memory, for the sums that a block leaves
  std::int64_t smem_bytes = 0;
  std::string symbol = {};  ///< entry point
  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

}  // namespace tj::support
