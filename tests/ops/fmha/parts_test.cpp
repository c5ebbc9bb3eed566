// Protects the number of parts that keys of few queries are split into. Blocks fill the multiprocessors once. No second
// launch merges what one could do.
#include <doctest/doctest.h>

#include <cstdint>

#include "arch/options.hpp"
#include "ops/fmha/params.cuh"
#include "ops/fmha/parts.hpp"

using namespace tj;

namespace {

int parts_of(std::int64_t batch, std::int64_t keys) {
  ops::FmhaKernel kernel;
  kernel.head_dim = 128, kernel.dtype = DType::bf16, kernel.causal = true;
  const ops::FmhaSizes sizes{.batch = batch, .heads = 32, .kv_heads = 8, .queries = 1, .keys = keys};
  return ops::choose_fmha_parts(kernel, sizes, 0, arch::parse_arch("sm_90a"));
}

}  // namespace

TEST_CASE("long keys of few sequences: the blocks of one wave, not half a wave") {
  // 131072 keys of one sequence took 177 us in 48 blocks, 138 in 128 (32/8 heads, D 128, H200, 2026-11-29).
  for (const std::int64_t keys : {8192, 32768, 131072}) {
    CAPTURE(keys);
    CHECK(parts_of(1, keys) == 16);
    CHECK(parts_of(4, keys) == 4);
    CHECK(parts_of(16, keys) == 1);
  }
}
TEST_CASE("short keys have no more parts than blocks, and many sequences have one") {
  CHECK(parts_of(1, 100) == 1);
  CHECK(parts_of(1, 1024) == 8);
  for (const std::int64_t keys : {1024, 32768}) CHECK(parts_of(64, keys) == 1);
}
TEST_CASE("a launch of few queries says that keys and values are read once") {
  const auto tensor = [](std::uintptr_t place, std::int64_t heads, std::int64_t rows) {
    return Tensor::contiguous(reinterpret_cast<void*>(place), {DeviceKind::cuda, 0}, DType::f16, {2, heads, rows, 64});
  };
  FmhaArgs args;
  args.q = tensor(1 << 20, 8, 1), args.k = tensor(2 << 20, 2, 512), args.v = tensor(3 << 20, 2, 512);
  args.o = tensor(4 << 20, 8, 1);
  for (const int parts : {0, 1}) {
    ops::LaunchPlan plan;
    ops::fmha_plan(args, {.rows_per_block = 64, .block_n = 128, .bulk_copies = true}, plan, parts);
    CHECK(plan.maps[1].desc.read_once == (parts != 0));
    CHECK(plan.maps[2].desc.read_once == (parts != 0));
    CHECK_FALSE(plan.maps[0].desc.read_once);
  }
}
