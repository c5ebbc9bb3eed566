// The fields that decide a matrix product's kernel, a row for each; see ops/common/fields.hpp.
//
// Decides the order of fields in requests: tunings that are kept on disk are looked up by it. Which kernels differ in
// nothing is canonical()'s to say, which tile suits a problem choose.cpp's. Invariant: canonical kernels that differ
// have another key, another name and another request.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ops/common/end_text.hpp"
#include "ops/common/fields.hpp"
#include "ops/common/walk_field.hpp"
#include "ops/gemm/gemm.hpp"

namespace tj::ops {

inline constexpr const char* kGemmOperandTypes[] = {"f16", "bf16", "e4m3"};
inline constexpr const char* kGemmOutputTypes[] = {"f16", "bf16", "f32", "e4m3"};
inline constexpr const char* kGemmLeftOrders[] = {"k", "m"};
inline constexpr const char* kGemmRightOrders[] = {"k", "n"};
inline constexpr const char* kGemmActivations[] = {"none", "relu", "gelu", "silu", "gelu_tanh"};
inline constexpr const char* kGemmScales[] = {"tensor", "block", "row"};
inline constexpr const char* kGemmGroups[] = {"none", "ends", "counts", "rows", "depths"};
inline constexpr const char* kGemmLeftScaleOrders[] = {"m", "k"};
inline constexpr const char* kGemmRightScaleOrders[] = {"n", "k"};
inline constexpr const char* kGemmLoadColumns[] = {"32", "16", "8"};
inline constexpr const char* kGemmScaleTypes[] = {"f32", "ue8m0"};
inline constexpr const char* kGemmAddendTypes[] = {"same", "f32"};
inline constexpr const char* kGemmActivationsAllowed = "0 (none), 1 (relu), 2 (gelu), 3 (silu), 4 (gelu_tanh)";
/// Names of gemm_tiles() and of gemm_rungs(), in their order.
Words gemm_tile_words();
Words gemm_rung_words();

/// Tiles that are made ahead when nothing is asked for: those that most sizes take.
constexpr bool is_usual(const GemmTile& tile) {
  const bool width = tile.block_n == 32 || tile.block_n == 64 || tile.block_n == 128 || tile.block_n == 256 ||
                     (tile.block_n == 192 && tile.block_m == 128);
  return width && tile.block_m >= 64 && tile.block_m <= 128 && tile.block_k * tile.element_bytes >= 128 &&
         tile.blocks() == 1 && !tile.swapped;
}
/// All tiles, usual ones first.
std::vector<std::string> gemm_tile_flags();
std::vector<std::string> gemm_rung_flags();

inline constexpr std::array<Field<GemmKernel>, 21> kGemmFields = {{
    {.name = "dtype",
     .get =
         [](const GemmKernel& kernel) {
           return kernel.dtype == DType::e4m3 ? 2u : static_cast<unsigned>(kernel.dtype);
         },
     .set = [](GemmKernel& kernel,
               unsigned value) { kernel.dtype = value == 2 ? DType::e4m3 : static_cast<DType>(value); },
     .words = words<kGemmOperandTypes>,
     .bits = 2,
     .flags = {"f16", "bf16", "e4m3"},
     .defaults = 2,
     .tag = "_%",
     .constant = "Element",
     .kind = Constant::element},
    {.name = "out",
     .get = [](const GemmKernel& kernel) { return kernel.quantises() ? 3u : static_cast<unsigned>(kernel.out); },
     .set = [](GemmKernel& kernel,
               unsigned value) { kernel.out = value == 3 ? DType::e4m3 : static_cast<DType>(value); },
     .words = words<kGemmOutputTypes>,
     .bits = 2,
     .flags = {"same", "f16", "bf16", "f32", "e4m3"},
     .set_other = [](GemmKernel& kernel) { kernel.out = kernel.dtype == DType::e4m3 ? DType::bf16 : kernel.dtype; },
     .other = "same",
     .tag = "_%",
     .tagged = [](const GemmKernel& kernel) { return kernel.out != kernel.dtype; },
     .constant = "Output",
     .kind = Constant::element},
    {.name = "a-major",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.left_mn}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.left_mn = value != 0; },
     .words = words<kGemmLeftOrders>,
     .bits = 1,
     .flags = {"k", "m"},
     .tag = "_%",
     .constant = "kLeftMn",
     .kind = Constant::boolean},
    {.name = "b-major",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.right_mn}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.right_mn = value != 0; },
     .words = words<kGemmRightOrders>,
     .bits = 1,
     .flags = {"k", "n"},
     .tag = "%",
     .constant = "kRightMn",
     .kind = Constant::boolean},
    {.name = "bias",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.bias}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.bias = value != 0; },
     .words = words<kTruth>,
     .bits = 1,
     .flags = {"false", "true", "both"},
     .tag = "_bias",
     .tagged = [](const GemmKernel& kernel) { return kernel.bias; },
     .tag_place = 5,
     .constant = "kBias",
     .kind = Constant::boolean},
    {.name = "add-c",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.add_c}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.add_c = value != 0; },
     .words = words<kTruth>,
     .bits = 1,
     .flags = {"false", "true", "both"},
     .tag = "_c",
     .tagged = [](const GemmKernel& kernel) { return kernel.add_c; },
     .tag_place = 4,
     .constant = "kAddC",
     .kind = Constant::boolean},
    {.name = "activation",
     .get = [](const GemmKernel& kernel) { return static_cast<unsigned>(kernel.activation); },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.activation = static_cast<Activation>(value); },
     .words = words<kGemmActivations>,
     .bits = 3,
     .flags = {"none", "relu", "gelu", "silu", "gelu_tanh"},
     .tag = "_%",
     .tagged = [](const GemmKernel& kernel) { return kernel.activation != Activation::none; },
     .tag_place = 6,
     .constant = "kActivation",
     .kind = Constant::place},
    {.name = "d-aligned",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.d_aligned}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.d_aligned = value != 0; },
     .words = words<kTruth>,
     .bits = 1,
     .flags = {"true", "false", "both"},
     .tag = "_rows",
     .tagged = [](const GemmKernel& kernel) { return !kernel.d_aligned; },
     .tag_place = 3},
    {.name = "tile",
     .get = [](const GemmKernel& kernel) { return static_cast<unsigned>(kernel.tile); },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.tile = static_cast<int>(value); },
     .words = gemm_tile_words,
     .bits = 8,
     .defaults = static_cast<std::size_t>(std::count_if(std::begin(kGemmTiles), std::end(kGemmTiles), is_usual)),
     .more_flags = gemm_tile_flags,
     .tag = "_%",
     .tag_place = 1},
    {.name = "parts",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.parts}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel = value != 0 ? of_parts(kernel) : kernel; },
     .words = words<kTruth>,
     .bits = 1,
     .flags = {"false", "true", "both"},
     .tag = "_parts",
     .tagged = [](const GemmKernel& kernel) { return kernel.parts; },
     .optional = true,
     .tag_place = 2,
     .constant = "kParts",
     .kind = Constant::boolean},
    {.name = "rung",
     .get = [](const GemmKernel& kernel) { return static_cast<unsigned>(kernel.rung); },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.rung = static_cast<int>(value); },
     .words = gemm_rung_words,
     .bits = 4,
     .more_flags = gemm_rung_flags,
     .tag = "_%",
     .tagged = [](const GemmKernel& kernel) { return kernel.rung != kNoGemmRung; },
     .optional = true,
     .tag_place = 7},
    walk_field<GemmKernel>(8, true),
    {.name = "scales",
     .get = [](const GemmKernel& kernel) { return static_cast<unsigned>(kernel.scales); },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.scales = static_cast<Scales>(value); },
     .words = words<kGemmScales>,
     .bits = 2,
     .flags = {"tensor", "block", "row"},
     .tag = "_%scales",
     .tagged = [](const GemmKernel& kernel) { return kernel.scales != Scales::tensor; },
     .optional = true,
     .tag_place = 9},
    {.name = "scale-a-major",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.left_scales_k}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.left_scales_k = value != 0; },
     .words = words<kGemmLeftScaleOrders>,
     .bits = 1,
     .flags = {"m", "k"},
     .tag = "_a%",
     .tagged = [](const GemmKernel& kernel) { return kernel.left_scales_k; },
     .optional = true,
     .tag_place = 10},
    {.name = "scale-b-major",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.right_scales_k}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.right_scales_k = value != 0; },
     .words = words<kGemmRightScaleOrders>,
     .bits = 1,
     .flags = {"n", "k"},
     .tag = "_b%",
     .tagged = [](const GemmKernel& kernel) { return kernel.right_scales_k; },
     .optional = true,
     .tag_place = 11},
    {.name = "groups",
     .get = [](const GemmKernel& kernel) { return static_cast<unsigned>(kernel.groups); },
     .set =
         [](GemmKernel& kernel, unsigned value) {
           kernel.groups = static_cast<Groups>(value);
           if (kernel.groups == Groups::depths)  // there is one order
             kernel.left_mn = kernel.right_mn = kernel.dtype != DType::e4m3;
         },
     .words = words<kGemmGroups>,
     .bits = 3,
     .flags = {"ends", "counts", "rows", "depths"},
     .defaults = 3,
     .tag = "_%",
     .tagged = [](const GemmKernel& kernel) { return kernel.groups != Groups::none; },
     .optional = true,
     .tag_place = 12},
    {.name = "gate",
     .get = [](const GemmKernel& kernel) { return static_cast<unsigned>(kernel.gate); },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.gate = static_cast<Activation>(value); },
     .words = words<kGemmActivations>,
     .bits = 3,
     .flags = {"none", "relu", "gelu", "silu", "gelu_tanh"},
     .tag = "_gate_%",
     .tagged = [](const GemmKernel& kernel) { return kernel.gated(); },
     .optional = true,
     .tag_place = 13,
     .constant = "kGate",
     .kind = Constant::place},
    {.name = "scale-type",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.packed_scales}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.packed_scales = value != 0; },
     .words = words<kGemmScaleTypes>,
     .bits = 1,
     .flags = {"f32", "ue8m0"},
     .tag = "_%",
     .tagged = [](const GemmKernel& kernel) { return kernel.packed_scales; },
     .optional = true,
     .tag_place = 14},
    {.name = "load-columns",
     .get = [](const GemmKernel& kernel) { return static_cast<unsigned>(kernel.loads); },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.loads = static_cast<int>(value); },
     .words = words<kGemmLoadColumns>,
     .bits = 2,
     .flags = {"32", "16", "8"},
     .tag = "_ld%",
     .tagged = [](const GemmKernel& kernel) { return kernel.loads != 0; },
     .optional = true,
     .tag_place = 15},
    end_text_field<GemmKernel>(),
    {.name = "c-type",
     .get = [](const GemmKernel& kernel) { return unsigned{kernel.add_f32}; },
     .set = [](GemmKernel& kernel, unsigned value) { kernel.add_f32 = value != 0; },
     .words = words<kGemmAddendTypes>,
     .bits = 1,
     .flags = {"same", "f32"},
     .tag = "_%",
     .tagged = [](const GemmKernel& kernel) { return kernel.add_f32; },
     .optional = true,
     .tag_place = 4,
     .constant = "kAddF32",
     .kind = Constant::boolean,
     .constant_where_tagged = true},
}};

}  // namespace tj::ops
