// A wait for other ranks that ends: the body of the graph's node, for every family.
//
// Decides what a lane does for its rank: it counts the slot's turns, waits for the rank's word, compares calls, and
// tells the rank.
// Invariant: a wait ends, with an arrival or with the time limit, and what follows in the stream runs either way.
// Epochs wrap: they are compared by their difference.
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

/// Waits end from now on: the rank is reported.
TJ_DEVICE void report(const Params& params, u32 rank, u32 epoch, u32 segment) {
  params.missed[rank].epoch = epoch;
  dev::store_system(&params.missed[rank].segment, segment);
  dev::store_system(params.broken, 1);
}

/// Ends when the word has come to the epoch or passed it, or when the time is over: then the rank is reported. Has the
/// rank come?
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
  if (params.tell[rank] != nullptr) dev::store_system(params.tell[rank], params.tells_call != 0 ? params.call : epoch);
}

}  // namespace tj::ops::peer_wait
