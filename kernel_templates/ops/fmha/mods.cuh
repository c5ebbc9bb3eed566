// Texts of a user that change scores, hide keys and bound them, as Config holds them; and the numbers that they read.
//
// Decides what a text is told and which of its answers count. Does not decide the texts: Config has them as functions
// score_mod, mask_mod and key_range (src/ops/fmha/mods.cpp). Positions never leave a sequence: rows and keys that only
// fill a block are told as the last there is. Invariant: a kernel without texts has nothing of this.
#pragma once

#include "ops/fmha/params.cuh"
#include "ops/text_params.cuh"

namespace tj::ops::fmha {

/// The buffer of a call's texts.
struct ModParams : TextParams {
  TJ_DEVICE ModParams(const Params& params) : TextParams(params.mod_params, params.last_mod_param) {}
};

/// Queries [q0, q1) of a tile, by their places among the keys.
struct QueryPlaces {
  int q0, q1;
};

/// Keys that a text says some of the queries see, and among them those that all of them see.
struct KeyRanges {
  int k0, k1, all0, all1;
};

/// Asks the text key_range for one head.
template <class C>
TJ_DEVICE KeyRanges ranges_of(const Params& params, int batch, int head, const QueryPlaces& queries, int keys) {
  KeyRanges ranges = {0, keys, 0, 0};
  C::key_range(batch, head, queries.q0, queries.q1, ModParams(params), ranges.k0, ranges.k1, ranges.all0, ranges.all1);
  ranges.k0 = max(0, ranges.k0);
  ranges.k1 = min(keys, ranges.k1);
  return ranges;
}

/// Blocks of keys for heads [first, end), which share them: those that one of them sees, and those that all do.
template <class C>
TJ_DEVICE KeyRanges ranges_of_heads(const Params& params, int batch, int first, int end, const QueryPlaces& queries,
                                    int keys) {
  KeyRanges all = ranges_of<C>(params, batch, first, queries, keys);
#pragma unroll 1
  for (int head = first + 1; head < end; ++head) {
    const KeyRanges own = ranges_of<C>(params, batch, head, queries, keys);
    if (own.k0 < own.k1) {
      const bool none = all.k0 >= all.k1;
      all.k0 = none ? own.k0 : min(all.k0, own.k0);
      all.k1 = none ? own.k1 : max(all.k1, own.k1);
    }
    all.all0 = max(all.all0, own.all0);
    all.all1 = min(all.all1, own.all1);
  }
  return all;
}

}  // namespace tj::ops::fmha
