// Protects the way from arguments to launches: each step has the kernel that its own arguments give, and of a call's
// steps one stands for the call.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/walk.hpp"
#include "ops/copy_rows/copy_rows.hpp"
#include "ops/copy_rows/params.cuh"
#include "ops/gemm/gemm.hpp"
#include "ops/op.hpp"
#include "ops/sum_parts/sum_parts.hpp"

using namespace tj;

namespace {

/// The place of the step that stands for a call of gemm; -1: no step does.
int standing(const std::vector<const ops::Op*>& steps) {
  ops::OwnStep own(ops::gemm_op());
  int place = -1;
  for (int i = 0; i < static_cast<int>(steps.size()); ++i)
    if (own.is({steps[static_cast<std::size_t>(i)], nullptr, {}})) place = i;
  return place;
}

TEST_CASE("a call is known by the last step of its own op, else by the last") {
  const ops::Op *gemm = &ops::gemm_op(), *copy = &ops::copy_rows_op(), *sum = &ops::sum_parts_op();
  CHECK(standing({}) == -1);
  CHECK(standing({gemm}) == 0);
  CHECK(standing({copy, copy, gemm}) == 2);
  CHECK(standing({copy, gemm, sum}) == 1);
  CHECK(standing({gemm, sum, gemm, sum}) == 2);
  CHECK(standing({copy, sum}) == 1);
}

TEST_CASE("each step of each op's trials has the kernel of its arguments, and a request that its key gives back") {
  const arch::Arch& arch = *arch::find("sm_90a");
  int steps = 0, of_others = 0;
  for (const ops::Op* op : ops::all()) {
    ops::Flags flags;
    if (op == &ops::gemm_op()) flags = {{"parts", {"both"}}, {"d-aligned", {"both"}}};
    for (const ops::Trial& trial : op->trials(flags, arch)) {
      CAPTURE(trial.flags);
      std::vector<void*> places;
      for (std::size_t i = 0; i < trial.tensors.size(); ++i) places.push_back(reinterpret_cast<void*>((i + 1) << 40));
      trial.with_args({DeviceKind::cpu, 0}, places, [&](const void* args) {
        const ops::Kernel kernel = ops::resolve(*op, args, trial.choice, arch);
        CHECK(op->kernel_of(op->problem_key(args), kernel.choice) == kernel);
        op->steps(args, kernel, ops::nowhere(), [&](const ops::Step& step) {
          CHECK(ops::resolve(*step.op, step.args, step.kernel.choice, arch) == step.kernel);
          const ops::Request request = step.op->request_of(step.kernel);
          CHECK(request.op == step.op->name());
          CHECK(!step.op->candidates(request, arch).empty());
          ++steps;
          of_others += step.op != op ? 1 : 0;
        });
      });
    }
  }
  CHECK(steps > 20);
  CHECK(of_others > 2);  // sums of parts
}

TEST_CASE(
    "parts of copied rows are tiles of their own, and several of them one tile where there are too many to count") {
  const auto planned = [](std::int64_t rows, std::int64_t columns) {
    ops::CopyRowsArgs args;
    args.source = Tensor::strided(reinterpret_cast<void*>(std::uintptr_t{1} << 40), {DeviceKind::cuda, 0}, DType::f32,
                                  {rows, columns}, {columns, 1});
    args.destination = args.source;
    ops::LaunchPlan plan;
    const ops::WalkLaunch walk;
    ops::copy_rows_op().plan(&args, {}, ops::Geometry::of(walk), plan);
    return *reinterpret_cast<const ops::copy_rows::Params*>(plan.params.data());
  };
  const auto whole = [](const ops::copy_rows::Params& p, std::int64_t row_blocks) {
    return std::int64_t{p.row_tiles} * p.tile_parts >= p.row_parts && p.tiles == row_blocks * p.row_tiles &&
           std::int64_t{p.row_tiles - 1} * p.tile_parts < p.row_parts;
  };
  const ops::copy_rows::Params few = planned(17, 1000);
  CHECK(few.row_parts == 2);
  CHECK(few.tile_parts == 1);
  CHECK(whole(few, 3));
  const ops::copy_rows::Params many = planned(std::int64_t{1} << 30, std::int64_t{1} << 30);
  CHECK(many.tile_parts > 1);
  CHECK(whole(many, std::int64_t{1} << 27));
}

}  // namespace
