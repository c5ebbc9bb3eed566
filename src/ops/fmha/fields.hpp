// The fields that decide a kernel of attention, a row for each; see ops/common/fields.hpp.
//
// Decides how a field is asked for, written in a name and told to the unit. Does not decide which values are legal
// (validate.cpp). Invariant: what FmhaKernel holds is in a row, so that configurations that differ have kernels, keys
// and names that differ.
#pragma once

#include <array>
#include <cstdint>

#include "ops/common/fields.hpp"
#include "ops/common/ranges_field.hpp"
#include "ops/common/walk_field.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/mods.hpp"
#include "ops/fmha/tiles.hpp"

namespace tj::ops {

inline constexpr DType kFmhaTypes[] = {DType::f16, DType::bf16};
inline constexpr const char* kFmhaTypeWords[] = {"f16", "bf16"};
inline constexpr int kFmhaHeadDims[] = {8,   16,  24,  32,  40,  48,  56,  64,  72,  80,  88,  96,  104, 112, 120, 128,
                                        136, 144, 152, 160, 168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256};
inline constexpr const char* kFmhaHeadDimWords[] = {
    "8",   "16",  "24",  "32",  "40",  "48",  "56",  "64",  "72",  "80",  "88",  "96",  "104", "112", "120", "128",
    "136", "144", "152", "160", "168", "176", "184", "192", "200", "208", "216", "224", "232", "240", "248", "256"};
/// Of values; the first stands for that of queries and keys.
inline constexpr int kFmhaValueDims[] = {0,   8,   16,  24,  32,  40,  48,  56,  64,  72,  80,
                                         88,  96,  104, 112, 120, 128, 136, 144, 152, 160, 168,
                                         176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256};
inline constexpr const char* kFmhaValueDimWords[] = {"same", "8",   "16",  "24",  "32",  "40",  "48",  "56",  "64",
                                                     "72",   "80",  "88",  "96",  "104", "112", "120", "128", "136",
                                                     "144",  "152", "160", "168", "176", "184", "192", "200", "208",
                                                     "216",  "224", "232", "240", "248", "256"};
/// The largest power of two in the size of a page, up to the last; the first stands for no pages.
inline constexpr int kFmhaPageSizes[] = {0, 1, 2, 4, 8, 16, 32, 64};
inline constexpr const char* kFmhaPageSizeWords[] = {"none", "1", "2", "4", "8", "16", "32", "64"};
inline std::vector<std::string> fmha_page_size_flags() {
  return {std::begin(kFmhaPageSizeWords), std::end(kFmhaPageSizeWords)};
}
/// Those that most calls have go first.
inline std::vector<std::string> fmha_head_dim_flags() {
  std::vector<std::string> flags = {"64", "128"};
  for (const char* word : kFmhaHeadDimWords)
    if (word != flags[0] && word != flags[1]) flags.emplace_back(word);
  return flags;
}
inline std::vector<std::string> fmha_value_dim_flags() {
  return {std::begin(kFmhaValueDimWords), std::end(kFmhaValueDimWords)};
}

/// Keys of a piece; the first stands for one body for all of an iteration.
inline constexpr int kFmhaPieces[] = {0, 16, 32};
inline constexpr const char* kFmhaPieceWords[] = {"none", "16", "32"};
inline constexpr const char* kFmhaOutputWords[] = {"same", "f32"};
inline constexpr const char* kFmhaBiasWords[] = {"none", "f32", "same"};
/// A feature that most kernels lack: nothing of such a kernel says so.
template <bool FmhaConfig::* kMember>
constexpr Field<FmhaKernel> fmha_feature(const char* name, const char* tag, const char* constant) {
  return {.name = name,
          .get = [](const FmhaKernel& config) { return unsigned{config.*kMember}; },
          .set = [](FmhaKernel& config, unsigned place) { config.*kMember = place != 0; },
          .words = words<kTruth>,
          .bits = 1,
          .flags = {"false", "true", "both"},
          .tag = tag,
          .tagged = [](const FmhaKernel& config) { return config.*kMember; },
          .optional = true,
          .constant = constant,
          .kind = Constant::boolean,
          .constant_where_tagged = true};
}

inline constexpr std::array<Field<FmhaKernel>, 20> kFmhaFields = {
    {{.name = "dtype",
      .get = [](const FmhaKernel& config) { return place_among<kFmhaTypes>(config.dtype); },
      .set = [](FmhaKernel& config, unsigned place) { config.dtype = kFmhaTypes[place]; },
      .words = words<kFmhaTypeWords>,
      .bits = 4,
      .flags = {"f16", "bf16"},
      .defaults = 2,
      .tag = "_%",
      .constant = "Element",
      .kind = Constant::element},
     {.name = "head-dim",
      .get = [](const FmhaKernel& config) { return place_among<kFmhaHeadDims>(config.head_dim); },
      .set = [](FmhaKernel& config, unsigned place) { config.head_dim = kFmhaHeadDims[place]; },
      .words = words<kFmhaHeadDimWords>,
      .bits = 5,
      .defaults = 2,
      .more_flags = fmha_head_dim_flags,
      .tag = "_d%",
      .constant = "kHeadDim",
      .kind = Constant::integer},
     {.name = "causal",
      .get = [](const FmhaKernel& config) { return unsigned{config.causal}; },
      .set = [](FmhaKernel& config, unsigned place) { config.causal = place != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"both", "true", "false"},
      .tag = "_causal",
      .tagged = [](const FmhaKernel& config) { return config.causal; },
      .constant = "kCausal",
      .kind = Constant::boolean},
     {.name = "general-scale",
      .get = [](const FmhaKernel& config) { return unsigned{config.general_scale}; },
      .set = [](FmhaKernel& config, unsigned place) { config.general_scale = place != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_anyscale",
      .tagged = [](const FmhaKernel& config) { return config.general_scale; },
      .constant = "kGeneralScale",
      .kind = Constant::boolean},
     {.name = "rung",
      .get = [](const FmhaKernel& config) { return static_cast<unsigned>(config.rung); },
      .set = [](FmhaKernel& config, unsigned place) { config.rung = static_cast<std::int32_t>(place); },
      .words = fmha_rung_words,
      .also = fmha_rung_numbers,
      .bits = 4,
      .more_flags = fmha_rung_flags,
      .tag = "_%",
      .tagged = [](const FmhaKernel& config) { return config.rung != kNoFmhaRung; },
      .optional = true},
     walk_field<FmhaKernel>(0),
     {.name = "tile",
      .get = [](const FmhaKernel& config) { return static_cast<unsigned>(config.tile); },
      .set = [](FmhaKernel& config, unsigned place) { config.tile = static_cast<int>(place); },
      .words = fmha_tile_words,
      .bits = 6,
      .more_flags = fmha_tile_flags,
      .tag = "_%",
      .tagged = [](const FmhaKernel& config) { return config.tile != kUsualFmhaTile; },
      .optional = true},
     fmha_feature<&FmhaConfig::windowed>("windowed", "_window", "kWindowed"),
     fmha_feature<&FmhaConfig::softcap>("softcap", "_softcap", "kSoftcap"),
     fmha_feature<&FmhaConfig::alibi>("alibi", "_alibi", "kAlibi"),
     fmha_feature<&FmhaConfig::sinks>("sinks", "_sinks", "kSinks"),
     {.name = "value-dim",
      .get = [](const FmhaKernel& config) { return place_among<kFmhaValueDims>(config.value_dim); },
      .set = [](FmhaKernel& config, unsigned place) { config.value_dim = kFmhaValueDims[place]; },
      .words = words<kFmhaValueDimWords>,
      .bits = 6,
      .more_flags = fmha_value_dim_flags,
      .tag = "_v%",
      .tagged = [](const FmhaKernel& config) { return config.value_dim != 0; },
      .optional = true,
      .constant = "kValueDim",
      .kind = Constant::integer,
      .constant_where_tagged = true},
     fmha_feature<&FmhaConfig::varlen>("varlen", "_varlen", "kVarlen"),
     {.name = "page-size",
      .get = [](const FmhaKernel& config) { return place_among<kFmhaPageSizes>(config.page_size); },
      .set = [](FmhaKernel& config, unsigned place) { config.page_size = kFmhaPageSizes[place]; },
      .words = words<kFmhaPageSizeWords>,
      .bits = 4,
      .more_flags = fmha_page_size_flags,
      .tag = "_pages%",
      .tagged = [](const FmhaKernel& config) { return config.page_size != 0; },
      .optional = true},
     {.name = "out",
      .get = [](const FmhaKernel& config) { return unsigned{config.out_f32}; },
      .set = [](FmhaKernel& config, unsigned place) { config.out_f32 = place != 0; },
      .words = words<kFmhaOutputWords>,
      .bits = 1,
      .flags = {"same", "f32"},
      .tag = "_to_%",
      .tagged = [](const FmhaKernel& config) { return config.out_f32; },
      .optional = true,
      .constant = "kOutF32",
      .kind = Constant::boolean,
      .constant_where_tagged = true},
     fmha_feature<&FmhaConfig::packed>("packed", "_packed", "kPacked"),
     {.name = "bias",
      .get = [](const FmhaKernel& config) { return static_cast<unsigned>(config.bias); },
      .set = [](FmhaKernel& config, unsigned place) { config.bias = static_cast<FmhaBias>(place); },
      .words = words<kFmhaBiasWords>,
      .bits = 2,
      .flags = {"none", "f32", "same"},
      .tag = "_bias_%",
      .tagged = [](const FmhaKernel& config) { return config.bias != FmhaBias::none; },
      .optional = true,
      .constant = "kBias",
      .kind = Constant::place,
      .constant_where_tagged = true},
     ranges_field<FmhaKernel>(),
     {.name = "mods",
      .get = [](const FmhaKernel& config) { return mods_number(config); },
      .set = [](FmhaKernel& config, unsigned place) { set_mods_number(config, place); },
      .words = mods_words,
      .bits = kOwnTextBits,
      .tagged = [](const FmhaKernel&) { return false; },
      .optional = true},
     {.name = "pieces",
      .get = [](const FmhaKernel& config) { return place_among<kFmhaPieces>(config.pieces); },
      .set = [](FmhaKernel& config, unsigned place) { config.pieces = kFmhaPieces[place]; },
      .words = words<kFmhaPieceWords>,
      .bits = 2,
      .flags = {"none", "16", "32"},
      .tag = "_pieces%",
      .tagged = [](const FmhaKernel& config) { return config.pieces != 0; },
      .optional = true,
      .constant = "kPieceKeys",
      .kind = Constant::integer,
      .constant_where_tagged = true}}};

}  // namespace tj::ops
