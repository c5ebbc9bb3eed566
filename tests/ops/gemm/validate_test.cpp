// Protects gemm's checks and choices without running a kernel: what is refused and in which words, what is accepted,
// which order an operand is taken in, which tile a problem gets, and that a request survives the command line and the
// key.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "arch/arch.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/rates.hpp"
#include "support/expect.hpp"

using namespace tj;

namespace {

using testing::error_of;
using testing::has;

const arch::Arch& hopper() { return *arch::find("sm_90a"); }

alignas(256) std::uint16_t memory_a[1 << 12], memory_b[1 << 12];
alignas(256) float memory_c[1 << 12], memory_d[1 << 12], memory_bias[1 << 8], memory_scale[2];
constexpr Device kCpu{DeviceKind::cpu, 0};

/// M 24, N 40, K 32, f16 to f32, with a c and a bias.
GemmArgs good() {
  GemmArgs args;
  args.a = Tensor::contiguous(memory_a, kCpu, DType::f16, {24, 32});
  args.b = Tensor::contiguous(memory_b, kCpu, DType::f16, {40, 32});
  args.d = Tensor::contiguous(memory_d, kCpu, DType::f32, {24, 40});
  args.c = Tensor::contiguous(memory_c, kCpu, DType::f32, {24, 40});
  args.bias = Tensor::contiguous(memory_bias, kCpu, DType::f32, {40});
  args.beta = 1;
  return args;
}

void refused(const std::function<void(GemmArgs&)>& change, Code code, std::initializer_list<const char*> parts) {
  GemmArgs args = good();
  change(args);
  testing::check_argument_error(error_of([&] { ops::validate(args, true); }), code, parts);
}

void accepted(const std::function<void(GemmArgs&)>& change) {
  GemmArgs args = good();
  change(args);
  CHECK_NOTHROW(ops::validate(args, true));
}

std::string tile_for(std::int64_t m, std::int64_t n, std::int64_t k, bool right_mn = false, DType dtype = DType::f16) {
  ops::GemmKernel kernel;
  kernel.dtype = dtype;
  kernel.right_mn = right_mn;
  return ops::gemm_tile_name(
      ops::gemm_tiles()[static_cast<std::size_t>(ops::choose_gemm({m, n, k, 1}, kernel, hopper()).tile)]);
}

}  // namespace

TEST_CASE("what gemm does not take is named with its value and what is allowed") {
  constexpr Code bad = Code::invalid_argument, unsupported = Code::unsupported;
  refused([](GemmArgs& g) { g.a.data = nullptr; }, bad, {"gemm: a.data is null"});
  refused([](GemmArgs& g) { g.d.rank = 4; }, bad, {"d.rank is 4", "[M, N], or [B, M, N]"});
  refused([](GemmArgs& g) { g.a.rank = 3; }, bad, {"a.rank is 3", "allowed: 2"});
  refused([](GemmArgs& g) { g.d.shape[0] = -1; }, bad, {"d.shape[0] (M) is -1"});
  refused([](GemmArgs& g) { g.a.dtype = DType::f32; }, unsupported, {"a.dtype is f32", "f16, bf16"});
  refused([](GemmArgs& g) { g.a.dtype = DType::i32; }, unsupported, {"a.dtype is i32", "f16, bf16, e4m3"});
  refused([](GemmArgs& g) { g.d.dtype = DType::e4m3; }, bad, {"d.dtype is e4m3", "f16, bf16, f32"});
  refused([](GemmArgs& g) { g.b.dtype = DType::bf16; }, bad, {"b.dtype is bf16", "f16, as a.dtype"});
  refused([](GemmArgs& g) { g.d.dtype = DType::i32; }, unsupported, {"d.dtype is i32", "f16, bf16, f32"});
  refused([](GemmArgs& g) { g.c->dtype = DType::f16; }, bad, {"c.dtype is f16", "f32, as d.dtype"});
  refused([](GemmArgs& g) { g.b.device = {DeviceKind::cuda, 0}; }, bad, {"b.device is cuda:0", "a.device is cpu"});
  refused([](GemmArgs& g) { g.a.device = {DeviceKind::cuda, 0}; }, bad, {"a.device is cuda:0", "model target"});
  refused([](GemmArgs& g) { g.a.shape[0] = 25; }, bad, {"a.shape[0] (M) is 25", "24, as d's M"});
  refused([](GemmArgs& g) { g.b.shape[1] = 33; }, bad, {"b.shape[1] (K) is 33", "32"});
  refused([](GemmArgs& g) { g.bias->shape[0] = 41; }, bad, {"bias.shape[0] (N) is 41", "40"});
  refused([](GemmArgs& g) { g.b.strides = {64, 2}; }, unsupported,
          {"b.strides of N and K are 64 and 2", "1 for one of them"});
  refused([](GemmArgs& g) { g.b.data = reinterpret_cast<char*>(memory_b) + 1; }, unsupported,
          {"b.data is", "multiples of 2 bytes"});
  refused([](GemmArgs& g) { g.d.strides = {1, 24}; }, unsupported,
          {"d.strides[1] (N) is 24", "contiguous last dimension"});
  refused([](GemmArgs& g) { g.d.strides[0] = 39; }, unsupported, {"d.strides[0] (M) is 39", "no two elements"});
  refused([](GemmArgs& g) { g.d.data = memory_a; }, unsupported, {"d at", "overlaps a"});
  refused([](GemmArgs& g) { g.c->data = memory_d + 1; }, unsupported, {"d at", "overlaps c"});
  refused([](GemmArgs& g) { g.bias->data = memory_d; }, unsupported, {"d at", "overlaps bias"});
  refused([](GemmArgs& g) { g.c.reset(); }, bad, {"beta is 1", "c is absent"});
  refused([](GemmArgs& g) { g.alpha = std::numeric_limits<float>::infinity(); }, bad, {"alpha is inf", "finite"});
  refused([](GemmArgs& g) { g.beta = std::nanf(""); }, bad, {"beta is nan", "finite"});
  refused([](GemmArgs& g) { g.activation = static_cast<Activation>(7); }, bad,
          {"activation is 7", "3 (silu), 4 (gelu_tanh)"});
}

TEST_CASE("of e4m3 what the matrix unit does not take, and scales that are none, are named") {
  constexpr Code bad = Code::invalid_argument, unsupported = Code::unsupported;
  const auto narrow = [](const std::function<void(GemmArgs&)>& change) {
    return [change](GemmArgs& g) {
      g.a.dtype = g.b.dtype = DType::e4m3;
      g.scale_a = Tensor::contiguous(memory_scale, kCpu, DType::f32, {1});
      g.scale_b = Tensor::contiguous(memory_scale + 1, kCpu, DType::f32, {});
      change(g);
    };
  };
  accepted(narrow([](GemmArgs&) {}));
  accepted(narrow([](GemmArgs& g) { g.scale_a.reset(); }));
  accepted(narrow([](GemmArgs& g) {  // one column: no order
    g.a = Tensor::strided(memory_a, kCpu, DType::e4m3, {24, 1}, {16, 1});
    g.b = Tensor::strided(memory_b, kCpu, DType::e4m3, {40, 1}, {16, 7});
  }));
  refused(narrow([](GemmArgs& g) { g.a.strides = {1, 32}; }), unsupported,
          {"a.strides[1] (K) is 32", "e4m3", "K contiguous"});
  refused(narrow([](GemmArgs& g) { g.b.strides = {1, 48}; }), unsupported, {"b.strides[1] (K) is 48", "e4m3"});
  refused(narrow([](GemmArgs& g) { g.b.dtype = DType::f16; }), bad, {"b.dtype is f16", "e4m3, as a.dtype"});
  refused(narrow([](GemmArgs& g) { g.scale_a->dtype = DType::f16; }), bad, {"scale_a.dtype is f16", "f32"});
  refused(narrow([](GemmArgs& g) { g.scale_a->shape[0] = 24; }), bad, {"scale_a.shape[0] (1) is 24", "allowed: 1"});
  refused(narrow([](GemmArgs& g) { g.scale_b->rank = 2; }), bad,
          {"scale_a.rank is 1", "scales of blocks", "of both, or of neither"});
  refused(narrow([](GemmArgs& g) { g.scale_b->data = nullptr; }), bad, {"scale_b.data is null"});
  refused(narrow([](GemmArgs& g) { g.scale_b->device = {DeviceKind::cuda, 0}; }), bad,
          {"scale_b.device is cuda:0", "b.device is cpu"});
  refused(narrow([](GemmArgs& g) { g.scale_b->data = memory_d + 7; }), unsupported, {"d at", "overlaps scale_b"});
  refused([](GemmArgs& g) { g.scale_a = Tensor::contiguous(memory_scale, kCpu, DType::f32, {1}); }, bad,
          {"scale_a is given with a.dtype f16", "allowed with e4m3"});
  GemmConfig config;
  config.dtype = DType::e4m3;
  CHECK_NOTHROW(ops::validate(config));
  config.b_transposed = true;
  CHECK(has(error_of([&] { ops::validate(config); }).message, "b_transposed is true; allowed with e4m3: false"));
  config.b_transposed = false;
  config.out = DType::i32;
  CHECK(has(error_of([&] { ops::validate(config); }).message, "out is i32; allowed: f16, bf16, f32, or e4m3"));
}

TEST_CASE("what gemm takes: transposed operands, shared batches, c that is d, a c that nobody reads") {
  accepted([](GemmArgs&) {});
  accepted([](GemmArgs& g) { g.a.strides = {1, 24}; });
  accepted([](GemmArgs& g) { g.a.strides[0] = 33; });  // rows between multiples of 16 bytes are copied first
  accepted([](GemmArgs& g) { g.b.data = memory_b + 1; });
  accepted([](GemmArgs& g) { g.c = g.d; });
  accepted([](GemmArgs& g) {
    g.beta = 0;
    g.c->data = nullptr;
  });
  accepted([](GemmArgs& g) {
    g.d = Tensor::contiguous(memory_d, kCpu, DType::f32, {2, 24, 40});
    g.a = Tensor::contiguous(memory_a, kCpu, DType::f16, {2, 24, 32});
  });
}

TEST_CASE("the order of an operand follows its strides, and its sizes where both dimensions pass for contiguous") {
  const auto mn = [](std::initializer_list<std::int64_t> shape, std::initializer_list<std::int64_t> strides) {
    return ops::gemm_mn_major(Tensor::strided(memory_a, kCpu, DType::f16, shape, strides));
  };
  CHECK_FALSE(mn({24, 32}, {32, 1}));
  CHECK(mn({24, 32}, {1, 24}));
  CHECK_FALSE(mn({1, 32}, {1, 1}));
  CHECK_FALSE(mn({1, 1}, {1, 1}));
  CHECK(mn({24, 1}, {1, 1}));  // rows 2 bytes apart: only as columns
  CHECK_FALSE(mn({24, 1}, {8, 1}));
  CHECK(mn({1, 32}, {1, 8}));
  CHECK(mn({2, 24, 32}, {1000, 1, 24}));
}

TEST_CASE("large products get the large tile, few rows a low one, small products one that reaches all SMs") {
  // Pairs of blocks must be predicted to gain 5%, where there are few waves.
  CHECK(tile_for(4096, 4096, 4096) == "208x128x64s");
  CHECK(tile_for(4096, 4096, 16384) == "128x256x64");
  CHECK(tile_for(8192, 8192, 8192) == "192x128x64c1x2s");
  CHECK(tile_for(16384, 16384, 16384) == "208x128x64c1x2s");
  CHECK(tile_for(2048, 2048, 2048) == "128x128x64");
  CHECK(tile_for(4104, 4104, 4104) == "144x192x64c2x1s");  // fewer rows outside, and rows off their lines are shared
  CHECK(tile_for(1024, 1024, 1024) == "128x64x64");
  CHECK(tile_for(1000, 1000, 1000) == "128x64x64c1x2");  // rows off their lines: two blocks share them
  CHECK(tile_for(524, 5120, 4096) == "176x128x64s");     // three tiles of 176 rows, where five of 128 would be
  CHECK(tile_for(128, 24576, 1536) == "128x64x64");
  CHECK(tile_for(64, 7168, 2048) == "64x64x128");  // 112 tiles; 128 of 56 columns would store from registers
  CHECK(tile_for(16, 4096, 4096) == "16x64x128s");
  CHECK(tile_for(1, 8192, 8192) == "16x64x128s");  // memory bounds both: predicted alike, and the larger has fewer ends
  CHECK(tile_for(17, 4096, 4096) == "24x64x128s");          // 64 tiles; two blocks for each are predicted alike
  CHECK(tile_for(141, 4096, 5376) == "72x64x128s");         // swapped: two tiles of 72 rows, where three of 64 would be
  CHECK(tile_for(85, 4072, 4088) == "48x64x128c2x1s");      // rows off lines: two tiles that share what is copied of b
  CHECK(tile_for(316, 75962, 4056) == "176x128x64c1x2s");   // two tiles of rows, not three
  CHECK(tile_for(9004, 14336, 4096) != "192x128x64c1x4s");  // many, which lose 13% (H200, 2026-11-26)
  CHECK(tile_for(16, 4096, 4096, true) == "16x64x128s");    // b's columns lie in blocks of 64
  CHECK(tile_for(512, 512, 512) == "64x64x128");            // 64 tiles, which begin beside the launch before
  for (const std::int64_t large : {std::int64_t{1} << 30, std::int64_t{1} << 31})  // far beyond 64-bit products
    CHECK(tile_for(large, large, large) == "128x256x64");  // tiles of clusters cannot be counted
}

TEST_CASE("rows that are copied first count as whole lines, others as they lie") {
  const ops::GemmRates rates = ops::gemm_rates_of(*arch::find("sm_90a"));
  ops::GemmKernel kernel;
  const auto cycles = [&](std::int64_t k) { return ops::GemmPrediction({4096, 4096, k}, kernel, 0, rates).cycles(1); };
  const double copies = 2 * (rates.next_launch_cycles + 2.0 * 4096 * 6139 * 2 / rates.memory_bytes_per_cycle);
  CHECK(cycles(6139) - copies == doctest::Approx(cycles(6144)).epsilon(0.01));  // copied, to rows of 6144
  CHECK(cycles(6136) > 1.2 * cycles(6144));                                     // read as they lie
}

TEST_CASE("larger clusters are taken in one wave, with K in parts too") {
  for (const ops::GemmSizes& sizes : {ops::GemmSizes{158, 11168, 28976, 1}, ops::GemmSizes{528, 2976, 19432, 1}})
    for (const ops::RankedGemm& ranked : ops::rank_gemm(sizes, {}, hopper())) {
      const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)];
      if (tile.blocks() > 2 && ranked.choice.parts > 1)
        CHECK(ops::clusters_of(sizes, tile) * ranked.choice.parts <= ops::cluster_places(sizes, tile, hopper()));
    }
}

TEST_CASE("swapped tiles take an addend; those whose threads read take operands contiguous in K alone") {
  for (const ops::GemmTile& tile : ops::gemm_tiles())
    if (tile.swapped) {
      CAPTURE(ops::gemm_tile_name(tile));
      ops::GemmKernel plain;
      if (tile.element_bytes == 1) plain.dtype = DType::e4m3;
      ops::GemmKernel with_addend = plain, turned = plain, scaled = plain;
      with_addend.add_c = true;
      turned.right_mn = true;
      scaled.scales = Scales::block;
      CHECK(ops::gemm_tile_fits(tile, plain));
      CHECK_FALSE(ops::gemm_tile_fits(tile, scaled));
      const bool few = !tile.reads || tile.block_m <= 64;  // more sums leave no registers beside threads that read
      CHECK(ops::gemm_tile_fits(tile, with_addend) == few);
      with_addend.out = DType::f32;  // two products of many rows have no registers for it
      CHECK(ops::gemm_tile_fits(tile, with_addend) == (few && (tile.block_n < 256 || tile.block_m <= 136)));
      with_addend.out = DType::f16;
      CHECK(ops::gemm_tile_fits(tile, turned) == (!tile.reads && tile.element_bytes == 2));
    }
}

TEST_CASE("no tile is offered whose number is beyond 32 bits") {
  for (const std::int64_t n : {1, 32})
    for (const std::int64_t m : {17, 64}) {
      const ops::GemmSizes sizes{m, n, 64, std::int64_t{1} << 30};
      const auto ranking = ops::rank_gemm(sizes, {}, hopper());
      CHECK_FALSE(ranking.empty());
      for (const ops::RankedGemm& ranked : ranking) {
        const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)];
        CAPTURE(ops::gemm_tile_name(tile));
        CHECK(ops::clusters_of(sizes, tile) * tile.blocks() < 2147483648.0);
      }
    }
}

TEST_CASE("a tile's products hold the matrix unit as long as their sums take, swapped or not") {
  for (const ops::GemmTile& tile : ops::gemm_tiles()) {
    if (tile.element_bytes != 2 || ops::gemm_blocks_per_sm(tile, hopper()) == 0) continue;
    CAPTURE(ops::gemm_tile_name(tile));
    ops::GemmKernel kernel;
    kernel.tile = static_cast<int>(&tile - ops::gemm_tiles().data());
    const graph::Graph graph = ops::gemm_candidate(kernel, hopper()).graph;
    const double whole = 2.0 * tile.block_m * tile.block_n * tile.block_k / hopper().fact("matrix_flops_per_cycle");
    double held = 0;
    for (const graph::Node& node : graph.nodes)
      if (node.body == "mma") held += node.reservations.front().cycles;
    // Rows that a consumer leaves unused count; so do columns below the least that an instruction takes.
    const double rows = std::max(64, tile.sum_rows()), all = whole * rows / tile.sum_rows();
    CHECK(held >= all);
    CHECK(held <= all + 24.0 * tile.consumers() * tile.block_k / 16);
  }
}

TEST_CASE("products of e4m3 get tiles of their own") {
  CHECK(tile_for(8192, 8192, 8192, false, DType::e4m3) == "128x192x128");
  CHECK(tile_for(4096, 4096, 4096, false, DType::e4m3) == "176x128x128s");
  CHECK(tile_for(16, 4096, 4096, false, DType::e4m3) == "16x64x256c1x1x2s");
  for (const std::int64_t size : {1, 100, 512, 1000, 2048, 16384}) {
    ops::GemmKernel kernel;
    kernel.dtype = DType::e4m3;
    for (const ops::RankedGemm& ranked : ops::rank_gemm({size, size, size, 1}, kernel, hopper()))
      CHECK(ops::gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)].element_bytes == 1);
  }
  arch::Arch without = hopper();
  without.facts.erase("matrix_flops_per_cycle_8bit");
  ops::GemmKernel kernel;
  CHECK(ops::choose_gemm({512, 512, 512, 1}, kernel, without) ==
        ops::choose_gemm({512, 512, 512, 1}, kernel, hopper()));
  kernel.dtype = DType::e4m3;
  CHECK(has(error_of([&] { ops::choose_gemm({512, 512, 512, 1}, kernel, without); }).message,
            "fact 'matrix_flops_per_cycle_8bit'"));
}

TEST_CASE("an arch that lacks a fact is refused by its name, one that nobody knows gets the same tiles") {
  arch::Arch other = hopper();
  CHECK(ops::choose_gemm({4096, 4096, 4096, 1}, {}, other) == ops::choose_gemm({4096, 4096, 4096, 1}, {}, hopper()));
  other.facts.erase("matrix_drain_cycles");
  const Error error = error_of([&] { ops::choose_gemm({1, 1, 1, 1}, {}, other); });
  CHECK(error.stage == Stage::target);
  CHECK(has(error.message, "fact 'matrix_drain_cycles'"));
}

TEST_CASE("an arch without clusters gets none, and one that is asked for by name is refused with what it has") {
  arch::Arch without = hopper();
  without.max_cluster = 1;
  const ops::RankedGemm chosen = ops::rank_gemm({1000, 1000, 1000, 1}, {}, without).front();
  CHECK(ops::gemm_tile_name(ops::gemm_tiles()[static_cast<std::size_t>(chosen.choice.tile)]) == "128x128x64");
  for (const ops::RankedGemm& ranked : ops::rank_gemm({1000, 1000, 1000, 1}, {}, without))
    CHECK(ops::gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)].blocks() == 1);
  const ops::Request request = ops::gemm_op().requests({{"dtype", {"f16"}}, {"tile", {"128x128x64c2x1"}}}).front();
  CHECK(request.name == "gemm_f16_kk_128x128x64c2x1");
  const graph::Graph graph = ops::gemm_op().candidates(request, without).front().graph;
  CHECK(has(error_of([&] { graph::check(graph); }).message,
            "runs in clusters of 2 blocks; allowed on machine 'sm_90a' are 1 to 1"));
}

TEST_CASE("requests survive their fields, and no two kernels share a key or a name") {
  std::set<std::uint64_t> keys;
  std::set<std::string> names;
  const std::map<std::string, std::vector<std::string>> every = {
      {"dtype", {"f16", "bf16", "e4m3"}},
      {"out", {"f16", "bf16", "f32"}},
      {"a-major", {"k", "m"}},
      {"b-major", {"k", "n"}},
      {"bias", {"both"}},
      {"add-c", {"both"}},
      {"activation", {"none", "relu", "gelu", "silu", "gelu_tanh"}}};
  const auto requests = ops::gemm_op().requests(every);
  for (const ops::Request& request : requests) CHECK(names.insert(request.name).second);
  CHECK(requests.size() > 1000);
  ops::GemmKernel kernel;
  for (int tile = 0; tile < static_cast<int>(ops::gemm_tiles().size()); ++tile)
    for (const DType out : {DType::f16, DType::bf16, DType::f32})
      for (int bits = 0; bits < 64; ++bits) {
        kernel = {ops::gemm_tiles()[static_cast<std::size_t>(tile)].element_bytes == 1 && (bits & 1) != 0 ? DType::e4m3
                  : bits & 1                                                                              ? DType::bf16
                                                                                                          : DType::f16,
                  out,
                  (bits & 2) != 0,
                  (bits & 4) != 0,
                  (bits & 8) != 0,
                  (bits & 16) != 0,
                  bits & 32 ? Activation::silu : Activation::relu};
        kernel.tile = tile;
        const std::uint64_t key = ops::gemm_small_key(kernel);
        CHECK(keys.insert(key).second);
        CHECK(ops::gemm_request(ops::gemm_kernel(key)).fields == ops::gemm_request(kernel).fields);
      }
  CHECK(ops::gemm_op().requests({}).size() <= 16);
}

TEST_CASE("an operand whose rows are too many for the launch that copies them is refused as the caller knows it") {
  const auto place = [](int i) {
    return reinterpret_cast<void*>(std::uintptr_t{1} << 40 << i);
  };  // nothing looks there
  constexpr std::int64_t kDepth = std::int64_t{1} << 20;
  GemmArgs args;
  const auto set = [&](std::int64_t batch) {
    args.a = Tensor::strided(place(1), kCpu, DType::f16, {batch, 3, kDepth}, {3 * kDepth, 1, 3});
    args.b = Tensor::contiguous(place(2), kCpu, DType::f16, {batch, 40, kDepth});
    args.d = Tensor::contiguous(place(3), kCpu, DType::f16, {batch, 3, 40});
  };
  set(1024);
  CHECK_NOTHROW(ops::validate(args, true));
  set(1025);
  const Error error = error_of([&] { ops::validate(args, true); });
  CHECK(error.code == Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, "gemm: a.shape is [1025, 3, 1048576], and its rows are copied"), error.message);
  CHECK_MESSAGE(has(error.message, "B * K of at most 1073741824"), error.message);
  args.alpha = 0;  // reads neither
  CHECK_NOTHROW(ops::validate(args, true));
}

TEST_CASE("flags that mean nothing are named") {
  const auto said = [](std::map<std::string, std::vector<std::string>> flags) {
    return error_of([&] { ops::gemm_op().requests(flags); }).message;
  };
  CHECK(has(said({{"causal", {"true"}}}), "--causal means nothing to gemm; allowed are --dtype"));
  CHECK(has(said({{"mm", {"3"}}}), ", --c-type, and where sizes are asked for: --m, --n, --k, --batch, --sizes"));
  CHECK(has(said({{"tile", {"1x1"}}}), "--tile is '1x1'; allowed are 128x256x64"));
  CHECK(has(said({{"dtype", {"f8"}}}), "--dtype is 'f8'; allowed are f16, bf16, e4m3"));
  CHECK(has(said({{"tile", {"16x32x128"}}, {"a-major", {"m"}}}),
            "--tile is '16x32x128'; allowed with --dtype f16, --a-major m: 128x256x64, 128x192x64"));
  CHECK_FALSE(has(said({{"tile", {"16x32x128"}}, {"a-major", {"m"}}}), " 16x64x128,"));
  CHECK(has(said({{"tile", {"16x32x128"}}, {"a-major", {"m"}}}), " 16x64x128s,"));  // a box brings 64 rows there
  CHECK(has(said({{"tile", {"64x32x128"}}, {"b-major", {"n"}}}), "allowed with --dtype f16, --b-major n: "));
  CHECK_FALSE(has(said({{"tile", {"64x32x128"}}, {"b-major", {"n"}}}), ", 64x32x128"));
  CHECK(has(said({{"dtype", {"e4m3"}}, {"tile", {"128x256x64"}}}),
            "--tile is '128x256x64'; allowed with --dtype e4m3: 128x192x128, "));
  CHECK(has(said({{"dtype", {"e4m3"}}, {"rung", {"v4"}}}), "--rung is 'v4'; allowed with --dtype e4m3: v10"));
  CHECK(has(said({{"dtype", {"e4m3"}}, {"b-major", {"n"}}}), "--b-major is 'n'; allowed with --dtype e4m3: k"));
}
