// The rungs of the matrix product's ladder: constraints on one graph, from a loop that one role runs step by step to
// the op's own kernel; see gemm.hpp.
//
// Decides what each rung leaves to the scheduler, and which sizes it serves. Invariant: no rung has node bodies or a
// graph of its own beyond the kind of its copies; each gives the scheduler at least the freedom of the one before, and
// the last leaves out nothing.
#include "ops/common/tensor_checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/sm100.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr int kAny = 0;

// In order: copies by the role's threads, most slots, most stages, one role, one tile a block, most tiles, most
// iterations, blocks of a cluster.
constexpr GemmRung kRungs[] = {
    {"none", false, kAny, kAny, false, false, kAny, kAny, 1},
    {"v1", true, 1, 1, true, true, 1, 1, 1},
    {"v2", true, 1, 1, true, true, 1, kAny, 1},
    {"v3", true, 1, 1, true, true, kAny, kAny, 1},
    {"v4", false, 1, 1, true, true, kAny, kAny, 1},
    {"v5", false, 2, kAny, true, true, kAny, kAny, 1},
    {"v6", false, 2, kAny, true, false, kAny, kAny, 1},
    {"v7", false, 2, kAny, false, false, kAny, kAny, 1},
    {"v8", false, 4, kAny, false, false, kAny, kAny, 1},
    {"v9", false, 4, kAny, false, false, kAny, kAny, 2},
    {"v10", false, kAny, kAny, false, false, kAny, kAny, 1},
};

/// Of every rung but the last, whose sizes choose it: one consumer. A product in tensor memory has 128 rows, and of a
/// pair of blocks 256.
constexpr GemmTile kTile{64, 256, 64}, kClusterTile{64, 256, 64, 2, 1}, kTensorTile{128, 256, 64},
    kPairTile{128, 256, 64, 2, 1};

int tile_of(const GemmRung& rung, const arch::Arch* arch) {
  constexpr int kOwn = place_of(kTile), kClustered = place_of(kClusterTile), kTensor = place_of(kTensorTile),
                kPair = place_of(kPairTile);
  if (arch != nullptr && gemm_in_tensor_memory(*arch)) return rung.cluster > 1 ? kPair : kTensor;
  return rung.cluster > 1 ? kClustered : kOwn;
}

}  // namespace

std::span<const GemmRung> gemm_rungs() { return kRungs; }

const GemmRung& gemm_rung(const GemmKernel& kernel) { return kRungs[kernel.rung]; }

void set_gemm_rung(GemmKernel& kernel, int rung, const arch::Arch* arch) {
  if (rung == kNoGemmRung || rung == kGemmOwnRung) {  // the last is the op's own kernel
    kernel.rung = kNoGemmRung;
    return;
  }
  kernel.rung = rung;
  kernel.tile = tile_of(kRungs[rung], arch);
}

void check_gemm_rung(int rung, const GemmSizes& sizes, DType dtype) {
  if (rung < kNoGemmRung || rung > kGemmOwnRung)
    refuse("gemm", Code::invalid_argument,
           cat("rung is ", rung, "; allowed: 0 (none), 1 (v1) to ", kGemmOwnRung, " (v", kGemmOwnRung, ")"));
  if (rung == kNoGemmRung || rung == kGemmOwnRung) return;
  const GemmRung& limits = kRungs[rung];
  if (size_of(dtype) != 2)
    refuse("gemm", Code::unsupported,
           cat("rung is ", limits.name, " and a.dtype is ", to_string(dtype), "; allowed with a rung: f16, bf16"));
  GemmKernel kernel;
  set_gemm_rung(kernel, rung, nullptr);
  const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
  const auto most = [&](const char* name, std::int64_t value, std::int64_t allowed) {
    if (value > allowed)
      refuse("gemm", Code::unsupported,
             cat("rung is ", limits.name, " and ", name, " is ", value, "; allowed: at most ", allowed));
  };
  if (limits.max_tiles == 1) {
    most("M", sizes.m, tile.block_m);
    most("N", sizes.n, tile.block_n);
    most("the batch", sizes.batch, 1);
  }
  if (limits.max_iterations == 1) most("K", sizes.k, tile.block_k);
}

std::vector<std::pair<std::string, std::string>> gemm_rung_fields(const GemmKernel& kernel) {
  if (kernel.rung == kNoGemmRung) return {};
  const GemmRung& rung = gemm_rung(kernel);
  const auto number = [](int value) { return value == kAny ? std::string("any") : cat(value); };
  return {{"copies", rung.thread_copies ? "threads" : "engine"},
          {"slots", number(rung.max_slots)},
          {"stages", number(rung.max_stages)},
          {"roles", rung.one_role ? "1" : "any"},
          {"grid", rung.tile_a_block ? "tiles" : "persistent"},
          {"order", rung.tile_a_block ? "rows" : "groups"},
          {"cluster", cat(rung.cluster)},
          {"tiles", number(rung.max_tiles)},
          {"iterations", number(rung.max_iterations)}};
}

}  // namespace tj::ops
