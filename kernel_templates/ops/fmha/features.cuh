// Features of a kernel of attention beside scale and causal mask, as Config names them.
//
// Decides what Config calls a feature. Does not decide what a feature does (mask.cuh, score.cuh). Invariant: a feature
// that Config does not name is off, so that a unit without features has the same text whichever features there are.
#pragma once

namespace tj::ops::fmha {

template <class T>
struct Named {
  using Type = void;
};

#define TJ_FEATURE(Feature, constant)                              \
  template <class C, class = void>                                 \
  struct Feature {                                                 \
    static constexpr bool kOn = false;                             \
  };                                                               \
  template <class C>                                               \
  struct Feature<C, typename Named<decltype(C::constant)>::Type> { \
    static constexpr bool kOn = C::constant;                       \
  };
TJ_FEATURE(Windowed, kWindowed)
TJ_FEATURE(Softcap, kSoftcap)
TJ_FEATURE(Alibi, kAlibi)
TJ_FEATURE(Sinks, kSinks)
TJ_FEATURE(Varlen, kVarlen)
TJ_FEATURE(Packed, kPacked)
TJ_FEATURE(WideOutput, kOutF32)
TJ_FEATURE(ScoreMod, kScoreMod)
TJ_FEATURE(MaskMod, kMaskMod)
TJ_FEATURE(KeyRange, kKeyRange)
TJ_FEATURE(WarpRows, kRowBlocks)  // family sm80
#undef TJ_FEATURE

/// Rows of a box of keys, where they lie in pages: Config names them where they do.
template <class C, class = void>
struct PageRows {
  static constexpr int kRows = 0;
};
template <class C>
struct PageRows<C, typename Named<decltype(C::kPageRows)>::Type> {
  static constexpr int kRows = C::kPageRows;
};
template <class C>
inline constexpr bool kPaged = PageRows<C>::kRows != 0;

/// The type of what is added to scores: 0 none, 1 f32, 2 the element type.
template <class C, class = void>
struct Bias {
  static constexpr int kType = 0;
};
template <class C>
struct Bias<C, typename Named<decltype(C::kBias)>::Type> {
  static constexpr int kType = C::kBias;
};
template <class C>
inline constexpr bool kBiased = Bias<C>::kType != 0;

/// Are scores something else than q k^T times a scale?
template <class C>
inline constexpr bool kChangesScores =
    Softcap<C>::kOn || Alibi<C>::kOn || kBiased<C> || ScoreMod<C>::kOn || MaskMod<C>::kOn;
/// A user makes scores, and may make -inf of all that a row has.
template <class C>
inline constexpr bool kMakesScores = kBiased<C> || ScoreMod<C>::kOn;
/// Scores that a user makes may be of any size, as -1e30 for a key that does not count: differences are taken first.
template <class C>
inline constexpr bool kAnyScores = C::kGeneralScale || kMakesScores<C>;
/// A slope is told in units of what the softmax scales, so that a score takes one multiply-add for it.
template <class C>
inline constexpr bool kFoldsSlopes = Alibi<C>::kOn && !kAnyScores<C>;
/// The reference takes what slopes give all scores of a row and a block. Family sm80 has no registers for it.
template <class C>
inline constexpr bool kSharesParts = kFoldsSlopes<C> && !WarpRows<C>::kOn;
/// A user may hide any key from any row, by a text or by -inf.
template <class C>
inline constexpr bool kHidesAny = kBiased<C> || ScoreMod<C>::kOn || MaskMod<C>::kOn || KeyRange<C>::kOn;

}  // namespace tj::ops::fmha
