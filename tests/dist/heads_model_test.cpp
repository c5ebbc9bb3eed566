// Protects attention that exchanges heads, on ranks of the CPU model: every split and mask against f64, by messages and
// by copies. The bits of one device, lists of sequences, and when heads are taken, are here, too.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "dist/context_call.hpp"
#include "dist/head_rows.hpp"
#include "dist/split_problem.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using dist::Exchange;
using dist::Split;
using test::FmhaProblem;
using test::split_case;
using test::SplitCase;

namespace {

class By {
 public:
  explicit By(const char* transport) { ::setenv("TJ_DIST_TRANSPORT", transport, 1); }
  ~By() { ::unsetenv("TJ_DIST_TRANSPORT"); }
  By(const By&) = delete;
  By& operator=(const By&) = delete;
};

void by_heads(int, dist::ContextFmhaArgs& args) { args.exchange = Exchange::heads; }

/// "", or what is wrong with some calls of a case.
std::string run(const SplitCase& what, std::uint64_t seed, int calls = 1, const std::string& target = "model:sm_90a",
                const std::function<void(int, dist::ContextFmhaArgs&)>& change = by_heads) {
  auto members = dist::Group::on_model(testing::model_runtime(target), static_cast<int>(what.lengths.size()));
  for (int n = 0; n < calls; ++n) {
    FmhaProblem whole(what.shape, seed++);
    for (const std::string& said : run_split(whole, what, members, change))
      if (!said.empty()) return said;
    if (std::string wrong = whole.problem(); !wrong.empty()) return wrong;
  }
  return "";
}

SplitCase with_heads(Split split, std::vector<std::int64_t> lengths, bool causal, int heads, int heads_kv) {
  SplitCase what = split_case(split, std::move(lengths), causal);
  what.shape.heads = heads;
  what.shape.heads_kv = heads_kv;
  return what;
}

}  // namespace

TEST_CASE("each split by exchanged heads, whose keys ranks have alone or in common, against f64") {
  std::uint64_t seed = 1;
  for (const char* transport : {"nccl", "ipc"}) {
    const By by(transport);
    for (const int ranks : {2, 3, 4})
      for (const Split split : {Split::contiguous, Split::zigzag, Split::striped}) {
        const bool shared = seed % 2 == 0;
        SplitCase what = with_heads(split, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 30),
                                    seed % 3 != 0, 2 * ranks, shared ? 1 : ranks);
        what.shape.batch = seed % 4 == 0 ? 2 : 1;
        what.shape.rows_first = seed % 4 < 2;
        what.shape.with_lse = seed % 5 != 0;
        what.shape.dtype = seed % 2 == 0 ? DType::bf16 : DType::f16;
        const std::string text = what.text() + " " + transport;
        CAPTURE(text);
        CHECK(run(what, seed++) == "");
      }
    SplitCase what = with_heads(Split::zigzag, {24, 24, 24, 24}, true, 8, 2);  // a head of keys for two ranks each
    what.shape.value_dim = 128;
    CHECK(run(what, seed++, 3) == "");
  }
  CHECK(run(with_heads(Split::striped, {33, 33}, true, 4, 2), seed++, 1, "model:sm_80") == "");
  CHECK(run(with_heads(Split::contiguous, {20, 33}, false, 4, 2), seed++, 1, "model:gfx1100",
            [](int, dist::ContextFmhaArgs& args) {
              args.exchange = Exchange::heads;
              args.lengths = {20, 33};
            }) == "");
}

TEST_CASE("any mask goes with any split, without being asked for; runs are uneven or empty") {
  std::uint64_t seed = 40;
  const auto any = [](int, dist::ContextFmhaArgs&) {};
  for (const char* transport : {"nccl", "ipc"}) {
    const By by(transport);
    SplitCase what = with_heads(Split::striped, {40, 40}, true, 4, 2);
    what.shape.window.left = 21;
    what.shape.alibi = 2;
    what.shape.sinks = true;
    what.shape.batch = 2;
    CHECK(run(what, seed++, 1, "model:sm_90a", any) == "");
    what = with_heads(Split::zigzag, {40, 40}, false, 4, 1);
    what.shape.window = {20, 30};
    what.shape.alibi = 1;
    what.shape.softcap = 20;
    CHECK(run(what, seed++, 1, "model:sm_90a", any) == "");
    what = with_heads(Split::contiguous, {50, 0, 7}, true, 3, 3);
    what.told = true;
    CHECK(run(what, seed++, 2) == "");
  }
}

TEST_CASE("ranks of two have the bits of one device") {
  for (const Split split : {Split::contiguous, Split::zigzag, Split::striped}) {
    std::vector<std::vector<std::uint16_t>> outputs;
    for (const std::int64_t ranks : {1, 2}) {
      const SplitCase what =
          with_heads(split, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 256 / ranks), true, 4, 2);
      auto members = dist::Group::on_model(testing::model_runtime("model:sm_80"), static_cast<int>(ranks));
      FmhaProblem whole(what.shape, 7);
      for (const std::string& said : run_split(whole, what, members, by_heads)) CHECK(said == "");
      const auto* o = static_cast<const std::uint16_t*>(whole.args.o.data);
      outputs.emplace_back(o, o + 256 * 4 * 64);
    }
    CHECK(outputs[0] == outputs[1]);
  }
}

TEST_CASE("rows of sequences that ranks hold together, of lengths on the device") {
  constexpr std::int64_t kRows = 96, kHeads = 4, kWidth = 64;
  constexpr Device kCpu{DeviceKind::cpu, 0};
  std::vector<std::int32_t> begins{0, 31, 31, 80, 96};
  const Tensor list = Tensor::contiguous(begins.data(), kCpu, DType::i32, {5});
  for (const char* transport : {"nccl", "ipc"})
    for (const bool causal : {true, false}) {
      const By by(transport);
      SplitCase what = with_heads(Split::zigzag, {48, 48}, causal, kHeads, 2);
      FmhaProblem whole(what.shape, 9), wanted(what.shape, 9);
      auto members = dist::Group::on_model(testing::model_runtime(), 2);
      const auto said =
          run_split(whole, what, members, [&](int, dist::ContextFmhaArgs& args) { args.cu_seqlens = list; });
      CHECK(said == std::vector<std::string>(2));
      FmhaArgs one = wanted.args;
      for (Tensor* const t : {&one.q, &one.k, &one.v, &one.o})
        *t = Tensor::contiguous(t->data, kCpu, DType::f16, {kRows, t->shape[1], kWidth});
      one.lse->rank = 2;
      one.lse->shape = {kHeads, kRows};
      one.lse->strides = {kRows, 1};
      one.cu_seqlens_q = one.cu_seqlens_k = list;
      testing::model_runtime().run(one);
      const auto* const found = static_cast<const std::uint16_t*>(whole.args.o.data);
      const auto* const expected = static_cast<const std::uint16_t*>(wanted.args.o.data);
      CHECK(std::equal(found, found + kRows * kHeads * kWidth, expected));
      const auto *const lse = static_cast<const float*>(whole.args.lse->data), *const lse_expected =
                                                                                   static_cast<const float*>(
                                                                                       wanted.args.lse->data);
      CHECK(std::equal(lse, lse + kRows * kHeads, lse_expected));
    }
}

TEST_CASE("heads are taken where they are predicted to be faster, and never where they do not suffice") {
  const auto takes = [](Split split, std::int64_t rows, std::int64_t heads, std::int64_t key_heads, bool causal) {
    struct Four final : dist::Transport {
      int rank() const noexcept override { return 0; }
      int size() const noexcept override { return 4; }
      void exchange(std::span<const dist::Send>, std::span<const dist::Receive>, Stream) override {}
      void check() override {}
      void give_up(std::string_view) noexcept override {}
    } transport;
    launch::SideStream side;
    bool begun = false;
    struct Memory final : launch::PeerMemory {
      std::shared_ptr<void> host_memory(int, std::size_t) override { return nullptr; }
      launch::SharedMemory share(int, const std::shared_ptr<void>&) override { return {}; }
      std::shared_ptr<void> open_shared(int, const launch::SharedMemory&) override { return nullptr; }
      void copy_rows(int, const launch::RowsToCopy&, Stream) override {}
      bool idle(int, Stream) override { return true; }
    } memory;
    const dist::Member member{transport, {}, {},     {}, {}, {}, {}, side, begun, nullptr, dist::Order::predicted,
                              side,      0,  &memory};
    dist::ContextFmhaArgs args;
    const auto tensor = [&](std::int64_t count) {
      return Tensor::strided(nullptr, {}, DType::f16, {1, count, rows, 128}, {rows * count * 128, 128, count * 128, 1});
    };
    args.q = args.o = tensor(heads);
    args.k = args.v = tensor(key_heads);
    args.causal = causal;
    args.split = split;
    return dist::takes_heads(member, args);
  };
  CHECK(takes(Split::contiguous, 32768, 32, 8, true));   // the last rank has most of the products
  CHECK(!takes(Split::contiguous, 256, 32, 8, true));    // bytes go there and back
  CHECK(!takes(Split::zigzag, 32768, 32, 8, true));      // keys travel beside products
  CHECK(!takes(Split::contiguous, 32768, 30, 6, true));  // no multiple of four
  CHECK(!takes(Split::contiguous, 32768, 36, 6, true));  // six heads of keys
  CHECK(dist::key_heads(32, 2, 4, 2) == dist::Range{1, 2});
}

TEST_CASE("what heads cannot do is refused by name, and keys alone refuse what they do not serve") {
  SplitCase what = with_heads(Split::zigzag, {8, 8}, true, 3, 3);
  FmhaProblem whole(what.shape, 3);
  auto members = dist::Group::on_model(testing::model_runtime(), 2);
  const auto refuses = [&](const std::string& part, const std::function<void(dist::ContextFmhaArgs&)>& change) {
    const auto said = run_split(whole, what, members, [&](int, dist::ContextFmhaArgs& args) { change(args); });
    CHECK_MESSAGE(testing::has(said[0], part), said[0]);
    CHECK_MESSAGE(testing::has(said[1], part), said[1]);
  };
  std::int32_t begins[] = {0, 16};
  const Tensor list = Tensor::contiguous(begins, {DeviceKind::cpu, 0}, DType::i32, {2});
  refuses("exchange is heads with q.shape[1] (H) of 3 and k.shape[1] (Hkv) of 3 on 2 ranks; allowed: H a multiple",
          [](auto& args) { args.exchange = Exchange::heads; });
  refuses("exchange is 7; allowed: automatic (0), keys (1), heads (2)",
          [](auto& args) { args.exchange = static_cast<Exchange>(7); });
  refuses("cu_seqlens is given where keys are exchanged", [&](auto& args) { args.cu_seqlens = list; });
  refuses("window.left is 4 without causal", [](auto& args) {
    args.causal = false;
    args.window.left = 4;
  });
  what = with_heads(Split::zigzag, {8, 8}, true, 2, 2);
  what.shape.batch = 2;
  FmhaProblem two(what.shape, 3);
  const auto said = run_split(two, what, members, [&](int, dist::ContextFmhaArgs& args) { args.cu_seqlens = list; });
  CHECK_MESSAGE(testing::has(said[0], "q.shape[0] (B) is 2 with cu_seqlens; allowed: 1"), said[0]);
}
