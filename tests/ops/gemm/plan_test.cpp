// Protects a launch's parameters: they follow from the call alone. Plans find addresses in them by comparing the bytes
// of two launches.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <initializer_list>

#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"

using namespace tj;

namespace {

/// Leaves this byte where the next call has its local variables.
[[gnu::noinline]] void fill_stack(int byte) {
  volatile unsigned char place[8192];
  for (volatile unsigned char& each : place) each = static_cast<unsigned char>(byte);
}

GemmArgs dense(std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto tensor = [](std::uintptr_t place, std::int64_t rows, std::int64_t columns) {
    return Tensor::contiguous(reinterpret_cast<void*>(place), {DeviceKind::cuda, 0}, DType::f16, {rows, columns});
  };
  GemmArgs args;
  args.a = tensor(1 << 20, m, k);
  args.b = tensor(2 << 20, n, k);
  args.d = tensor(3 << 20, m, n);
  return args;
}

[[gnu::noinline]] ops::LaunchPlan planned(const GemmArgs& args, const ops::GemmLaunch& launch, int left_on_stack) {
  ops::LaunchPlan plan;
  fill_stack(left_on_stack);
  ops::gemm_plan(args, {}, launch, plan);
  return plan;
}

TEST_CASE("the parameters of a launch have no bytes of their own making, whoever copies the operands") {
  const GemmArgs args = dense(64, 32, 96);
  for (const bool by_threads : {false, true}) {
    CAPTURE(by_threads);
    const ops::GemmLaunch launch{.by_threads = by_threads};
    const ops::LaunchPlan first = planned(args, launch, 0x55), second = planned(args, launch, 0xaa);
    CHECK(first.params_bytes == second.params_bytes);
    CHECK(first.params == second.params);
  }
}

TEST_CASE("operands that threads copy have the strides of their batch and of their rows") {
  const auto tensor = [](std::uintptr_t place, std::initializer_list<std::int64_t> shape,
                         std::initializer_list<std::int64_t> strides) {
    return Tensor::strided(reinterpret_cast<void*>(place), {DeviceKind::cuda, 0}, DType::f16, shape, strides);
  };
  GemmArgs args;
  args.a = tensor(1 << 20, {3, 64, 96}, {8192, 104, 1});
  args.b = tensor(2 << 20, {32, 96}, {1, 40});  // stored transposed, one for the whole batch
  args.d = tensor(3 << 20, {3, 64, 32}, {2048, 32, 1});
  const ops::LaunchPlan plan = planned(args, {.by_threads = true}, 0);
  const auto& params = *reinterpret_cast<const ops::gemm::Params*>(plan.params.data());
  CHECK(params.operands.a.stride_batch == 8192);
  CHECK(params.operands.a.stride_down == 104);
  CHECK(params.operands.a.across == 96);
  CHECK(params.operands.a.down == 64);
  CHECK(params.operands.b.stride_batch == 0);
  CHECK(params.operands.b.stride_down == 40);
  CHECK(params.operands.b.across == 32);
  CHECK(params.operands.b.down == 96);
}

}  // namespace

TEST_CASE("clusters are dealt over groups, single blocks are not") {
  const GemmArgs args = dense(640, 512, 96);
  const auto params_of = [&](const char* name, int dealt_over) {
    ops::GemmChoice choice{0, 1};
    while (ops::gemm_tile_name(ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)]) != name) ++choice.tile;
    ops::LaunchPlan plan;
    plan.sm_count = 132;
    plan.blocks_per_sm = 1;
    ops::gemm_plan(args, choice, {.dealt_over = dealt_over}, plan);
    return *reinterpret_cast<const ops::gemm::Params*>(plan.params.data());
  };
  const auto dealt = params_of("128x256x64c1x2", 8);
  CHECK(dealt.dealt_over == 8);
  CHECK(dealt.wave == 5);  // all at once
  CHECK(params_of("128x256x64", 8).dealt_over == 0);
  CHECK(params_of("128x256x64c1x2", 0).dealt_over == 0);
}

TEST_CASE("boxes: one for few rows, smaller ones where the last tile has few, whole ones where there are many tiles") {
  const auto box = [](std::int64_t size, int block, int parts = 1) { return ops::gemm_box(size, block, parts, true); };
  CHECK(box(1, 64) == 8);  // whole swizzle patterns
  CHECK(box(26, 64) == 32);
  CHECK(box(64, 64) == 64);
  CHECK(box(65, 128) == 72);
  CHECK(box(132, 128) == 32);  // four rows of the second tile, and 28 outside
  CHECK(box(195, 128) == 32);  // 67 rows of the second tile, and 29 outside
  CHECK(box(200, 192) == 48);  // halves stay whole patterns
  CHECK(box(9 * 128 + 4, 128) == 128);
  CHECK(box(40, 128, 2) == 40);  // the other block brings nothing
  CHECK(box(100, 128, 2) == 64);
  CHECK(ops::gemm_box(26, 64, 1, false) == 64);
  for (const int block : {64, 96, 128, 160, 192, 224, 256})
    for (const int parts : {1, 2})
      for (std::int64_t size = 1; size < 1200; ++size) {
        const int rows = box(size, block, parts), share = block / parts;
        const bool fits = rows % 8 == 0 && rows <= share && (share % rows == 0 || size <= rows);
        if (!fits) FAIL_CHECK("size ", size, " block ", block, " parts ", parts, " box ", rows);
      }
}

TEST_CASE("b is read once where one tile has all rows of a, and few of them") {
  const auto once = [](std::int64_t m, std::int64_t batch) {
    GemmArgs args = dense(m, 512, 256);
    if (batch > 1) {
      args.a = Tensor::contiguous(args.a.data, args.a.device, DType::f16, {batch, m, 256});
      args.d = Tensor::contiguous(args.d.data, args.d.device, DType::f16, {batch, m, 512});
    }
    return planned(args, {}, 0).maps[1].desc.read_once;
  };
  CHECK(once(1, 1));
  CHECK(once(64, 1));
  CHECK_FALSE(once(65, 1));
  CHECK_FALSE(once(1, 2));  // both batches read it
}
