// Parameters of a wait for other ranks, by value: written by the host, read by the device.
#pragma once

#include "types.cuh"

namespace tj::ops::peer_wait {

inline constexpr int kMostRanks = 32;  ///< a lane each

/// Segments of other meanings: a rank came with other arguments, or did not let go of a slot.
inline constexpr unsigned kOtherCall = 0xffffeu, kFreeing = 0xfffffu;

/// The end of a rank's wait that ended without an arrival.
struct Missed {
  unsigned segment;  ///< counted from 1; 0: the rank has come; kOtherCall, kFreeing
  unsigned epoch;
};

/// The same in a word, which all ranks are told. It begins with the rank that waited, counted from 1. The rank that it
/// waited for follows at bit kRankBits, and the segment at twice that.
inline constexpr unsigned kRankBits = 6, kRankMask = (1u << kRankBits) - 1;

/// Words for rank r stand at place r.
struct Params {
  unsigned* epochs;            ///< of the slot: its turns, which only this device counts
  unsigned raise;              ///< is added to the epochs first
  unsigned behind;             ///< a word is waited for until it is the epoch less this, or later
  unsigned mask;               ///< ranks that are waited for
  unsigned segment;            ///< for reports, counted from 1
  const unsigned* words;       ///< of the ranks that are waited for
  unsigned* tell[kMostRanks];  ///< words of other ranks that become the epoch, or the call, at last; null: none
  unsigned call;               ///< a number that equal arguments of all ranks have in common
  unsigned tells_call;         ///< not 0: what is told is the call
  const unsigned* calls;       ///< of the ranks that are waited for, to be compared; null: not
  unsigned own;                ///< this rank
  unsigned* broken;            ///< not 0: a wait of some rank has ended without an arrival, and none waits any more
  unsigned* broken_of[kMostRanks];  ///< the same of other ranks; null: none
  Missed* missed;  ///< kMostRanks of them, which the host reads, then one whose segment is another rank's word
  unsigned long long limit_ns;
  int tiles;  ///< 1
};

}  // namespace tj::ops::peer_wait
