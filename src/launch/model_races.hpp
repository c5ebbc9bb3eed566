// Who has used shared memory since the last sync, where a block has no other order than its syncs.
//
// Decides which accesses of two threads nothing orders: of two warps between two syncs of the block, of two lanes between two syncs of their
// warp, where one of them writes. It is a fault whoever comes first, so that a sync which is left out shows in every run. Lanes of one warp
// may write the same place. Invariant: knows accesses and syncs alone, never values.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/model_thread.hpp"

namespace tj::launch::model {

class Races {
 public:
  void reset(std::size_t bytes) { uses_.assign((bytes + kGrain - 1) / kGrain, Use{}); }
  /// An access inside shared memory, after so many syncs of the block and of the thread's warp. Both throw tj::Error(model_fault).
  void read(const Thread& thread, std::uint32_t address, std::uint32_t bytes, std::uint64_t block_syncs, std::uint64_t warp_syncs);
  void write(const Thread& thread, std::uint32_t address, std::uint32_t bytes, std::uint64_t block_syncs, std::uint64_t warp_syncs);

 private:
  static constexpr std::uint32_t kGrain = 2;  // bytes of the least access
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr unsigned kSeveral = ~0u;

  struct Access {
    std::uint64_t block_syncs = kNever, warp_syncs = kNever;
    unsigned warp = 0, lane = 0;  ///< kSeveral: more than one of the warp
  };
  struct Use {
    Access written, read;              ///< the last ones
    std::uint32_t reading_warps = 0;  ///< since the sync of the block before `read`
  };
  [[noreturn]] static void report(const Thread& thread, const char* does, std::uint32_t address, std::uint32_t bytes, const Access& other, const char* did);

  std::vector<Use> uses_;
};

}  // namespace tj::launch::model
