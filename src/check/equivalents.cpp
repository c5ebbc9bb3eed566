// The list; see equivalents.hpp.
#include "check/equivalents.hpp"

namespace tj::check {
namespace {

// Reasons that several entries share. Without such a wait the model reports nothing on any path, because its thread
// knows the same otherwise. The model goes by clocks, not by the order that a run happened to take. Each entry says
// where that knowledge comes from.
constexpr const char* kFencedBefore =
    "the fence before the product in front of it covers its registers too: between that fence and this product nothing "
    "but matrix instructions touches them";

constexpr const char* kClosedByNext =
    "no wait is for this group alone: its product becomes part of the group that the next commit closes, and the next "
    "wait is for all";
constexpr const char* kCopiesBehindStore =
    "the thread that stores d copies the next tile's operands, too, behind its wait for the store; all warps wait for "
    "these operands before they stage d again";

constexpr const char* kTurnsOfPlace =
    "the other value in this place is filled behind the last read of this one, and whoever fills the place waits for "
    "the other one's end as well";
constexpr const char* kReadBeforeSync =
    "lanes read the slot before their factors are handed on, which syncs the warp; behind that only the matrix unit "
    "reads it, for all of a warpgroup at once";
constexpr const char* kTokensBehindStore =
    "tokens came into this place behind the store of what lay there, and all warps have waited for these tokens";

// The thread that stores d waits for ring d0 full in each tile. Each warp arrives there behind its last load of sums
// and that load's own wait, and all products are done before these loads. So the warp that frees knows all of it.
constexpr const char* kFreedBehindLoads =
    "the warp that frees the columns has waited for ring d0 in its last tile, where every warp arrives behind its last "
    "load of sums; without a tile nobody has used them";

constexpr Equivalent kEquivalents[] = {
    {"fmha_", "steady: fence before pv.0", kFencedBefore},
    {"fmha_", "steady, fast variants: fence before pv.0", kFencedBefore},
    {"fmha_*_d256", "steady: fence before qk.0", kFencedBefore},
    {"fmha_*_d256", "steady, fast variants: fence before qk.0", kFencedBefore},
    {"fmha_*_d256", "steady: commit pv.0", kClosedByNext},
    {"fmha_*_d256", "steady, fast variants: commit pv.0", kClosedByNext},
    {"fmha_*_d256", "prologue: wait ring v empty", kTurnsOfPlace},
    {"fmha_*_d256", "tile end: wait ring o0 empty", kTurnsOfPlace},
    {"gemm_", "role compute0, loop: fence before mma.1", kFencedBefore},
    {"chunk_o_", "steady: fence before pv.0", kFencedBefore},
    {"chunk_o_", "steady: fence before qh.0", kFencedBefore},
    {"chunk_o_", "steady: commit qh.0", kClosedByNext},
    {"gemm_*_v1", "role compute0, short: fence before mma.1", kFencedBefore},
    {"gemm_*_v1", "role compute0, short: commit mma.0", kClosedByNext},
    {"gemm_*_v2", "role compute0, loop: commit mma.0", kClosedByNext},
    {"gemm_*_v4", "role compute0, tile end: wait ring d0 empty", kCopiesBehindStore},
    {"gemm_*_v5", "role compute0, tile end: wait ring d0 empty", kCopiesBehindStore},
    {"gemm_*_v6", "role compute0, tile end: wait ring d0 empty", kCopiesBehindStore},
    {"gemm_*_v4", "end: block sync, tensor memory is used no more", kFreedBehindLoads},
    {"gemm_*_v5", "end: block sync, tensor memory is used no more", kFreedBehindLoads},
    {"gemm_*_v6", "end: block sync, tensor memory is used no more", kFreedBehindLoads},
    {"chunk_wu_", "steady: warp sync before release of ring chunk",
     "lanes read the slot before their weights are handed back, which syncs the warp; behind that only the matrix unit "
     "reads it, for all of a warpgroup at once"},
    {"delta_chunks_solve", "steady: wait ring k empty", kTurnsOfPlace},
    {"delta_chunks_solve", "steady: wait ring q empty", kTurnsOfPlace},
    {"delta_chunks_solve", "steady: wait ring weights empty", kTokensBehindStore},
    {"delta_chunks_solve", "steady: wait ring matrix empty", kTokensBehindStore},
    {"delta_chunks_solve", "steady: fence before multiply_queries", kFencedBefore},
    {"delta_chunks_solve*_d64", "steady: warp sync before release of ring q", kReadBeforeSync},
    {"delta_chunks_solve*_d128", "steady: warp sync before release of ring q", kReadBeforeSync},
    {"fmha_", "tile end: warp sync before release of ring q",
     "every tile has keys, and then only the matrix unit reads the slot, for all of a warpgroup at once: a lane that "
     "has waited for the group knows it of the other lanes' parts"},
};

bool names(std::string_view pattern, std::string_view kernel) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return kernel.starts_with(pattern);
  return kernel.starts_with(pattern.substr(0, star)) && kernel.ends_with(pattern.substr(star + 1));
}

}  // namespace

std::span<const Equivalent> equivalents() { return kEquivalents; }

const Equivalent* equivalent_of(std::string_view kernel, std::string_view mutant) {
  for (const Equivalent& each : kEquivalents)
    if (names(each.kernels, kernel) && mutant.ends_with(each.mutant)) return &each;
  return nullptr;
}

}  // namespace tj::check
