// See checks.hpp.
#include "ops/grouped_gemm/checks.hpp"

#include <doctest/doctest.h>

#include "arch/arch.hpp"
#include "ops/grouped_gemm/depths.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "ops/step_launcher.hpp"
#include "support/full.hpp"

namespace tj::test {
namespace {

bool serves(const std::string& arch, const GroupedGemmArgs& args, int index) {
  const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(index)];
  const ops::GemmKernel kernel = ops::chosen(ops::grouped_gemm_kind(args), {index, 1});
  return ops::gemm_tile_fits(tile, kernel) && ops::gemm_blocks_per_sm(tile, *arch::find(arch)) > 0;
}

template <class Problem>
std::string run_tile(const std::string& arch, Problem& problem, int tile, std::uint64_t seed, unsigned blocks) {
  const ops::Op& op = ops::grouped_gemm_op();
  const ops::Kernel kernel = op.kernel_of(op.problem_key(&problem.args), ops::GemmChoice{tile, 1}.number());
  const std::string fault = StepLauncher(arch).launch({&op, &problem.args, kernel}, seed, blocks);
  return fault.empty() ? problem.problem() : fault;
}

}  // namespace

bool serves_groups(const std::string& arch, const GroupedShape& shape, int tile) {
  GroupedShape one = shape;  // a kernel depends on no count, and a small problem is drawn soon
  one.counts = {1};
  return serves(arch, GroupedProblem(one, 1).args, tile);
}

std::string run_grouped_tile(const std::string& arch, const GroupedShape& shape, int tile, std::uint64_t seed,
                             unsigned blocks) {
  GroupedProblem problem(shape, seed);
  return run_tile(arch, problem, tile, seed, blocks);
}

int check_depths_tiles(const std::string& arch) {
  int served = 0;
  for (int t = 0; t < static_cast<int>(ops::gemm_tiles().size()); ++t) {
    const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(t)];
    DepthsShape shape;
    shape.depths = {0, 3 * tile.block_k + 5, 1, 7 * tile.block_k};
    shape.m = tile.block_m + 8;
    shape.n = tile.block_n + 24;
    shape.out = t % 2 == 0 ? DType::f32 : DType::bf16;
    DepthsShape one = shape;
    one.depths = {1};
    if (!serves(arch, DepthsProblem(one, 1).args, t) || testing::sampled_out(served++)) continue;
    DepthsProblem problem(shape, static_cast<unsigned>(t));
    CAPTURE(t);
    CHECK(run_tile(arch, problem, t, static_cast<std::uint64_t>(t), 3) == "");
  }
  return served;
}

}  // namespace tj::test
