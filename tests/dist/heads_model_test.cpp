// Protects attention that exchanges heads, on ranks of the CPU model: every split and mask against f64, by messages and
// by copies. The bits of one device, lists of sequences, and when heads are taken, are here, too.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
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
#include "support/full.hpp"
#include "support/model_runtime.hpp"
#include "support/variable.hpp"

using namespace tj;
using dist::Exchange;
using dist::Split;
using test::FmhaProblem;
using test::split_case;
using test::SplitCase;

namespace {

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
  int index = 0;
  for (const char* transport : {"nccl", "ipc"}) {
    const testing::Variable by("TJ_DIST_TRANSPORT", transport);
    for (const int ranks : {2, 3, 4})
      for (const Split split : {Split::contiguous, Split::zigzag, Split::striped}) {
        if (testing::thinned_out(index++)) continue;
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
    const testing::Variable by("TJ_DIST_TRANSPORT", transport);
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
      const testing::Variable by("TJ_DIST_TRANSPORT", transport);
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

namespace {

/// takes_heads() on rank 0 of four, with a driver that copies rows or without one.
bool takes(const dist::ContextFmhaArgs& args, bool copies = true) {
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
  const dist::Member member{transport, {}, {}, {}, {}, {}, {}, side, begun, nullptr, dist::Order::predicted, side, 0};
  dist::Member with = member;
  if (copies) with.memory = &memory;
  with.rates = dist::rates_of(*arch::find("sm_90a"));
  return dist::takes_heads(with, args);
}

dist::ContextFmhaArgs call_of(std::int64_t rows, std::int64_t heads, std::int64_t key_heads) {
  dist::ContextFmhaArgs args;
  const auto tensor = [&](std::int64_t count) {
    return Tensor::strided(nullptr, {}, DType::f16, {1, count, rows, 128}, {rows * count * 128, 128, count * 128, 1});
  };
  args.q = args.o = tensor(heads);
  args.k = args.v = tensor(key_heads);
  return args;
}

}  // namespace

TEST_CASE("heads are taken where they are predicted to be faster, and never where they do not suffice") {
  const auto automatic = [](Split split, std::int64_t rows, std::int64_t heads, std::int64_t key_heads, bool causal) {
    dist::ContextFmhaArgs args = call_of(rows, heads, key_heads);
    args.causal = causal;
    args.split = split;
    return takes(args);
  };
  CHECK(automatic(Split::contiguous, 32768, 32, 8, true));   // the last rank has most of the products
  CHECK(!automatic(Split::contiguous, 256, 32, 8, true));    // bytes go there and back
  CHECK(!automatic(Split::zigzag, 32768, 32, 8, true));      // keys travel beside products
  CHECK(!automatic(Split::contiguous, 32768, 30, 6, true));  // no multiple of four
  CHECK(!automatic(Split::contiguous, 32768, 36, 6, true));  // six heads of keys
  CHECK(dist::key_heads(32, 2, 4, 2) == dist::Range{1, 2});
}

TEST_CASE("heads that cannot be exchanged are refused by what is in their way") {
  const auto said = [](const std::function<void(dist::ContextFmhaArgs&)>& change, bool copies = true) {
    dist::ContextFmhaArgs args = call_of(64, 8, 4);
    args.exchange = Exchange::heads;
    change(args);
    return testing::said_by([&] { takes(args, copies); });
  };
  std::string text = said([](auto&) {}, false);
  CHECK_MESSAGE(
      testing::has(text, "exchange is heads on cuda:0, whose driver copies no rows; allowed there: automatic"), text);
  text = said([](auto& args) { args.k.shape[1] = args.v.shape[1] = 3; });
  CHECK_MESSAGE(testing::has(text, "q.shape[1] (H) is 8 and k.shape[1] (Hkv) is 3; allowed: H a multiple of Hkv"),
                text);
  text = said([](auto& args) {
    args.exchange = Exchange::automatic;
    args.split = static_cast<Split>(7);
    args.lengths = {64, 64, 63, 64};  // which no split but contiguous takes
  });
  CHECK_MESSAGE(testing::has(text, "split is 7; allowed: contiguous (0), zigzag (1), striped (2)"), text);
}

TEST_CASE("memory of k and v has gaps where heads are exchanged, on one rank, too") {
  for (const std::int64_t ranks : {1, 2}) {
    const SplitCase what =
        with_heads(Split::zigzag, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 24), true, 4, 2);
    FmhaProblem whole(what.shape, 11);
    auto members = dist::Group::on_model(testing::model_runtime(), static_cast<int>(ranks));
    std::vector<std::vector<std::uint16_t>> memory(static_cast<std::size_t>(4 * ranks));
    const auto said = run_split(whole, what, members, [&](int rank, dist::ContextFmhaArgs& args) {
      args.exchange = Exchange::heads;
      std::size_t n = static_cast<std::size_t>(4 * rank);
      for (Tensor* const t : {&args.k, &args.v}) {
        std::vector<std::uint16_t>& apart = memory[n++];
        apart.resize(static_cast<std::size_t>(2 * t->shape[2] * t->strides[2]));
        for (std::int64_t row = 0; row < t->shape[2]; ++row)
          std::copy_n(static_cast<const std::uint16_t*>(t->data) + row * t->strides[2], t->strides[2],
                      apart.begin() + 2 * row * t->strides[2]);
        t->data = apart.data();
        t->strides[2] *= 2;
      }
    });
    for (const std::string& each : said) CHECK(each == "");
    CHECK(whole.problem() == "");
  }
}

TEST_CASE("copies between tensors have pitches of a run's bytes or more, also where a stride counts nothing") {
  const auto tensor = [](std::int64_t heads, std::int64_t rows, std::int64_t of_head, std::int64_t of_row) {
    static std::uint16_t memory[4096];
    return Tensor::strided(memory, {}, DType::f16, {1, heads, rows, 64}, {2048, of_head, of_row, 1});
  };
  const auto check = [](const Tensor& from, const Tensor& to) {
    std::int64_t bytes = 0;
    dist::copies_between(from, to, [&](const launch::RowsToCopy& copy) {
      CHECK(copy.from_pitch >= copy.row_bytes);
      CHECK(copy.to_pitch >= copy.row_bytes);
      bytes += copy.row_bytes * copy.rows;
    });
    CHECK(bytes == from.shape[1] * from.shape[2] * 64 * 2);
  };
  check(tensor(4, 1, 64, 64), tensor(4, 1, 64, 256));  // one row
  check(tensor(1, 4, 8, 64), tensor(1, 4, 256, 64));   // one head
  check(tensor(4, 3, 192, 64), tensor(4, 3, 192, 64));
  check(tensor(4, 3, 192, 64), tensor(4, 3, 64, 256));
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
  refuses("allowed: none, or an exchange of heads, where H is a multiple of the ranks, and Hkv a multiple or a divisor",
          [&](auto& args) { args.cu_seqlens = list; });
  refuses("window.left is 4 without causal", [](auto& args) {
    args.causal = false;
    args.window.left = 4;
  });
  what = with_heads(Split::zigzag, {8, 8}, true, 2, 2);
  FmhaProblem even(what.shape, 3);
  const auto even_refuses = [&](const std::string& part, const std::function<void(dist::ContextFmhaArgs&)>& change) {
    const auto said = run_split(even, what, members, [&](int, dist::ContextFmhaArgs& args) {
      args.exchange = Exchange::heads;
      change(args);
    });
    CHECK_MESSAGE(testing::has(said[0], part), said[0]);
    CHECK_MESSAGE(testing::has(said[1], part), said[1]);
  };
  float slopes[4] = {1, 1, 1, 1};
  even_refuses("alibi_slopes.shape[1] is 1; allowed: q.shape[1], 2", [&](auto& args) {
    args.cu_seqlens = list;
    args.alibi_slopes = Tensor::contiguous(slopes, {DeviceKind::cpu, 0}, DType::f32, {1, 1});
  });
  even_refuses("alibi_slopes has 0 dimensions; allowed: [H], 1, or [B, H], with cu_seqlens [N, H], 2", [&](auto& args) {
    args.cu_seqlens = list;
    args.alibi_slopes = Tensor::contiguous(slopes, {DeviceKind::cpu, 0}, DType::f32, {2});
    args.alibi_slopes->rank = 0;
  });
  even_refuses("k.strides are [1024, 64, 64, 1]; allowed with an exchange of heads: rows and heads that do not overlap",
               [](auto& args) { args.k.strides[2] = 64; });
  what.shape.batch = 2;
  FmhaProblem two(what.shape, 3);
  const auto said = run_split(two, what, members, [&](int, dist::ContextFmhaArgs& args) { args.cu_seqlens = list; });
  CHECK_MESSAGE(testing::has(said[0], "q.shape[0] (B) is 2 with cu_seqlens; allowed: 1"), said[0]);
}
