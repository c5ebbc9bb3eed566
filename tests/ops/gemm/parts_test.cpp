// Protects when products are cut along K and what that is made of: few tiles with a long K are, sizes that fill the SMs
// are not; the kernels, their names and keys; the scratch memory; and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "arch/arch.hpp"
#include "ops/gemm/checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/steps.hpp"
#include "ops/sum_parts/sum_parts.hpp"
#include "support/expect.hpp"

using namespace tj;

namespace {

using testing::error_of;
using testing::has;
using Flags = std::map<std::string, std::vector<std::string>>;

constexpr double kGain = 0.95;  // kJointPartsGain of choose.cpp
const arch::Arch& hopper() { return *arch::find("sm_90a"); }

ops::GemmKernel kind_of(DType dtype) {
  ops::GemmKernel kind;
  kind.dtype = dtype;
  kind.out = dtype == DType::e4m3 ? DType::bf16 : dtype;
  return kind;
}

GemmArgs call(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t pitch_a = 0) {
  const Device gpu{DeviceKind::cuda, 0};
  const auto matrix = [&](std::uintptr_t place, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
    return Tensor::strided(reinterpret_cast<void*>(place << 40), gpu, DType::f16, {rows, columns}, {pitch, 1});
  };
  GemmArgs args;
  args.a = matrix(1, m, k, pitch_a == 0 ? k : pitch_a);
  args.b = matrix(2, n, k, k);
  args.d = matrix(3, m, n, n);
  return args;
}

}  // namespace

TEST_CASE("sizes whose tiles fill the SMs, or whose K is short, are not cut") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::e4m3})
    for (const auto& [m, n, k] : {std::array{512, 512, 512},
                                  {1024, 1024, 1024},
                                  {2048, 2048, 2048},
                                  {4096, 4096, 4096},
                                  {8192, 8192, 8192},
                                  {16384, 16384, 16384},
                                  {4096, 4096, 16384},
                                  {4096, 7168, 2048},
                                  {64, 7168, 2048},
                                  {128, 24576, 1536},
                                  {16, 4096, 4096},
                                  {1, 8192, 8192},
                                  {1000, 1000, 1000},
                                  {4095, 4097, 4099},
                                  {64, 64, 1024},
                                  {1, 1, 1}}) {
      const ops::GemmSizes sizes{m, n, k, 1};
      CAPTURE(sizes.m);
      CAPTURE(sizes.k);
      CHECK(ops::choose_gemm(sizes, kind_of(dtype), hopper()).parts == 1);
    }
}

TEST_CASE("the largest sizes that there are have a choice") {
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  CHECK(ops::choose_gemm({kLargest, kLargest, kLargest, kLargest}, {}, hopper()).parts == 1);
  CHECK(ops::choose_gemm({1, 1, kLargest, kLargest}, {}, hopper()).parts == 1);
  CHECK(ops::choose_gemm({1, 1, kLargest, 1}, {}, hopper()).parts > 1);
}

TEST_CASE(
    "few tiles with a long K are cut, into parts that the SMs do at once and that are predicted to gain clearly") {
  for (const DType dtype : {DType::f16, DType::e4m3})
    for (const auto& [m, n, k] : {std::array{128, 128, 65536},
                                  {192, 256, 16384},
                                  {16, 512, 16384},
                                  {64, 1024, 32768},
                                  {256, 256, 8192},
                                  {1, 1, 1000000}}) {
      const ops::GemmSizes sizes{m, n, k, 1};
      CAPTURE(sizes.m);
      CAPTURE(sizes.k);
      const ops::GemmChoice choice = ops::choose_gemm(sizes, kind_of(dtype), hopper());
      const auto& tile = ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)];
      if (tile.sliced()) {  // the blocks of a cluster cut K
        CHECK(choice.parts == 1);
        continue;
      }
      CHECK(choice.parts > 1);
      CHECK(choice.parts <= ops::kMostGemmParts);
      const std::int64_t blocks = (k + tile.block_k - 1) / tile.block_k,
                         each = ops::gemm_part_blocks(blocks, choice.parts);
      CHECK((blocks + each - 1) / each == choice.parts);  // none without an iteration
      CHECK(choice.parts * ((m + tile.block_m - 1) / tile.block_m) * ((n + tile.block_n - 1) / tile.block_n) <=
            hopper().sm_count);
      const auto ranking = ops::rank_gemm(sizes, kind_of(dtype), hopper());
      CHECK(ranking.front().choice == choice);
      for (const ops::RankedGemm& ranked : ranking)
        if (ranked.choice.parts == 1) CHECK(ranking.front().cycles < kGain * ranked.cycles);
    }
}

TEST_CASE(
    "what each part writes counts, and a cut gains over the best tile, not over the one that is preferred among "
    "alike") {
  for (const auto& [m, n, k] :
       {std::array{96, 3072, 7168}, {128, 3072, 7168}, {3072, 128, 7168}, {3072, 64, 8192}, {14, 2756, 56644}}) {
    const ops::GemmSizes sizes{m, n, k, 1};
    CAPTURE(sizes.m);
    CAPTURE(sizes.n);
    const auto ranking = ops::rank_gemm(sizes, {}, hopper());
    for (const ops::RankedGemm& ranked : ranking)
      if (ranking.front().choice.parts > 1 && ranked.choice.parts == 1)
        CHECK(ranking.front().cycles < kGain * ranked.cycles);
  }
  // 8 parts in tiles of 128 x 192 would do the products soonest, but write 9 MB of sums.
  CHECK(ops::choose_gemm({96, 3072, 7168, 1}, {}, hopper()).parts < 8);
  CHECK(ops::choose_gemm({128, 6144, 7168, 1}, {}, hopper()).parts == 1);
}

TEST_CASE("sums of parts read a c of f32 in its own bytes") {
  ops::GemmKernel same, wide;
  same.add_c = wide.add_c = wide.add_f32 = true;
  int longer = 0;
  for (const ops::GemmSizes& sizes : {ops::GemmSizes{96, 3072, 7168, 1}, {512, 512, 65536, 1}, {256, 1024, 65536, 1}}) {
    CAPTURE(sizes.m);
    const auto by_choice = [&](const ops::GemmKernel& kernel) {
      std::map<int, double> cycles;
      for (const ops::RankedGemm& ranked : ops::rank_gemm(sizes, kernel, hopper()))
        if (ranked.choice.parts > 1) cycles[ranked.choice.number()] = ranked.cycles;
      return cycles;
    };
    const auto narrow = by_choice(same);
    for (const auto& [number, cycles] : by_choice(wide)) {
      const auto other = narrow.find(number);
      if (other == narrow.end()) continue;  // its own tile, or parts of its own
      CHECK(cycles >= other->second);
      longer += cycles > other->second;
    }
  }
  CHECK(longer > 0);
}

TEST_CASE("a batch is tiles too, and fills the SMs") {
  CHECK(ops::choose_gemm({128, 128, 16384, 2}, {}, hopper()).parts > 1);
  CHECK(ops::choose_gemm({128, 128, 16384, 2}, {}, hopper()).parts <
        ops::choose_gemm({128, 128, 65536, 1}, {}, hopper()).parts);
  CHECK(ops::choose_gemm({128, 128, 16384, 132}, {}, hopper()).parts == 1);
}

TEST_CASE("a second launch that costs more is taken less often; an arch without that fact is refused by its name") {
  arch::Arch slow = hopper();
  slow.facts.at("next_launch_cycles").value = 1e6;
  CHECK(ops::choose_gemm({256, 256, 8192, 1}, {}, slow).parts == 1);
  slow.facts.erase("next_launch_cycles");
  CHECK(has(error_of([&] { ops::choose_gemm({256, 256, 8192, 1}, {}, slow); }).message, "fact 'next_launch_cycles'"));
}

TEST_CASE("a choice survives its number, and its name says tile and parts") {
  for (int tile = 0; tile < static_cast<int>(ops::gemm_tiles().size()); ++tile)
    for (const int parts : {1, 2, 17, ops::kMostGemmParts}) {
      const ops::GemmChoice choice{tile, parts};
      CHECK(choice.number() >= 0);
      CHECK(ops::GemmChoice::of(choice.number()) == choice);
    }
  CHECK(ops::gemm_choice_name({0, 1}) == "128x256x64");
  CHECK(ops::gemm_choice_name({0, 8}) == "128x256x64k8");
}

TEST_CASE("one kernel of parts serves every output and epilogue, and is none of the others") {
  ops::GemmKernel plain = kind_of(DType::f16), rich = plain;
  rich.out = DType::bf16;
  rich.bias = rich.add_c = true;
  rich.activation = Activation::gelu;
  rich.d_aligned = false;
  const ops::Request request = ops::gemm_request(ops::chosen(plain, {3, 2}));
  CHECK(request.name == "gemm_f16_f32_kk_64x256x64_parts");
  CHECK(ops::gemm_request(ops::chosen(rich, {3, 7})).fields == request.fields);
  CHECK(ops::gemm_request(ops::gemm_kernel(request)).fields == request.fields);
  plain.out = DType::f32;
  CHECK(ops::gemm_request(ops::chosen(plain, {3, 1})).name == "gemm_f16_f32_kk_64x256x64");
  CHECK(ops::gemm_small_key(ops::chosen(plain, {3, 1})) != ops::gemm_small_key(ops::chosen(plain, {3, 2})));
  CHECK(ops::gemm_problem_key({1, 2, 3, 1}, ops::of_parts(plain)) ==
        ops::gemm_problem_key({1, 2, 3, 1}, ops::chosen(plain, {3, 1})));
}

TEST_CASE("what is made ahead is what a call launches; a rung is never cut") {
  GemmConfig config;
  config.m = config.n = 128;
  config.k = 16384;
  config.out = DType::bf16;
  const auto names = [&](const ops::GemmChoice& choice) {
    std::string text;
    const ops::Kernel kernel = ops::gemm_kernel_of(ops::gemm_problem_key(config), choice);
    for (const ops::NeededKernel& needed : ops::gemm_needed_kernels(config, kernel))
      text += needed.op->request_of(needed.kernel).name + " ";
    return text;
  };
  CHECK(names({6, 8}) == "sum_parts_bf16 gemm_f16_f32_kk_64x64x128_parts ");
  CHECK(names({6, 1}) == "gemm_f16_bf16_kk_64x64x128 ");
  config.k = 16383;
  CHECK(names({6, 8}) == "copy_rows sum_parts_bf16 gemm_f16_f32_kk_64x64x128_parts ");
  const auto copies = [&](const char* tile) { return has(names({test::gemm_tile_named(tile), 1}), "copy_rows"); };
  CHECK(!copies("32x64x128sr"));     // threads read both operands
  CHECK(copies("96x64x128c1x2sr"));  // they read b alone
  config.a_transposed = true;
  CHECK(!copies("96x64x128c1x2sr"));  // M is contiguous, of whole 16 bytes
  CHECK(copies("64x64x128"));
  config.a_transposed = false;
  config.k = 16384;
  CHECK(!copies("96x64x128c1x2sr"));
  CHECK(ops::gemm_kernel(config, hopper()).parts);
  for (int rung = 3; rung < ops::kGemmOwnRung; ++rung) {
    const ops::Kernel kernel = ops::rung_kernel(ops::gemm_op(), ops::gemm_problem_key(config), rung, hopper());
    CHECK_FALSE(ops::gemm_kernel(kernel.small_key).parts);
    CHECK(ops::gemm_kernel(kernel.small_key).rung == rung);
  }
}

TEST_CASE("scratch memory holds the sums of parts that have iterations, behind copies of operands") {
  const auto bytes = [](const GemmArgs& args, int tile, int parts) {
    return ops::gemm_op().scratch_bytes(&args, {0, ops::GemmChoice{tile, parts}.number()});
  };
  constexpr int kTile = 6;  // 64x64x128
  REQUIRE(ops::gemm_choice_name({kTile, 1}) == "64x64x128");
  CHECK(bytes(call(101, 66, 1024), kTile, 1) == 0);
  CHECK(bytes(call(101, 66, 1024), kTile, 4) == std::size_t{4} * 101 * 68 * 4 + 192);  // rows of 16 bytes, whole places
  CHECK(bytes(call(101, 66, 1024), kTile, 100) == std::size_t{8} * 101 * 68 * 4 + 128);  // 8 iterations
  CHECK(bytes(call(101, 66, 1024, 1025), kTile, 1) == std::size_t{101} * 1024 * 2);
  CHECK(bytes(call(101, 66, 1024, 1025), kTile, 4) == std::size_t{101} * 1024 * 2 + 4 * 101 * 68 * 4 + 192);
  GemmArgs nothing = call(101, 66, 1024, 1025);
  nothing.alpha = 0;
  CHECK(bytes(nothing, kTile, 4) == 0);
  CHECK(ops::gemm_op().in_steps(&nothing, {0, ops::GemmChoice{kTile, 4}.number()}));
  CHECK_FALSE(ops::gemm_op().in_steps(&nothing, {0, ops::GemmChoice{kTile, 1}.number()}));
}

TEST_CASE("sums that are not laid out as they are read are refused; flags are named") {
  const GemmArgs args = call(10, 20, 30);
  const auto said = [&](const Tensor& sums, int parts) {
    const ops::SumPartsArgs sum{args, sums, parts};
    return error_of([&] { ops::sum_parts_op().validate(&sum, false); }).message;
  };
  void* const place = reinterpret_cast<void*>(std::uintptr_t{1} << 44);
  const Tensor good = Tensor::strided(place, args.d.device, DType::f32, {3, 10, 20}, {200, 20, 1});
  const ops::SumPartsArgs fine{args, good, 3};
  CHECK_NOTHROW(ops::sum_parts_op().validate(&fine, false));
  CHECK(has(said(good, 2), "for 2 parts; allowed: f32 [parts x batch, M, N]"));
  CHECK_FALSE(said(Tensor::strided(place, args.d.device, DType::f32, {3, 10, 20}, {210, 21, 1}), 3).empty());
  CHECK_FALSE(said(Tensor::strided(place, args.d.device, DType::f16, {3, 10, 20}, {200, 20, 1}), 3).empty());
  CHECK_FALSE(
      said(Tensor::strided(static_cast<char*>(place) + 4, args.d.device, DType::f32, {3, 10, 20}, {200, 20, 1}), 3)
          .empty());
  const auto flags = [](const ops::Op& op, const Flags& given) {
    return error_of([&] { op.requests(given); }).message;
  };
  CHECK(has(flags(ops::sum_parts_op(), {{"out", {"e4m3"}}}), "--out is 'e4m3'; allowed are f16, bf16, f32"));
  CHECK(has(flags(ops::sum_parts_op(), {{"tile", {"1"}}}), "--tile means nothing to sum_parts; allowed are --out"));
  CHECK(has(flags(ops::gemm_op(), {{"dtype", {"f16"}}, {"rung", {"v4"}}, {"parts", {"true"}}}),
            "--parts is 'true' with --rung v4"));
  CHECK(has(flags(ops::gemm_op(), {{"dtype", {"e4m3"}}, {"a-major", {"m"}}, {"parts", {"true"}}}),
            "--a-major is 'm'; allowed with --dtype e4m3: k"));
  CHECK(has(error_of([] { ops::gemm_tunable().problems({{"sizes", {"64"}}, {"parts", {"true"}}}); }).message,
            "--parts is given; whether K is cut is what is measured"));
}

TEST_CASE("measuring has every tile whole, and in parts where its tiles leave SMs idle") {
  const auto names = [](const std::string& size) {
    std::vector<std::string> list;
    for (const ops::Variant& variant : ops::gemm_tunable().variants(
             ops::gemm_tunable().problems({{"sizes", {size}}, {"dtype", {"f16"}}}).front(), hopper()))
      list.push_back(variant.name);
    return list;
  };
  const auto parts_of = [](const std::string& name) { return has(name, "k"); };
  const auto few = names("128x128x8192"), many = names("1990x5120x17912"), large = names("8192");
  const auto shared = [](const std::string& name) { return has(name, "+split"); };
  const auto walked = std::count_if(few.begin(), few.end(), shared);
  // Their K is cut already.
  const auto sliced = [](const std::string& name) { return has(name, "c1x1x") || has(name, "c2x1x"); };
  const auto slices = std::count_if(few.begin(), few.end(), sliced);
  CHECK(slices > 0);
  CHECK(std::count_if(few.begin(), few.end(), parts_of) ==
        (static_cast<std::ptrdiff_t>(few.size()) - walked - slices) / 2);
  for (const auto* list : {&few, &many, &large})
    for (const std::string& name : *list) CHECK_FALSE((sliced(name) && has(name, "+")));
  CHECK(std::none_of(large.begin(), large.end(), parts_of));
  // Blocks that draw their tiles are measured where there are more tiles than places, for the three best.
  const auto drawn = [](const std::string& name) { return has(name, "+dynamic"); };
  CHECK(std::none_of(few.begin(), few.end(), drawn));
  CHECK(std::count_if(many.begin(), many.end(), drawn) == 3);
  CHECK(std::count_if(large.begin(), large.end(), drawn) == 3);  // the one that a call takes is among them
  CHECK(drawn(large[0]));                                        // what a call takes, and its persistent form beside it
  CHECK(std::count(large.begin(), large.end(), large[0].substr(0, large[0].find('+'))) == 1);
  // Blocks that share tiles are measured where these fill no whole wave and are long enough to be cut.
  CHECK(walked == 3);
  CHECK(shared(many[0]));  // what a call takes is the first, and there once
  CHECK(std::count_if(many.begin(), many.end(), shared) == 4);
  const auto drawn_first = names("12326x7168x4608");
  for (const auto* list : {&many, &large, &drawn_first})
    CHECK(std::set<std::string>(list->begin(), list->end()).size() == list->size());
  const auto waves = names("1408x1536x4096"), flat = names("5000x5000x200");
  CHECK(std::none_of(waves.begin(), waves.end(), [&](const std::string& name) { return name == "128x128x64+split"; }));
  CHECK(std::none_of(flat.begin(), flat.end(), shared));
}
