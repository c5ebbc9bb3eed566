// Attention forward as an op: requests, graph, launch.
//
// kernel.cpp decides requests by the table of fields.hpp, mask.cpp what a call's mask is, scores.cpp what its scale,
// softcap, ALiBi and sinks are, sequences.cpp which rows are whose, rungs.cpp the ladder, tiles.cpp which tile a call
// takes,
// plan.cpp launch parameters, validate.cpp what is legal. family.cpp says which family serves an arch. Tiles, nodes and
// costs are those of sm90.cpp (products of warpgroups), sm80.cpp (a warp's instructions), amd.cpp (a wave's;
// warps_builder.hpp is of both) and sm100.cpp (tensor memory).
#pragma once

#include <algorithm>
#include <array>
#include <numeric>

#include <tilejit/fmha.hpp>

#include "ops/common/ranges_field.hpp"
#include "ops/common/tunable.hpp"
#include "ops/common/walk_field.hpp"
#include "ops/fmha/rungs.hpp"
#include "ops/op.hpp"

namespace tj::ops {

const Op& fmha_op();

/// The descriptor that a tj_fmha_args stands for.
FmhaArgs fmha_from_c(const void* structure);

/// The choice of a kernel: what a user configures, and the rung of the ladder that holds the kernel back.
struct FmhaKernel : FmhaConfig {
  FmhaKernel() = default;
  FmhaKernel(const FmhaConfig& config, int of_ladder = kNoFmhaRung) : FmhaConfig(config), rung(of_ladder) {}
  int rung = kNoFmhaRung;  ///< in fmha_rungs()
  WalkChoice walk = WalkChoice::usual;
  int tile = 0;  ///< in fmha_tiles()
  RangesChoice ranges = RangesChoice::usual;
  int pieces = 0;  ///< keys of a piece whose weights and products with values are nodes; 0: one node does all
};

/// Elements of a row of values and of o.
inline int fmha_value_dim(const FmhaConfig& config) {
  return config.value_dim != 0 ? config.value_dim : config.head_dim;
}

/// The largest power of two in the size of a page, at most 64: what decides a kernel. 0 of no pages.
inline int fmha_page_kind(std::int64_t page_size) {
  return static_cast<int>(std::min<std::int64_t>(page_size & -page_size, 64));
}
/// Rows of a box of keys in pages: it divides a page and a block of keys.
inline int fmha_box_rows(std::int64_t page_size, int block_n) { return std::gcd(fmha_page_kind(page_size), block_n); }

/// The choices of a kernel beside its configuration.
struct FmhaChoice {
  int rung = kNoFmhaRung;
  WalkChoice walk = WalkChoice::usual;
  int tile = 0;
  int parts = 0;  ///< of the keys, each for blocks of its own, by a kernel that packs heads; 0: a kernel that does not
  RangesChoice ranges = RangesChoice::usual;
  int pieces = 0;  ///< FmhaKernel::pieces, multiples of sixteen
  /// The choice in one number, as Op has choices.
  int number() const {
    return parts << 22 | tile << 16 | static_cast<int>(ranges) << 14 | static_cast<int>(walk) << 8 | pieces << 2 | rung;
  }
  static FmhaChoice of(int number) {
    return {number & 0xf, static_cast<WalkChoice>(number >> 8 & 0x3f),   number >> 16 & 0x3f,
            number >> 22, static_cast<RangesChoice>(number >> 14 & 0x3), number >> 2 & 0x30};
  }
};

/// The request of a kernel; throws tj::Error(argument) for a head dim, dtype or rung that is not supported.
Request fmha_request(const FmhaKernel& config);

/// Sizes of a call, each at most 2^30.
struct FmhaSizes {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1;
  std::int64_t sequences = 0;  ///< with lists: queries are those of all of them, keys the most that one can have
};
FmhaSizes fmha_sizes(const FmhaArgs& args);
/// The kernel of a call whose walk and tile are the usual ones.
FmhaKernel fmha_kernel(const FmhaArgs& args);
/// A problem whose walk and tile may have been measured.
ProblemKey fmha_problem_key(const FmhaKernel& kernel, const FmhaSizes& sizes);
FmhaSizes fmha_sizes(const ProblemKey& problem);
/// Measurements that choose a walk and a tile; a problem's key is the kernel and its sizes.
const Tunable& fmha_tunable();

/// The kernel in 64 bits, which a hot call looks up.
std::uint64_t fmha_small_key(const FmhaKernel& config);

/// The needs of each kind of its node bodies: what it asks of an arch.
const std::vector<arch::Needs>& fmha_needs();
/// All tile shapes that fit the arch.
std::vector<Candidate> fmha_candidates(const FmhaKernel& config, const arch::Arch& arch);

/// Numbers of its kernel that a launch must know.
struct FmhaLaunch {
  int rows_per_block = 128, block_n = 128;
  bool bulk_copies = true;  ///< by tensor maps
  bool walks = false;       ///< blocks do tile after tile; else one each
  int staged_rows = 0;      ///< of o that a box brings out of shared memory; 0: stores from registers
  int section_kb = 0;       ///< keys and values of the last heads, whose tiles are mixed; 0: no heads' tiles are
};
inline constexpr std::array kFmhaGeometry = {geometry_field<&FmhaLaunch::rows_per_block>("block_rows", 1),
                                             geometry_field<&FmhaLaunch::block_n>("block_n", 1),
                                             geometry_field<&FmhaLaunch::bulk_copies>("bulk_copies"),
                                             geometry_field<&FmhaLaunch::walks>("walks"),
                                             geometry_field<&FmhaLaunch::staged_rows>("staged_rows"),
                                             geometry_field<&FmhaLaunch::section_kb>("section_kb")};
/// parts: FmhaChoice::parts.
void fmha_plan(const FmhaArgs& args, const FmhaLaunch& kernel, LaunchPlan& plan, int parts = 0);

}  // namespace tj::ops
