// See model_races.hpp.
#include "launch/model_races.hpp"

#include <bit>

#include "launch/model_shared.hpp"
#include "support/fail.hpp"

namespace tj::launch::model {

using support::cat;

void Races::report(const Thread& thread, const char* does, std::uint32_t address, std::uint32_t bytes, const Access& other, const char* did) {
  const bool same_warp = other.warp == thread.warp();
  const std::string lane = other.lane == kSeveral ? std::string() : cat(", lane ", other.lane);
  fault(thread, cat(does, " ", bytes, " bytes at shared address ", hex(address), ", which ", same_warp && other.lane != kSeveral ? cat("lane ", other.lane) : cat("warp ", other.warp, lane), " has ", did,
                    " since the last ", same_warp ? "warp_sync" : "block_sync", "; nothing says who comes first"));
}

void Races::read(const Thread& thread, std::uint32_t address, std::uint32_t bytes, std::uint64_t block_syncs, std::uint64_t warp_syncs) {
  const std::uint32_t first = (address - SharedMemory::kBase) / kGrain, last = (address - SharedMemory::kBase + bytes - 1) / kGrain;
  for (std::uint32_t at = first; at <= last; ++at) {
    Use& use = uses_[at];
    if (use.written.block_syncs == block_syncs) {
      const bool own_warp = use.written.warp == thread.warp(), own = own_warp && use.written.lane == thread.lane();
      if (!own && (!own_warp || use.written.warp_syncs == warp_syncs)) report(thread, "reads", address, bytes, use.written, "written");
    }
    const bool again = use.read.block_syncs == block_syncs;
    use.reading_warps = (again ? use.reading_warps : 0u) | 1u << thread.warp();
    const bool others = again && use.read.warp == thread.warp() && use.read.warp_syncs == warp_syncs && use.read.lane != thread.lane();
    use.read = {block_syncs, warp_syncs, thread.warp(), others ? kSeveral : thread.lane()};
  }
}

void Races::write(const Thread& thread, std::uint32_t address, std::uint32_t bytes, std::uint64_t block_syncs, std::uint64_t warp_syncs) {
  const std::uint32_t first = (address - SharedMemory::kBase) / kGrain, last = (address - SharedMemory::kBase + bytes - 1) / kGrain;
  for (std::uint32_t at = first; at <= last; ++at) {
    Use& use = uses_[at];
    if (use.read.block_syncs == block_syncs) {
      const std::uint32_t others = use.reading_warps & ~(1u << thread.warp());
      if (others != 0) report(thread, "writes", address, bytes, {block_syncs, 0, static_cast<unsigned>(std::countr_zero(others)), kSeveral}, "read");
      const bool same_turn = use.read.warp == thread.warp() && use.read.warp_syncs == warp_syncs;
      if (same_turn && use.read.lane != thread.lane()) report(thread, "writes", address, bytes, use.read, "read");
    }
    if (use.written.block_syncs == block_syncs && use.written.warp != thread.warp()) report(thread, "writes", address, bytes, use.written, "written");
    use.written = {block_syncs, warp_syncs, thread.warp(), thread.lane()};
  }
}

}  // namespace tj::launch::model
