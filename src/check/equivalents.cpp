// The list; see equivalents.hpp.
#include "check/equivalents.hpp"

namespace tj::check {
namespace {

// What several entries say. A wait without which the model reports nothing on any path is one whose knowledge its thread has otherwise: the
// model goes by clocks, not by the order that a run happened to take. Each entry says where that knowledge comes from.
constexpr const char* kReleasedTogether =
    "the consumers hand back a slot of the other ring after the product that read both, in the order of the waits: who has waited for that one knows that this one is free";
constexpr const char* kReleasedBefore =
    "the role has waited for a ring with fewer slots, which the same consumers hand back after they are done with this one: what this wait would tell, it knows";
constexpr const char* kFencedBefore =
    "the fence before the product in front of it covers its registers too: nothing but matrix instructions stands between that fence and this product";
constexpr const char* kFirstFillings =
    "steps of this variant are the first of a tile and fewer than the ring has slots, and a block does one tile: the slot has never been filled";
constexpr const char* kLastTurn =
    "the arrival is made all the same, so that the barrier is not left in use; behind it the role does nothing that the other could disturb";

constexpr Equivalent kEquivalents[] = {
    {"", "off: registers of load", "what a role gives back is missed only where another's growth waits for it, which would be a deadlock: here enough is free without"},
    {"gemm_", "off: role load, steady: wait ring b empty", kReleasedTogether},
    {"gemm_f16_kk_64x32x128", "off: role load, steady: wait ring a empty", kReleasedTogether},
    {"chunk_o_r1", "off: role load, steady: wait ring qk empty", kReleasedBefore},
    {"chunk_o_r2", "off: role load, steady: wait ring qk empty", kReleasedBefore},
    {"chunk_o_", "off: role load, steady: wait ring v0 empty", kReleasedBefore},
    {"chunk_o_", "off: role load, steady: wait ring v1 empty", kReleasedBefore},
    {"chunk_o_", "off: role load, steady: wait ring v2 empty", kReleasedBefore},
    {"fmha_", "off: role load, prologue: wait ring k empty",
     "the role has waited for the slot of q, which consumers hand back at a tile's end, after all of the tile's keys: the first slot of the next tile is free"},
    {"fmha_", "steady: fence before pv.0", kFencedBefore},
    {"fmha_", "steady, fast variants: fence before pv.0", kFencedBefore},
    {"chunk_o_", "steady: fence before pv.0", kFencedBefore},
    {"chunk_o_", "steady: fence before qh.0", kFencedBefore},
    {"chunk_o_", "steady: commit qh.0", "no wait is for this group alone: its product becomes part of the group that the next commit closes, and the next wait is for all"},
    {"fmha_", "weakened: role compute0/compute1: takes back the last turn", kLastTurn},
    {"fmha_", "weakened: role compute0/compute1/compute2: takes back the last turn", kLastTurn},
    {"fmha_", "tile end: warp sync before release of ring q",
     "only the matrix unit reads the slot, for all of a warpgroup at once: a lane that has waited for the group knows it of the other lanes' parts"},
    {"fmha_", "off: role compute0, steady: wait ring k empty", kFirstFillings},
    {"fmha_", "off: role compute0, steady: wait ring v empty", kFirstFillings},
    {"gemm_f16_kk_64x256x64_v", "off: role compute0, loop: proxy fence after read_b", "the same threads read a behind b, and the fence after that covers both before either ring is published last"},
};

}  // namespace

std::span<const Equivalent> equivalents() { return kEquivalents; }

const Equivalent* equivalent_of(std::string_view kernel, std::string_view mutant) {
  for (const Equivalent& each : kEquivalents)
    if (kernel.starts_with(each.kernels) && mutant.ends_with(each.mutant)) return &each;
  return nullptr;
}

}  // namespace tj::check
