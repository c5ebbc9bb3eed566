// See linked_calls.hpp.
#include "dist/linked_calls.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

namespace tj::test {
namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

/// One for the process, as loaded kernels stay.
struct Linked {
  std::shared_ptr<model::Linked> model = model::open_linked_model();
  Runtime runtime{options()};
  Linked() {
    const model::ModelInPlace in_place(model);
    runtime.synchronize(kCpu);  // it opens its model
  }
  static Options options() {
    Options options;
    options.target = "model:sm_90a";
    return options;
  }
};
Linked& linked() {
  static Linked one;
  return one;
}

}  // namespace

/// A rank's memory and streams, which are names alone. Calls take sets by turns.
struct LinkedCalls::Rank {
  static constexpr std::int64_t kRows = 16, kWidth = 64, kHeads = 4;
  struct Set {
    std::vector<std::uint16_t> q, k, v;
    std::vector<std::byte> out;
    char stream_name = 0;
  };
  int rank = 0, size = 0;
  std::array<Set, 3> sets;

  Rank(int number, int count) : rank(number), size(count) {
    const auto draw = [&](std::uint64_t seed) {
      return samples::random_normal(static_cast<std::size_t>(kHeads * (size * kRows + 4) * kWidth), DType::f16,
                                    seed + 10 * static_cast<std::uint64_t>(number));
    };
    for (Set& set : sets) {
      set.q = draw(1), set.k = draw(2), set.v = draw(3);
      set.out.resize(set.q.size() * sizeof(float));
    }
  }
  void clear() {
    for (Set& set : sets) std::memset(set.out.data(), 0xff, set.out.size());
  }
  /// [1, heads, rows, D], rows before heads in memory.
  static Tensor rows_first(void* memory, std::int64_t rows) {
    return Tensor::strided(memory, kCpu, DType::f16, {1, kHeads, rows, kWidth},
                           {rows * kHeads * kWidth, kWidth, kHeads * kWidth, 1});
  }
  void attend(dist::Group& member, const std::string& call, Set& set, Stream stream) const {
    dist::ContextFmhaArgs args;
    args.q = rows_first(set.q.data(), kRows);
    args.k = rows_first(set.k.data(), kRows);
    args.v = rows_first(set.v.data(), kRows);
    args.o = rows_first(set.out.data(), kRows);
    args.causal = true;
    args.split = call == "striped"      ? dist::Split::striped
                 : call == "contiguous" ? dist::Split::contiguous
                                        : dist::Split::zigzag;
    args.exchange = call == "heads" ? dist::Exchange::heads : dist::Exchange::keys;
    member.fmha(args, stream);
  }
  void decode(dist::Group& member, Set& set, Stream stream) const {
    dist::ContextDecodeArgs args;
    args.attention.q = rows_first(set.q.data(), 1);
    args.attention.k = rows_first(set.k.data(), kRows + rank);
    args.attention.v = rows_first(set.v.data(), kRows + rank);
    args.attention.o = rows_first(set.out.data(), 1);
    member.decode(args, stream);
  }
  void multiply(dist::Group& member, bool gathers, Set& set, Stream stream) const {
    const auto matrix = [](void* memory, std::int64_t rows) {
      return Tensor::contiguous(memory, kCpu, DType::f16, {rows, kWidth});
    };
    GemmArgs product;
    product.a = matrix(set.q.data(), gathers ? kRows : size * kRows);
    product.b = matrix(set.k.data(), kWidth);
    product.d = matrix(set.out.data(), gathers ? size * kRows : kRows);
    if (gathers)
      member.all_gather_gemm({product, {}}, stream);
    else
      member.gemm_reduce_scatter({product, {}}, stream);
  }
  void enqueue(dist::Group& member, const std::string& call, Set& set, Stream stream) const {
    if (call == "decode") return decode(member, set, stream);
    if (call == "gather" || call == "scatter") return multiply(member, call == "gather", set, stream);
    attend(member, call, set, stream);
  }
  void enqueue(dist::Group& member, const std::string& call, int n) {
    Set& set = sets[static_cast<std::size_t>(n % 3)];
    const Stream stream{&set.stream_name};
    enqueue(member, call, set, stream);
    for (std::vector<std::uint16_t>* each : {&set.q, &set.k, &set.v})
      linked().model->caller_writes(each->data(), each->size() * sizeof((*each)[0]), stream);
  }
};

LinkedCalls::LinkedCalls(std::string call, int ranks) : call_(std::move(call)) {
  ::setenv("TJ_DIST_TRANSPORT", "ipc", 1);
  ::setenv("TJ_DIST_ORDER", call_ == "whole" || call_ == "own_first" ? call_.c_str() : "auto", 1);
  ::setenv("TJ_DIST_PIECES", "2", 1);
  for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>(rank, ranks));
}
LinkedCalls::~LinkedCalls() {
  for (const char* each : {"TJ_DIST_TRANSPORT", "TJ_DIST_ORDER", "TJ_DIST_PIECES"}) ::unsetenv(each);
}

namespace {

/// The first that a rank said.
template <class Work>
std::string together(std::size_t ranks, const Work& work) {
  std::vector<std::string> said(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { said[rank] = testing::said_by([&] { work(rank); }); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : said)
    if (!each.empty()) return each;
  return "";
}

}  // namespace

std::string LinkedCalls::run(int calls, std::uint64_t seed, std::optional<model::LinkMutant> mutant) {
  model::Linked& model = *linked().model;
  model.begin(seed, std::move(mutant));
  std::vector<dist::Group> members = dist::Group::on_model(linked().runtime, static_cast<int>(ranks_.size()));
  for (const auto& rank : ranks_) rank->clear();
  std::string said = together(ranks_.size(), [&](std::size_t rank) {
    for (int n = 0; n < calls; ++n) ranks_[rank]->enqueue(members[rank], call_, n);
  });
  if (said.empty()) said = testing::said_by([&] { model.run(); });
  for (dist::Group& member : members)
    if (said.empty()) said = testing::said_by([&] { member.check(); });
  return said;
}

/// A rank enqueues its works in the order of its calls. Works before a turn's begin count to the call before.
std::vector<model::LinkWork> LinkedCalls::of_third_call() const {
  std::map<char, int> calls;  // by rank: "rank 1, stream 2"
  std::vector<model::LinkWork> found;
  for (const model::LinkWork& work : linked().model->works()) {
    const std::string rank = "rank ";
    int& call = calls[work.queue.at(rank.size())];
    if (testing::has(work.text, "begins a turn")) ++call;
    if (call == 3) found.push_back(work);
  }
  return found;
}
bool LinkedCalls::mutant_was_there() const { return linked().model->mutant_was_there(); }

std::string LinkedCalls::results() const {
  std::string all;
  for (const auto& rank : ranks_)
    for (const Rank::Set& set : rank->sets) all.append(reinterpret_cast<const char*>(set.out.data()), set.out.size());
  return all;
}

std::string LinkedCalls::expected() {
  std::vector<dist::Group> members = dist::Group::on_model(testing::model_runtime(), static_cast<int>(ranks_.size()));
  for (const auto& rank : ranks_) rank->clear();
  const std::string said = together(ranks_.size(), [&](std::size_t rank) {
    for (Rank::Set& set : ranks_[rank]->sets) ranks_[rank]->enqueue(members[rank], call_, set, {});
  });
  return said.empty() ? results() : said;
}

}  // namespace tj::test
