// The rungs of the ladder: the kernel that each has, and the sizes that it serves; see rungs.hpp.
#include "ops/common/tensor_checks.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

/// The tile of a rung. One that serves a single tile has the same on every arch. Of others the arch's family says it;
/// the usual family's stands for a family that serves no rung, and for no arch.
int tile_of(const GemmRung& rung, const arch::Arch* arch) {
  if (rung.max_tiles == 1) return place_of(kLoneTile);
  const GemmFamily* family = arch == nullptr ? nullptr : find_gemm_family(*arch);
  return (family != nullptr && family->rung_tile != nullptr ? *family : usual_gemm_family()).rung_tile(rung);
}

}  // namespace

void set_gemm_rung(GemmKernel& kernel, int rung, const arch::Arch* arch) {
  kernel.rung = rung == kGemmOwnRung ? kNoGemmRung : rung;  // the last holds nothing back but its tile
  if (rung == kNoGemmRung) return;
  if (rung == kGemmOwnRung) {
    if (arch == nullptr) return;  // any tile stands for it
    const GemmChoice last = gemm_last_rung(gemm_problem_key(gemm_sizes(GemmConfig{}), kernel), *arch);
    kernel.tile = last.tile;
    if (last.walk != WalkChoice::usual) kernel.walk = last.walk;
    return;
  }
  kernel.tile = tile_of(kGemmRungs[rung], arch);
}

void check_gemm_rung(int rung, const GemmSizes& sizes, DType dtype) {
  if (rung < kNoGemmRung || rung > kGemmOwnRung)
    refuse("gemm", Code::invalid_argument,
           cat("rung is ", rung, "; allowed: 0 (none), 1 (v1) to ", kGemmOwnRung, " (v", kGemmOwnRung, ")"));
  if (rung == kNoGemmRung || rung == kGemmOwnRung) return;
  const GemmRung& limits = kGemmRungs[rung];
  if (size_of(dtype) != 2)
    refuse("gemm", Code::unsupported,
           cat("rung is ", limits.name, " and a.dtype is ", to_string(dtype), "; allowed with a rung: f16, bf16"));
  const auto most = [&](const char* name, std::int64_t value, std::int64_t allowed) {
    if (value > allowed)
      refuse("gemm", Code::unsupported,
             cat("rung is ", limits.name, " and ", name, " is ", value, "; allowed: at most ", allowed, ", as ",
                 limits.name, " does one tile of ", gemm_tile_name(kLoneTile),
                 limits.max_iterations == 1 ? " and one iteration of it" : ""));
  };
  if (limits.max_tiles == 1) {
    most("M", sizes.m, kLoneTile.block_m);
    most("N", sizes.n, kLoneTile.block_n);
    most("the batch", sizes.batch, 1);
  }
  if (limits.max_iterations == 1) most("K", sizes.k, kLoneTile.block_k);
}

}  // namespace tj::ops
