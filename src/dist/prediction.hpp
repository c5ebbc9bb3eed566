// Times of a rank's ways through attention over a split sequence, from the bytes that travel and the products that are
// made.
//
// Decides when keys of other ranks are gathered among the rank's own, and when its own rows are attended by themselves
// first. Rates come from the arch's facts, which are equal on all ranks. Invariant: a pure function of its arguments,
// as senders must come to a receiver's decision.
#pragma once

#include <vector>

#include "arch/arch.hpp"

namespace tj::dist {

/// Rates of a rank's GPU and of its link, one way.
struct Rates {
  double link_bytes_per_s = 0;
  double link_s = 0;              ///< beside its rate: a copy's start, the word behind it, the wait for that
  double memory_bytes_per_s = 0;  ///< read and written together
  double attention_flops_per_s = 0, product_flops_per_s = 0;
  double processors = 1;
};
Rates rates_of(const arch::Arch& arch);

/// A call of attention behind others.
struct Step {
  double flops = 0;
  double bytes_before = 0;  ///< that have come from other ranks, of those that come one behind the other
};

/// A rank's part of a call.
struct Load {
  std::vector<Step> whole;      ///< over keys that are gathered in the sequence's order, the rank's own among them
  std::vector<Step> own_first;  ///< over the rank's own keys, then over those of others
  double tile_flops = 0;        ///< of a tile over the rank's own rows: a launch ends with half of one idle
  double own_bytes = 0;         ///< of its own keys and values
  double output_values = 0;     ///< of the rank's rows
};

/// Seconds from the first copy to the last result. own_first has one launch more and merges two f32 results.
struct Predicted {
  double whole_s = 0, own_first_s = 0;
};
Predicted predict(const Rates& rates, const Load& load);

/// Seconds of merging so many f32 states of an output, which attention wrote.
double merging_s(const Rates& rates, int states, double output_values);

/// The busiest rank's part of a call whose heads are exchanged, in bytes and products.
struct HeadsLoad {
  double bytes_in = 0;    ///< rows of queries, keys and values, from or to other ranks
  double bytes_back = 0;  ///< rows of outputs
  double flops = 0;       ///< of the rank's heads over all rows
  double own_bytes = 0;   ///< that are copied inside the rank's memory
};
/// Seconds: the products wait for all bytes, and these for all products.
double heads_s(const Rates& rates, const HeadsLoad& load);

/// Rows of other ranks beside a product: each rank's a shard of so many pieces, which travel by themselves.
struct Shards {
  int count = 0, pieces = 1;
  double flops = 0, bytes = 0;  ///< of a shard
  double pass_bytes = 0;        ///< that a pass behind the own products moves; 0: there is none
};
/// Launches of a shard of others' rows, and of the rank's own.
struct ScatterLaunches {
  int sent = 1, own = 1;
};
/// Seconds of a product whose rows are gathered, the rank's own first, with so many launches for each shard.
double gather_s(const Rates& rates, const Shards& shards, double own_flops, int launches);
/// The fewest that are predicted to be fastest.
int gather_launches(const Rates& rates, const Shards& shards, double own_flops);
/// Seconds of a product whose sums are scattered, the rank's own rows last. These wait
/// for what they add where there are two ranks.
double scatter_s(const Rates& rates, const Shards& shards, ScatterLaunches launches);
ScatterLaunches scatter_launches(const Rates& rates, const Shards& shards);

}  // namespace tj::dist
