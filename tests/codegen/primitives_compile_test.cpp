// Protects the primitives of the family whose products are warps'. One unit with all of them compiles for every arch
// that has them, without a spill or a warning. A primitive that an arch lacks is refused in words.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include <tilejit/error.hpp>

#include "codegen/device_kernel.hpp"
#include "model/primitive_texts.hpp"
#include "model/unit_job.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"

using namespace tj;
using testing::device_job;
using testing::error_of;
using testing::has;

namespace {

// Every primitive once, with each of its shapes; the result is never run.
constexpr const char* kUnit = R"(
struct Params { const char* in; float* out; tj::TensorMap map; u32 present; };

struct Ring {
  static constexpr int kSlots = 2, kSlotBytes = 4096, kCopiedBytes = 4096, kData = 1024, kFull = 0, kEmpty = 16, kFullArrivals = 128, kEmptyArrivals = 4, kSharers = 1;
};

template <bool Bulk>
TJ_DEVICE void bulk(const Params& p, u32 base) {
  if constexpr (Bulk) {
    if (elect_one()) {
      prefetch_map(&p.map);
      expect_full<1, Ring>(base, 2);
      copy_box_4d(slot_address<Ring>(base, 2), &p.map, full_barrier<Ring>(base, 2), 0, 0, 0, 0);
      copy_box_4d(slot_address<Ring>(base, 2), &p.map, full_barrier<Ring>(base, 2), 0, 0, 0, 0, NoHint{});
      copy_box_4d(slot_address<Ring>(base, 2), &p.map, full_barrier<Ring>(base, 2), 0, 0, 0, 0, EvictFirst{});
      copy_box_5d(slot_address<Ring>(base, 2), &p.map, full_barrier<Ring>(base, 2), 0, 0, 0, 0, 0, EvictLast{});
      store_box_4d(&p.map, slot_address<Ring>(base, 2), 0, 0, 0, 0);
      store_commit<2>();
      store_wait<3, 0>();
    }
  }
}

template <class Tag>
TJ_DEVICE void products(const Params& p, u32 base) {
  u32 four[4], across[4], two[2], one[1];
  float d[4] = {};
  load_matrices(piece_address(base, down_row(), down_piece()), four);
  load_matrices_transposed(piece_address(base, across_row(), across_piece()), across);
  load_matrices(base + swizzle_64(16 * lane_index()), two);
  load_matrices_transposed(base + swizzle_32(16 * lane_index()), one);
  mma_m16n8k16(Tag{}, d, four, across[0], across[1]);
  mma_m16n8k16(Tag{}, d, four, two[0], one[0]);
  load_matrices(base, one);
  load_matrices_transposed(base, two);
  mma_m16n8k16(Tag{}, d, across, two[1], one[0]);
  store_matrices(base + 16 * lane_index(), across);
  float low, high;
  unpack(Tag{}, pack(Tag{}, d[0], d[1]), low, high);
  d[2] = divide_approx(multiply_add(exp2_approx(low), d[2], shuffle_xor(d[3], 1)), maximum(d[0], minus_infinity()));
  d[3] = exp2_gradual(high) + log2_approx(shuffle_from(d[1], 3)) + (any_in_warp(d[0] > 0) ? 1.0f : 0.0f);
  store_global(p.out + 4 * thread_index(), d);
}

TJ_KERNEL(kernel, 128, Params, p) {
  const u32 base = shared_base();
  if (thread_index() == 0) ring_init<Ring>(base);
  mbarrier_init_done();
  block_sync();
  next_grid_may_start();
  wait_for_grids_before();
  wait_for_grids_before<14>();
  mbarrier_init_done<15>();
  at_node<1>(static_cast<int>(thread_index()));
  mbarrier_wait<16>(full_barrier<Ring>(base, 0), 1);
  wait_empty<4, Ring>(base, 0);
  const u32 mine = slot_address<Ring>(base, 0) + swizzle_128(32 * thread_index());
  copy_async<16>(mine, p.in + 16 * thread_index());
  copy_async<16>(mine + 16, p.in + 16 * thread_index(), p.present);
  copy_async<8>(mine, p.in + 8 * thread_index());
  copy_async<8>(mine + 8, p.in + 8 * thread_index(), p.present);
  copy_async<4>(mine, p.in + 4 * thread_index());
  copy_async<4>(mine + 4, p.in + 4 * thread_index(), p.present);
  copy_async_commit<5>();
  copy_async_wait<6, 1>();
  copy_async_wait<7, 0>();
  copy_async_arrive<8>(full_barrier<Ring>(base, 0));
  wait_full<9, Ring>(base, 0);
  proxy_fence<10>();
  products<F16>(p, slot_address<Ring>(base, 0));
  named_arrive<11>(1 + warp_index() % 2, 96);
  named_sync<12>(3, 128);
  products<Bf16>(p, slot_address<Ring>(base, 0));
  reconverge();
  release<13, Ring>(base, 0);
  if (warp_index() == cluster_rank()) bulk<kBulkCopies>(p, base);
}
)";

}  // namespace

TEST_CASE("a unit with every primitive compiles for each arch of the family") {
  const auto compiler = test::nvrtc_or_skip();
  int index = 0;
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120a", "sm_121a"}) {
    if (testing::sampled_out(index++)) continue;
    CAPTURE(name);
    test::check_clean(*compiler, device_job(kUnit, *arch::find(name)));
  }
}

TEST_CASE("the units that the tests of the model and of a device run compile for devices") {
  const auto compiler = test::nvrtc_or_skip();
  std::vector<std::string_view> texts = testing::warp_matrix_texts();
  texts.push_back(testing::thread_copies_text());
  texts.push_back(testing::counters_text());
  int place = 0;
  for (const std::string_view text : texts) {  // each for one of the two, where not all is asked for
    for (const char* name : {"sm_80", "sm_90"}) {
      if (testing::sampled_out(place++)) continue;
      CAPTURE(name);
      CHECK(compiler->compile(device_job(text, *arch::find(name))).warnings.empty());
    }
    ++place;
  }
  for (const char* name : {"sm_89", "sm_90", "sm_120a"})
    if (!testing::sampled_out(place++))
      CHECK(compiler->compile(device_job(testing::narrow_matrix_text(), *arch::find(name))).warnings.empty());
  arch::Arch earlier = *arch::find("sm_90");  // what is there before sm_90 is there on it, too
  earlier.primitives = "sm80";
  for (const std::string_view text : texts)
    if (!testing::sampled_out(place++)) CHECK(compiler->compile(device_job(text, earlier)).warnings.empty());
}

TEST_CASE("the units that run on sm_90a alone compile for it, with nothing spilled or put in a row") {
  const auto compiler = test::nvrtc_or_skip();
  std::vector<std::string_view> texts = testing::bulk_copies_texts();
  for (const std::string_view text : {testing::group_matrix_text(), testing::sync_text(), testing::number_text(),
                                      testing::access_text(), testing::counters_text(), testing::turned_stores_text()})
    texts.push_back(text);
  for (const std::string_view text : texts) test::check_clean(*compiler, device_job(text, *arch::find("sm_90a")));
}

TEST_CASE("registers move between roles where the arch says so, and are refused where it does not") {
  const auto compiler = test::nvrtc_or_skip();
  const std::string text =
      "struct Params { int n; };\nTJ_KERNEL(kernel, 256, Params, p) {\n  if (warp_index() < 4) registers_shrink<1, "
      "24>();\n  else registers_grow<2, 152>();\n}\n";
  for (const char* name : {"sm_80", "sm_90", "sm_100", "sm_110", "sm_120a", "sm_121a"}) {
    CAPTURE(name);
    const arch::Arch& arch = *arch::find(name);
    if (arch.register_roles)
      CHECK(compiler->compile(device_job(text, arch)).registers > 0);
    else
      CHECK(error_of([&] { compiler->compile(device_job(text, arch)); }).code == Code::compile_failed);
  }
}

TEST_CASE("blocks side by side get the registers of their share, and no more") {
  const auto compiler = test::nvrtc_or_skip();
  // Sums of many values that are all needed to the end: as many registers as there are.
  const std::string body =
      "  float x[160];\n  for (int i = 0; i < 160; ++i) x[i] = p.values[i * p.n];\n  for (int r = 0; r < p.n; ++r)\n   "
      " for (int i = 0; i < 160; ++i) x[i] = x[i] * x[(i + 1) % 160] + p.values[r];\n"
      "  for (int i = 0; i < 160; ++i) p.values[i * p.n] = x[i];\n}\n";
  const auto registers = [&](const arch::Arch& arch, const std::string& kernel) {
    return compiler->compile(device_job("struct Params { float* values; int n; };\n" + kernel + " {\n" + body, arch))
        .registers;
  };
  for (const char* name : {"sm_80", "sm_120a"}) {
    CAPTURE(name);
    const arch::Arch& arch = *arch::find(name);
    CHECK(registers(arch, "TJ_KERNEL(kernel, 256, Params, p)") > 160);
    CHECK(registers(arch, "TJ_KERNEL_BESIDE(kernel, 256, 2, Params, p)") <= 128);
  }
}

TEST_CASE("what sm_80 lacks is refused in words, where a body gets there") {
  const auto compiler = test::nvrtc_or_skip();
  const auto log = [&](const std::string& statement) {
    const std::string text =
        "struct Params { tj::TensorMap map; };\nTJ_KERNEL(kernel, 32, Params, p) {\n  " + statement + "\n}\n";
    return error_of([&] { compiler->compile(device_job(text, *arch::find("sm_80"))); }).log;
  };
  CHECK(has(log("copy_box_4d(0u, &p.map, 0u, 0, 0, 0, 0);"), "here threads copy, by copy_async"));
  CHECK(has(log("mbarrier_expect<1>(0, 16);"), "copies by threads arrive on theirs"));
  CHECK(has(log("cluster_sync<1>();"), "blocks form clusters from sm_90 on"));
}
