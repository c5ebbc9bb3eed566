// The words that ranks write for each other, and their places.
//
// Decides nothing else: who writes them when is peers.hpp's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dist/peers.hpp"
#include "ops/peer_wait/peer_wait.hpp"

namespace tj::dist {

using ops::peer_wait::kMostRanks;

inline constexpr int kSlots = 2;
/// Lists of kMostRanks words. Each slot has a list of its turns so far, of what ranks have let go of, and of their
/// calls. It has one of what they have brought for each piece, too. Two more lists tell whether ranks leave. A word
/// behind all of them says that a wait has failed.
inline constexpr int kEpochs = 0, kFreed = kSlots, kArrived = 2 * kSlots, kCalls = kArrived + kMostPieces * kSlots,
                     kLeaving = kCalls + kSlots, kLeft = kLeaving + 1, kBroken = kLeft + 1;
inline constexpr std::size_t kWords = std::size_t{kBroken} * kMostRanks + 1;
/// Epochs begin shortly before they wrap, so that each long run has it behind itself.
inline constexpr std::uint32_t kFirstEpoch = 0xfffffff0u;

}  // namespace tj::dist
