// Protects the checks of scales of blocks: which kind a call has, and what is refused, in which words. Protects that
// their roles leave room for the largest tile.
#include <doctest/doctest.h>

#include <functional>

#include "arch/arch.hpp"
#include "ops/gemm/gemm.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"

using namespace tj;

namespace {

using testing::error_of;
using testing::has;

alignas(256) unsigned char memory_a[2 * 24 * 272], memory_b[2 * 24 * 272];
alignas(256) float memory_d[24 * 24], scales_a[24 * 3], scales_b[24 * 3];
constexpr Device kCpu{DeviceKind::cpu, 0};

/// M 24, N 24, K 272, with scales of blocks.
GemmArgs changed(const std::function<void(GemmArgs&)>& change) {
  GemmArgs g;
  g.a = Tensor::contiguous(memory_a, kCpu, DType::e4m3, {24, 272});
  g.b = Tensor::contiguous(memory_b, kCpu, DType::e4m3, {24, 272});
  g.d = Tensor::contiguous(memory_d, kCpu, DType::f32, {24, 24});
  g.scale_a = Tensor::strided(scales_a, kCpu, DType::f32, {24, 3}, {1, 24});
  g.scale_b = Tensor::contiguous(scales_b, kCpu, DType::f32, {1, 3});
  change(g);
  return g;
}

void refused(const std::function<void(GemmArgs&)>& change, Code code, std::initializer_list<const char*> parts) {
  const GemmArgs args = changed(change);
  const Error error = error_of([&] { ops::validate(args, true); });
  CHECK_MESSAGE(error.code == code, error.message);
  for (const char* part : parts) CHECK_MESSAGE(has(error.message, part), part, " is not in: ", error.message);
}

}  // namespace

TEST_CASE("scales of blocks: shapes, orders and types, by name; which kind they are") {
  constexpr Code bad = Code::invalid_argument, unsupported = Code::unsupported;
  const auto kind = [&](const std::function<void(GemmArgs&)>& change) {
    const GemmArgs args = changed(change);
    CHECK_NOTHROW(ops::validate(args, true));
    return ops::gemm_kind(args);
  };
  const auto rows = [](GemmArgs& g) { g.scale_b = Tensor::contiguous(scales_b, kCpu, DType::f32, {24, 3}); };
  CHECK(kind([](GemmArgs&) {}).scales == Scales::block);
  CHECK_FALSE(kind([](GemmArgs&) {}).left_scales_k);
  CHECK(kind([](GemmArgs& g) { g.scale_a = Tensor::contiguous(scales_a, kCpu, DType::f32, {24, 3}); }).left_scales_k);
  CHECK(kind(rows).scales == Scales::row);
  CHECK(kind(rows).right_scales_k);
  refused([](GemmArgs& g) { g.scale_a.reset(); }, bad, {"scale_a is absent", "of both, or of neither"});
  refused([](GemmArgs& g) { g.scale_a->shape[0] = 23; }, bad, {"scale_a.shape[0] is 23", "24 (M)"});
  refused([](GemmArgs& g) { g.scale_b->shape[0] = 2; }, bad, {"scale_b.shape[0] is 2", "24 (N), or 1"});
  refused([](GemmArgs& g) { g.scale_a->shape[1] = 2; }, bad, {"scale_a.shape[1]", "is 2", "ceil(K / 128)"});
  refused([](GemmArgs& g) { g.scale_a->dtype = DType::bf16; }, bad, {"scale_a.dtype is bf16", "f32"});
  refused([](GemmArgs& g) { g.scale_a->strides = {2, 48}; }, unsupported, {"scale_a.strides are 2 and 48"});
  refused([](GemmArgs& g) { g.scale_b->strides = {1, 4}; }, unsupported, {"scale_b.strides", "last dimension"});
  refused([](GemmArgs& g) { g.scale_b->data = memory_d + 7; }, unsupported, {"d at", "overlaps scale_b"});
  refused([](GemmArgs& g) { g.a.dtype = g.b.dtype = DType::f16; }, bad, {"scale_a", "e4m3"});
  GemmConfig config;
  config.scales = Scales::block;
  CHECK(has(error_of([&] { ops::validate(config); }).message, "scales is 1; allowed with f16: 0 (tensor)"));
}

// Each role that copies counted as a group of warps of its own. The largest tile had none left for a role that stores.
TEST_CASE("roles that copy and store share a group: products bound an iteration of 128 x 192, whose d is staged") {
  ops::GemmKernel kernel;
  kernel.dtype = DType::e4m3;
  kernel.out = DType::bf16;
  kernel.scales = Scales::block;
  kernel.tile = ops::place_of(ops::GemmTile{128, 192, 128, 1, 1, 1});
  const auto graph = ops::gemm_candidate(kernel, *arch::find("sm_90a")).graph;
  const auto schedule = sched::schedule(graph);
  CHECK(schedule.ii == 768);
  int copying = 0, storing = 0;
  for (const auto& role : schedule.roles) {
    if (role.name.rfind("load", 0) == 0) ++copying;
    if (role.name.rfind("store", 0) == 0) ++storing;
  }
  CHECK(copying == 2);
  CHECK(storing == 1);
  // Blocks of a cluster need more registers for their copies, and have no role that stores.
  kernel.tile = ops::place_of(ops::GemmTile{128, 192, 128, 1, 2, 1});
  CHECK_NOTHROW(sched::schedule(ops::gemm_candidate(kernel, *arch::find("sm_90a")).graph));
}
