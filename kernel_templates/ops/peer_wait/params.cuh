// Parameters of a wait for other ranks, by value: written by the host, read by the device.
#pragma once

#include "types.cuh"

namespace tj::ops::peer_wait {

inline constexpr int kMostRanks = 32;  ///< a lane each

inline constexpr unsigned kOtherCall = 0xfffffffeu;

/// The end of a rank's wait that ended without an arrival.
struct Missed {
  unsigned segment;  ///< counted from 1; 0: the rank has come; kOtherCall: it came with other arguments
  unsigned epoch;
};

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
  unsigned* broken;            ///< not 0: a wait has ended without an arrival, and none waits any more
  Missed* missed;              ///< kMostRanks of them, which the host reads
  unsigned long long limit_ns;
  int tiles;  ///< 1
};

}  // namespace tj::ops::peer_wait
