// Protects attention over a cache that ranks hold together, on ranks of the CPU model. Parts of each sequence are in
// lists, in pages and in tensors, of any length and of none. They go by messages and by copies, against f64. All ranks
// have equal bits. What is refused before anything is sent, and ranks whose arguments differ, are here, too.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/fmha/problem.hpp"
#include "ops/fmha/sequences_problem.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"
#include "support/variable.hpp"

using namespace tj;
using test::FmhaProblem;
using test::FmhaShape;
using test::sequences_shape;
using test::SequencesProblem;
using test::SequencesShape;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

/// Keys of each sequence that each rank has: the next ones behind those of the ranks before.
std::vector<std::vector<int>> dealt(const std::vector<int>& keys, int ranks, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<std::vector<int>> counts(static_cast<std::size_t>(ranks), std::vector<int>(keys.size()));
  for (std::size_t s = 0; s < keys.size(); ++s) {
    int left = keys[s];
    for (std::size_t r = 0; r + 1 < counts.size(); ++r) {
      counts[r][s] = draw() % 4 == 0 ? 0 : static_cast<int>(draw() % static_cast<unsigned>(left + 1));
      left -= counts[r][s];
    }
    counts.back()[s] = left;
  }
  return counts;
}

/// One rank's lists and results; o and lse of the first are the whole problem's.
struct Rank {
  std::vector<std::int32_t> begins, used, table;
  std::vector<std::uint16_t> o;
  std::vector<float> lse;
};

std::vector<float> copy_of(const Tensor& lse) {
  const auto* const first = static_cast<const float*>(lse.data);
  return {first, first + lse.shape[0] * lse.strides[0]};
}

/// The call's results in memory of the rank's own, a copy of `memory`, in which the whole call's are.
void own_results(FmhaArgs& call, const FmhaArgs& whole, std::span<const std::uint16_t> memory, Rank& own) {
  own.o.assign(memory.begin(), memory.end());
  call.o.data = own.o.data() + (static_cast<const std::uint16_t*>(whole.o.data) - memory.data());
  if (!whole.lse) return;
  own.lse = copy_of(*whole.lse);
  call.lse->data = own.lse.data();
}

using Calls = std::function<FmhaArgs(int rank)>;

/// "", or what the ranks threw.
std::string together(std::vector<dist::Group>& members, const Calls& call) {
  std::vector<std::string> said(members.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < members.size(); ++r)
    threads.emplace_back([&, r] { said[r] = testing::said_by([&] { members[r].decode({call(members[r].rank())}); }); });
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& each : said) all += each;
  return all;
}

bool equal_lse(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The rank's keys in lists: the same memory, other begins.
void deal_lists(FmhaArgs& call, const SequencesProblem& whole, const std::vector<std::vector<int>>& counts,
                std::size_t rank, Rank& own) {
  own.begins = whole.begins_k;
  own.used = counts[rank];
  for (std::size_t r = 0; r < rank; ++r)
    for (std::size_t s = 0; s < own.used.size(); ++s) own.begins[s] += counts[r][s];
  const std::int64_t sequences = std::ssize(own.used);
  call.cu_seqlens_k = Tensor::contiguous(own.begins.data(), kCpu, DType::i32, {sequences + 1});
  call.seqused_k = Tensor::contiguous(own.used.data(), kCpu, DType::i32, {sequences});
}

/// The rank's keys in pages: of each sequence those of number rank, rank + ranks, ...
void deal_pages(FmhaArgs& call, const SequencesProblem& whole, int page_size, int ranks, int rank, Rank& own) {
  const std::int64_t sequences = std::ssize(whole.used), pages = whole.args.block_table->shape[1],
                     own_pages = std::max<std::int64_t>(1, (pages + ranks - 1) / ranks);
  own.table.assign(static_cast<std::size_t>(sequences * own_pages), 1 << 29);
  own.used.assign(static_cast<std::size_t>(sequences), 0);
  for (std::size_t s = 0; s < own.used.size(); ++s)
    for (int page = rank; page * page_size < whole.used[s]; page += ranks) {
      own.table[s * static_cast<std::size_t>(own_pages) + static_cast<std::size_t>(page / ranks)] =
          whole.table[s * static_cast<std::size_t>(pages) + static_cast<std::size_t>(page)];
      own.used[s] += std::min(page_size, whole.used[s] - page * page_size);
    }
  call.block_table = Tensor::contiguous(own.table.data(), kCpu, DType::i32, {sequences, own_pages});
  call.seqused_k = Tensor::contiguous(own.used.data(), kCpu, DType::i32, {sequences});
}

/// "", or what is wrong with some calls of sequences.
std::string run_lists(const SequencesShape& shape, int ranks, std::uint64_t seed,
                      const std::string& target = "model:sm_90a", int calls = 1) {
  auto members = dist::Group::on_model(testing::model_runtime(target), ranks);
  for (int n = 0; n < calls; ++n, ++seed) {
    SequencesProblem whole(shape, seed);
    const auto counts = dealt(shape.keys, ranks, seed);
    std::vector<Rank> own(static_cast<std::size_t>(ranks));
    std::vector<FmhaArgs> of(own.size(), whole.args);
    for (std::size_t r = 0; r < own.size(); ++r) {
      if (r > 0) own_results(of[r], whole.args, whole.o, own[r]);
      if (shape.page_size > 0)
        deal_pages(of[r], whole, shape.page_size, ranks, static_cast<int>(r), own[r]);
      else
        deal_lists(of[r], whole, counts, r, own[r]);
    }
    if (std::string said = together(members, [&](int rank) { return of[static_cast<std::size_t>(rank)]; });
        !said.empty())
      return said;
    if (std::string wrong = whole.problem(); !wrong.empty()) return wrong;
    for (std::size_t r = 1; r < own.size(); ++r)
      if (own[r].o != whole.o || (whole.args.lse && !equal_lse(own[r].lse, copy_of(*whole.args.lse))))
        return "ranks have other bits";
  }
  return "";
}

/// A call of [B, H, Sq, D]: rows of k and v dealt out in runs of `lengths`.
struct Dense {
  Dense(const FmhaShape& shape, const std::vector<int>& lengths, std::uint64_t seed)
      : whole(shape, seed), own(lengths.size()) {
    std::int64_t first = 0;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      FmhaArgs call = whole.args;
      for (Tensor* const t : {&call.k, &call.v}) {
        t->data = static_cast<std::uint16_t*>(t->data) + first * t->strides[2];
        t->shape[2] = lengths[r];
      }
      first += lengths[r];
      if (r > 0) {
        const auto* const o = static_cast<const std::uint16_t*>(whole.args.o.data);
        own_results(call, whole.args, {o, static_cast<std::size_t>(elements())}, own[r]);
      }
      of.push_back(call);
    }
  }
  std::int64_t elements() const { return whole.args.o.shape[0] * whole.args.o.strides[0]; }
  /// "", or what is wrong.
  std::string run(std::vector<dist::Group>& members) {
    if (std::string said = together(members, [&](int rank) { return of[static_cast<std::size_t>(rank)]; });
        !said.empty())
      return said;
    if (std::string wrong = whole.problem(); !wrong.empty()) return wrong;
    const auto* const o = static_cast<const std::uint16_t*>(whole.args.o.data);
    for (std::size_t r = 1; r < own.size(); ++r)
      if (!std::equal(own[r].o.begin(), own[r].o.end(), o) ||
          (whole.args.lse && !equal_lse(own[r].lse, copy_of(*whole.args.lse))))
        return "ranks have other bits";
    return "";
  }
  FmhaProblem whole;
  std::vector<Rank> own;
  std::vector<FmhaArgs> of;
};

FmhaShape one_query(int keys) {
  FmhaShape shape;
  shape.batch = 2;
  shape.heads = 4;
  shape.seq_k = keys;
  return shape;
}

}  // namespace

TEST_CASE("sequences in lists and pages, whose keys ranks have any number of, on 1 to 4 ranks, against f64") {
  std::uint64_t seed = 1;
  for (const char* transport : {"nccl", "ipc"}) {
    const testing::Variable by("TJ_DIST_TRANSPORT", transport);
    for (const int ranks : {1, 2, 3, 4}) {
      SequencesShape shape = sequences_shape({1, 2, 0, 1, 1}, {70, 130, 9, 0, 1});
      shape.front = seed % 2 == 0 ? 3 : 0;
      shape.dtype = seed % 2 == 0 ? DType::bf16 : DType::f16;
      shape.page_size = seed % 4 < 2 ? 0 : 16;
      shape.sinks = seed % 3 == 0;
      shape.softcap = seed % 3 == 1 ? 20.0f : 0.0f;
      shape.with_lse = seed % 4 != 0;
      CAPTURE(shape.text());
      CAPTURE(ranks);
      CHECK(run_lists(shape, ranks, seed++) == "");
    }
    SequencesShape shape = sequences_shape({1, 1}, {300, 40});
    shape.page_size = 32;
    shape.heads_first = true;
    shape.heads = 8;
    shape.value_dim = 128;
    CHECK(run_lists(shape, 2, seed++, "model:sm_90a", 3) == "");
  }
  for (const std::string target : {"model:sm_80", "model:gfx1100"})
    CHECK(run_lists(sequences_shape({1, 3}, {50, 80}), 2, seed++, target) == "");
}

TEST_CASE("tensors whose rows are split, also of no keys; one causal query sees all keys") {
  std::uint64_t seed = 60;
  for (const char* transport : {"nccl", "ipc"}) {
    const testing::Variable by("TJ_DIST_TRANSPORT", transport);
    for (const std::vector<int>& lengths : {std::vector<int>{40, 90}, {0, 130}, {65, 0, 1}}) {
      int keys = 0;
      for (const int each : lengths) keys += each;
      FmhaShape shape = one_query(keys);
      shape.rows_first = seed % 2 == 0;
      shape.heads_kv = seed % 2 == 0 ? 2 : 1;
      shape.sinks = seed % 3 == 0;
      auto members = dist::Group::on_model(testing::model_runtime(), static_cast<int>(lengths.size()));
      Dense dense(shape, lengths, seed++);
      for (FmhaArgs& call : dense.of) call.causal = true;
      CAPTURE(shape.text());
      CHECK(dense.run(members) == "");
    }
  }
}

TEST_CASE("a mask of one's own says which of the rank's keys count") {
  const testing::Variable by("TJ_DIST_TRANSPORT", "ipc");
  SequencesShape shape = sequences_shape({1, 2}, {70, 40});
  SequencesProblem whole(shape, 5);
  const auto counts = dealt(shape.keys, 2, 9);
  Rank own[2];
  std::vector<FmhaArgs> of(2, whole.args);
  own_results(of[1], whole.args, whole.o, own[1]);
  for (std::size_t r = 0; r < 2; ++r) {
    deal_lists(of[r], whole, counts, r, own[r]);
    of[r].seqused_k.reset();  // all that follow in the memory
    of[r].mask_mod = "return k < params.i32(b);";
    of[r].mod_params = Tensor::contiguous(own[r].used.data(), kCpu, DType::i32, {2});
  }
  auto members = dist::Group::on_model(testing::model_runtime(), 2);
  CHECK(together(members, [&](int rank) { return of[static_cast<std::size_t>(rank)]; }) == "");
  CHECK(whole.problem() == "");
}

TEST_CASE("what counts places of all keys is refused by name, before anything is sent") {
  Dense dense(one_query(8), {8}, 3);
  auto members = dist::Group::on_model(testing::model_runtime(), 1);
  const auto refuses = [&](const std::string& part, const std::function<void(FmhaArgs&)>& change) {
    FmhaArgs call = dense.of[0];
    change(call);
    const std::string said = testing::said_by([&] { members[0].decode({call}); });
    CHECK_MESSAGE(testing::has(said, part), said);
  };
  refuses("context decode: causal is true with top_left; allowed: false, or one query a sequence",
          [](FmhaArgs& call) { call.causal = call.top_left = true; });
  refuses("window is 4, -1; allowed: -1, -1", [](FmhaArgs& call) { call.window.left = 4; });
  refuses("alibi_slopes are given; allowed: none", [](FmhaArgs& call) { call.alibi_slopes = call.q; });
  refuses("q is on cuda:0; allowed: the group's device, cpu",
          [](FmhaArgs& call) { call.q.device = {DeviceKind::cuda, 0}; });
  refuses("k.shape[3]", [](FmhaArgs& call) { call.k.shape[3] = 32; });
  SequencesProblem lists(sequences_shape({1}, {8}), 3);
  lists.args.causal = true;
  const std::string said = testing::said_by([&] { members[0].decode({lists.args}); });
  CHECK_MESSAGE(testing::has(said, "causal is true with cu_seqlens_q"), said);
  CHECK(dense.run(members) == "");
}

TEST_CASE("ranks whose arguments differ are told so; prepare() makes what a call needs") {
  const testing::Variable by("TJ_DIST_TRANSPORT", "ipc");
  auto members = dist::Group::on_model(testing::model_runtime(), 2);
  Dense dense(one_query(20), {5, 15}, 3);
  for (std::size_t r = 0; r < 2; ++r) {
    FmhaArgs call = dense.of[r];
    call.q.data = call.k.data = call.v.data = call.o.data = call.lse->data = nullptr;
    members[r].prepare(dist::ContextDecodeArgs{call});
  }
  const auto loads = testing::model_runtime().counters().loads;
  CHECK(dense.run(members) == "");
  CHECK(testing::model_runtime().counters().loads == loads);
  dense.of[1].scale = 0.5f;
  together(members, [&](int rank) { return dense.of[static_cast<std::size_t>(rank)]; });
  const std::string said = testing::said_by([&] { members[0].check(); });
  CHECK_MESSAGE(testing::has(said, "the ranks' arguments differ: rank 1 came to epoch "), said);
}

TEST_CASE("ranks whose outputs are of different types are told so") {
  const testing::Variable by("TJ_DIST_TRANSPORT", "ipc");
  auto members = dist::Group::on_model(testing::model_runtime(), 2);
  Dense dense(one_query(20), {5, 15}, 3);
  std::vector<float> wide(static_cast<std::size_t>(dense.elements()));
  dense.of[1].o.data = wide.data();
  dense.of[1].o.dtype = DType::f32;
  together(members, [&](int rank) { return dense.of[static_cast<std::size_t>(rank)]; });
  const std::string said = testing::said_by([&] { members[0].check(); });
  CHECK_MESSAGE(testing::has(said, "the ranks' arguments differ: rank 1 came to epoch "), said);
}
