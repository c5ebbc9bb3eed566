// Rows of queries between matrix instructions of a warp or of a warpgroup: attention does the same to both.
//
// Decides masks and the online softmax of sixteen rows in a warp's registers, by the rules of softmax.cuh. Does not
// decide which instruction multiplies, nor what is copied how (<family>.cuh). Invariant: touches the registers that it
// is given, no memory.
#pragma once

#include "ops/fmha/softmax.cuh"

namespace tj::ops::fmha {

/// Shared parts are what the scores of a thread's row lack: of slopes that are folded, the part of the row and of the
/// thread's first key.
template <class C, bool = kSharesParts<C>>
struct SharedParts {
  TJ_DEVICE void share(int, float) {}
  TJ_DEVICE float shared(int) const { return 0.0f; }
};
template <class C>
struct SharedParts<C, true> {
  float parts[2];
  TJ_DEVICE void share(int half, float part) { parts[half] = part; }
  TJ_DEVICE float shared(int half) const { return parts[half]; }
};

/// Sixteen query rows of one warp. A thread holds rows lane / 4 and lane / 4 + 8, columns 8j + 2(lane % 4) + {0, 1}.
/// Matrix instructions of a warp and of a warpgroup both leave sums so.
template <class C>
struct Rows : SharedParts<C> {
  float scores[C::kBlockN / 2];
  u32 weights[C::kBlockN / 4];
  float output[kOutputs<C> / 2];
  float row_max[2], row_sum[2], correction[2];
};

template <class C>
TJ_DEVICE void clear(Rows<C>& rows) {
#pragma unroll
  for (int i = 0; i < kOutputs<C> / 2; ++i) rows.output[i] = 0.0f;
  rows.row_max[0] = rows.row_max[1] = dev::minus_infinity();
  rows.row_sum[0] = rows.row_sum[1] = 0.0f;
}

/// The key of the thread's first column.
template <class C>
TJ_DEVICE int first_key_of_thread(const Tile& tile, int i) {
  return first_key<C>(tile, i) + static_cast<int>(dev::lane_index() & 3u) * 2;
}

/// Changes the thread's scores by what knows their rows, key by key from the thread's first on.
template <class C, class Known, class Change>
TJ_DEVICE void each_score(Rows<C>& rows, const Known (&halves)[2], const Change& change) {
  constexpr bool kTogether = MaskMod<C>::kOn || ScoreMod<C>::kOn;  // what a text reads of a key is read once
  constexpr int kOfRow = C::kBlockN / 4;
#pragma unroll
  for (int n = 0; n < 2 * kOfRow; ++n) {
    const int half = kTogether ? n % 2 : n / kOfRow, column = kTogether ? n / 2 : n % kOfRow;
    float& score = rows.scores[4 * (column / 2) + 2 * half + column % 2];
    score = change(halves[half], score, 8 * (column / 2) + column % 2);
  }
}

/// Softcap. Products that are all small against the cap need no special function; a warp's threads agree on it.
template <class C>
TJ_DEVICE void cap_scores(Rows<C>& rows, const Params& params) {
  float largest[4] = {};
#pragma unroll
  for (int j = 0; j < C::kBlockN / 2; ++j)
    largest[j % 4] = dev::maximum(largest[j % 4], dev::magnitude(rows.scores[j]));
  const float all = dev::maximum(dev::maximum(largest[0], largest[1]), dev::maximum(largest[2], largest[3]));
  if (dev::any_in_warp(all > params.cap_small)) {
#pragma unroll
    for (int j = 0; j < C::kBlockN / 2; ++j) rows.scores[j] = tanh_of_powers(rows.scores[j] * params.cap_powers);
  } else {
#pragma unroll
    for (int j = 0; j < C::kBlockN / 2; ++j) rows.scores[j] = small_tanh(params, rows.scores[j]);
  }
}

/// Keys of a block beside the rows of a warp.
enum class Side { before, behind, both };
template <class C>
TJ_DEVICE Side side_of(const Params& params, const Tile& tile, int i, int row) {
  if (C::kCausal) return Side::before;  // those behind are hidden
  const Mask mask = mask_of<C>(params, tile);
  const int first = row - static_cast<int>(dev::lane_index() / 4u), from = first_key<C>(tile, i);
  return from + C::kBlockN <= mask.place_of(first) + 1 ? Side::before
         : from >= mask.place_of(first + 15)           ? Side::behind
                                                       : Side::both;
}

/// Products, or what a softcap made of them, become scores. `row` is the thread's first.
template <class C, class Variant>
TJ_DEVICE void change_scores(Rows<C>& rows, const HeadNumbers<C>& head, const Params& params, const Tile& tile, int i,
                             int row, Variant) {
  const int from = first_key_of_thread<C>(tile, i);
  RowScores<C> halves[2] = {RowScores<C>(params, head, tile, row, from),
                            RowScores<C>(params, head, tile, row + 8, from)};
  const Side side = side_of<C>(params, tile, i, row);
  const bool beside = kSharesParts<C> && side != Side::both;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (beside && side == Side::behind) halves[half].turn();
    rows.share(half, beside ? halves[half].shared() : 0.0f);
  }
  if (beside) {
    each_score(rows, halves, [](const auto& scores, float score, int key) { return scores.beside(score, key); });
  } else {
    each_score(rows, halves, [](const auto& scores, float score, int key) { return scores.behind_cap(score, key); });
  }
  if constexpr (MaskMod<C>::kOn && !Variant::kFast) {
    if (!asks_mask_mod<C>(tile, first_key<C>(tile, i))) return;
    each_score(rows, halves, [](const auto& scores, float score, int key) { return scores.seen(score, key); });
  }
}

/// Hides the scores of keys that a row does not see. `row` is the thread's first.
template <class C>
TJ_DEVICE void mask(Rows<C>& rows, const Params& params, const Tile& tile, int i, int row) {
  const int first = row - static_cast<int>(dev::lane_index() / 4u);
  if (!masks<C>(params, tile, i, first, first + 15)) return;
  const int from = first_key_of_thread<C>(tile, i);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const RowMask<C> seen(params, tile, row + half * 8, from);
#pragma unroll
    for (int j = 0; j < C::kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = rows.scores[4 * j + 2 * half + e];
        score = seen.of(score, 8 * j + e);
      }
    }
  }
}

/// The largest score of each of the thread's two rows. Four chains a row: one long chain would expose its latency.
template <class C>
TJ_DEVICE void row_maximum(const Rows<C>& rows, float (&largest)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float chain[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) chain[c] = rows.scores[4 * (c / 2) + 2 * half + c % 2];
#pragma unroll
    for (int j = 2; j < C::kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& c = chain[2 * (j % 2) + e];
        c = dev::maximum(c, rows.scores[4 * j + 2 * half + e]);
      }
    }
    float value = dev::maximum(dev::maximum(chain[0], chain[1]), dev::maximum(chain[2], chain[3]));
    if constexpr (kSharesParts<C>) value += rows.shared(half);
    value = dev::maximum(value, dev::shuffle_xor(value, 1));
    largest[half] = dev::maximum(value, dev::shuffle_xor(value, 2));
  }
}

/// Masks, and moves each row's reference for its exponents, with the factor for what was gathered with the one before.
template <class Powers, class C, class Variant>
TJ_DEVICE void move_reference(Rows<C>& rows, const HeadNumbers<C>& head, const Params& params, const Tile& tile, int i,
                              int row, Variant variant) {
  if constexpr (C::kGeneralScale) {
#pragma unroll
    for (int j = 0; j < C::kBlockN / 2; ++j) rows.scores[j] *= params.sign;
  }
  if constexpr (Softcap<C>::kOn) cap_scores(rows, params);
  if constexpr (kChangesScores<C>) change_scores(rows, head, params, tile, i, row, variant);
  if constexpr (!Variant::kFast) mask(rows, params, tile, i, row);
  float largest[2];
  row_maximum(rows, largest);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    rows.correction[half] =
        move_to<Powers>(params, moves(params, rows.row_max[half], largest[half]), largest[half], rows.row_max[half]);
  }
}
TJ_DEVICE bool corrects(const float (&correction)[2]) { return correction[0] != 1.0f || correction[1] != 1.0f; }
/// Corrects the output gathered so far.
template <class C>
TJ_DEVICE void correct_output(Rows<C>& rows) {
#pragma unroll
  for (int j = 0; j < kOutputs<C> / 2; ++j) rows.output[j] *= rows.correction[j / 2 % 2];
}

/// Takes differences from the references where one of a warp's references, as a power of two, is so large that one
/// multiply-add would lose what tells its scores apart. Both forms are within 2^-14 of a weight up to there.
template <class C>
TJ_DEVICE void take_differences(Rows<C>& rows, const Params& params, float (&references)[2]) {
  constexpr float kMostFolded = 1024.0f;
  const float largest =
      dev::maximum_or_nan(dev::magnitude(references[0]), dev::magnitude(references[1])) * params.scale_log2;
  if (!dev::any_in_warp(!(largest <= kMostFolded))) return;
#pragma unroll
  for (int j = 0; j < C::kBlockN / 2; ++j) rows.scores[j] -= references[j / 2 % 2];
  references[0] = references[1] = 0.0f;
}

/// Online softmax: scores become weights where they are, the sums and the factor for earlier output follow.
template <class C, class Variant>
TJ_DEVICE void softmax(Rows<C>& rows, const HeadNumbers<C>& head, const Params& params, const Tile& tile, int i,
                       int row, Variant variant) {
  const float scale = params.scale_log2;
  move_reference<PowersOfTwo>(rows, head, params, tile, i, row, variant);
  float references[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float known = Variant::kFast && !kMakesScores<C> ? rows.row_max[half] : finite_reference(rows.row_max[half]);
    references[half] = kSharesParts<C> ? known - rows.shared(half) : known;
  }
  if constexpr (kAnyScores<C>) take_differences(rows, params, references);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float offset = -references[half] * scale;
    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < C::kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = rows.scores[4 * j + 2 * half + e];
        score = dev::exp2_approx(dev::multiply_add(score, scale, offset));
        sums[2 * (j % 2) + e] += score;
      }
    }
    rows.row_sum[half] = rows.row_sum[half] * rows.correction[half] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
}

/// Rounds the weights to the element type and corrects the output gathered so far.
template <class C>
TJ_DEVICE void rescale(Rows<C>& rows) {
#pragma unroll
  for (int j = 0; j < C::kBlockN / 4; ++j)
    rows.weights[j] = dev::pack(typename C::Element{}, rows.scores[2 * j], rows.scores[2 * j + 1]);
  if (dev::any_in_warp(corrects(rows.correction))) correct_output(rows);
}

}  // namespace tj::ops::fmha
