// A wait for other ranks that ends: the body of the graph's node, for every family.
//
// Decides what a lane does for its rank. The lane counts the slot's turns, waits for the rank's word and compares
// calls. It looks whether the group is broken, and tells the rank. Invariant: a wait ends, with an arrival or with the
// time limit, and what follows in the stream runs either way. No rank takes bytes for good ones that came behind a wait
// which ended without an arrival. Epochs wrap: they are compared by their difference.
#pragma once

#include "arch/nvidia_peers.cuh"
#include "ops/peer_wait/params.cuh"

namespace tj::ops::peer_wait {

using dev::first_tile;
using dev::next_tile;
using dev::tile_count;
using dev::u32;

struct Tile {
  int index;
  bool valid;
  int trip_count;
};
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  return {index, index < params.tiles, 1};
}

template <class C_>
struct Watcher {
  using C = C_;
  const Params& params;
  TJ_DEVICE Watcher(const Params& p, int) : params(p) {}
};

/// Other ranks learn it before any later work of this one, whose copies wait for nobody any more.
TJ_DEVICE void tell_broken(const Params& params, u32 word) {
  for (int rank = 0; rank < kMostRanks; ++rank)
    if (params.broken_of[rank] != nullptr) dev::store_system(params.broken_of[rank], word);
}

/// The first word at a place stays: later turns of a broken group, which were enqueued before, have later epochs.
TJ_DEVICE void note(Missed& missed, u32 epoch, u32 segment) {
  if (dev::load_system(&missed.segment) != 0) return;
  missed.epoch = epoch;
  dev::store_system(&missed.segment, segment);
}

/// Waits end from now on, those of other ranks too.
TJ_DEVICE void report(const Params& params, u32 rank, u32 epoch, u32 segment) {
  const u32 word = (params.own + 1) | rank << kRankBits | segment << 2 * kRankBits;
  note(params.missed[rank], epoch, segment);
  dev::store_system(params.broken, word);
  tell_broken(params, word);
}

/// Has the rank come? The wait ends when the word has come to the epoch or passed it, or when the group is broken. It
/// ends, too, when the time is over, and the rank is reported.
TJ_DEVICE bool wait_for(const Params& params, u32 rank, u32 epoch) {
  const dev::u64 begin = dev::global_time();
  while (static_cast<int>(dev::load_system(params.words + rank) - epoch) < 0) {
    if (dev::load_system(params.broken) != 0) return false;
    if (dev::global_time() - begin > params.limit_ns) {
      report(params, rank, epoch, params.segment);
      return false;
    }
    dev::rest();
  }
  return true;
}

/// A rank whose group another one broke says so, and tells the others: bytes may have come that it did not wait for.
TJ_DEVICE void look_at_broken(const Params& params, u32 epoch) {
  const u32 word = dev::load_system(params.broken);
  if (word == 0) return;
  tell_broken(params, word);
  if ((word & kRankMask) != params.own + 1) note(params.missed[kMostRanks], epoch, word);
}

template <class C>
TJ_DEVICE void await_ranks(Watcher<C>& watcher, const Tile&, int) {
  const Params& params = watcher.params;
  const u32 rank = dev::lane_index();
  if (rank >= static_cast<u32>(kMostRanks)) return;
  u32* const own = params.epochs + rank;
  const u32 epoch = dev::load_system(own) + params.raise;
  if (params.raise != 0) dev::store_system(own, epoch);
  if ((params.mask >> rank & 1u) != 0 && wait_for(params, rank, epoch - params.behind) && params.calls != nullptr &&
      dev::load_system(params.calls + rank) != params.call)
    report(params, rank, epoch, kOtherCall);
  look_at_broken(params, epoch);
  if (params.tell[rank] != nullptr) dev::store_system(params.tell[rank], params.tells_call != 0 ? params.call : epoch);
}

}  // namespace tj::ops::peer_wait
