// The dependence graph of products with solved matrices on warpgroup matrix instructions, with its costs, and its
// launch; see fields.hpp. An iteration is an item: a chunk and a head. Consumer 0 makes w, consumer 1 u:
//
//   load_chunk -> weigh.c, multiply.c      ask_numbers -> put_weights ---> weigh.c
//   weigh.c -> multiply.c ==> stage_rows.c ---> put_rows.c
// From one item to the next only registers are shared: each is free before it is filled again.
#include <algorithm>
#include <new>
#include <string>

#include "ops/chunk_wu/chunk_wu.hpp"
#include "ops/chunk_wu/fields.hpp"
#include "ops/chunk_wu/params.cuh"
#include "ops/common/chunk_tokens.hpp"
#include "ops/common/machine.hpp"
#include "ops/delta_chunks/builder.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/delta_chunks/launches.hpp"
#include "ops/gated_delta_rule/tensors.hpp"
#include "support/index.hpp"

namespace tj::ops::chunk_wu {
namespace {

using chunks::kChunk;
using support::at;

constexpr double kTypicalItems = 128 * 32;  // 8192 tokens of 32 heads
constexpr int kResults = 2;                 // w and u, a consumer each

class Builder : delta_chunks::ConsumerBuilder {
 public:
  Builder(const WuKernel& kernel, const arch::Arch& arch)
      : ConsumerBuilder("chunk_wu", "sm90", "tj::ops::chunk_wu::MatrixParams", "Consumer", arch),
        width_(kernel.head_dim) {
    graph_.name = request_of_fields<kFields>("chunk_wu", kernel).name;
    add_constants<kFields>("chunk_wu", kernel, graph_);
  }

  graph::Graph build() {
    constexpr int kMost = 6;
    chunk_ = value("chunk", tokens_bytes(kChunk) + kResults * tokens_bytes(width_), Scope::iteration, 2, kMost);
    load_ = load("load_chunk", chunk_, 1);
    of_memory(load_, last_value().slot_bytes);
    tell_ = numbers();
    for (int c = 0; c < kResults; ++c) consumer(c);
    graph_.flops_per_iteration = 2.0 * kResults * kTerms * kRows * kChunk * width_;
    graph_.overhead_cycles = 2.0 * node(load_).latency;
    return std::move(graph_);
  }

 private:
  static constexpr int kTerms = 2;  // of A times its columns' weights
  static constexpr int kListAlignment = 128, kNumberRegisters = 5;
  static constexpr double kAskCycles = 100;    // an estimate: places and loads of two tokens; their weights
  static constexpr int kNumberLatency = 1500;  // of 64 rows of memory, in a timeline of an H200

  /// The copy engine is held for as long as the SM's share of memory's rate takes: it is what the loop waits for.
  void of_memory(int copied, std::int64_t bytes) {
    const int held = cycles(memory_cycles(static_cast<double>(bytes)));
    if (held > node(copied).reservations[0].cycles) node(copied).reservations[0] = of("TMA", held);
  }

  /// Numbers of tokens, as weights in shared memory. Returns the node that puts them there.
  int numbers() {
    weights_ = value("weights", kResults * kChunk * std::int64_t{4}, Scope::iteration, 2, 4, kListAlignment);
    Node asked = single("Teller", "ask_numbers", 1), put = single("Teller", "put_weights", 1);
    busy(asked, cycles(kAskCycles));
    asked.latency = kNumberLatency;
    asked.registers = kNumberRegisters;
    busy(put, cycles(kAskCycles));
    const int ask = add(std::move(asked)), told = add(std::move(put));
    then(ask, told);
    then(told, ask, 1);
    return told;
  }

  void consumer(int c) {
    // An element takes a product with its weight, a choice, two roundings and what the first one loses.
    const int weigh = arithmetic("weigh", c, kChunk, 4, 1.5, tokens_bytes(kChunk), kListCycles,
                                 kTerms * kRows * kChunk / 2 / kThreads),
              product = matrix("multiply", c, width_, kTerms * kChunk, kRows * width_ / kThreads),
              stage = arithmetic("stage_rows", c, width_, 0, 0.5, tokens_bytes(width_), kAloneCycles);
    then(load_, weigh, 0, chunk_);
    then(load_, product, 0, chunk_);
    then(tell_, weigh, 0, weights_);
    then(weigh, product);
    wait(product, stage);
    wait(product, weigh, 1);
    then(stage, product, 1);
    of_memory(put("put_rows", c, stage, "rows" + std::to_string(c), width_), tokens_bytes(width_));
  }

  const int width_;
  int chunk_ = 0, load_ = 0, weights_ = 0, tell_ = 0;
};

}  // namespace

const arch::Needs& sm90_needs() { return delta_chunks_needs(); }

Candidate sm90_candidate(const WuKernel& kernel, const arch::Arch& arch) {
  Candidate made{Builder(kernel, arch).build(), kTypicalItems / std::max(1, arch.sm_count), 0, false};
  made.copies_apart = true;
  made.definitions = matrix_widths({kernel.head_dim});
  made.useful_flops = made.graph.flops_per_iteration * made.typical_iterations;
  made.geometry = Geometry::of(WuLaunch{true, true});
  return made;
}

void sm90_plan(const ChunkWuArgs& args, LaunchPlan& plan) {
  using namespace gated_delta_rule;
  static_assert(sizeof(MatrixParams) <= LaunchPlan::kMaxOwnBytes);
  auto& p = *new (plan.params.data()) MatrixParams{};
  plan.params_bytes = sizeof(MatrixParams);
  const bool listed = args.cu_seqlens.has_value();
  plan.maps[0] = {offsetof(MatrixParams, k), delta_chunks::token_map(args.k, listed)};
  plan.maps[1] = {offsetof(MatrixParams, v), delta_chunks::token_map(args.v, listed)};
  plan.maps[2] = {offsetof(MatrixParams, a), delta_chunks::token_map(args.a, listed)};
  plan.maps[3] = {offsetof(MatrixParams, w), delta_chunks::token_map(args.w, listed)};
  plan.maps[4] = {offsetof(MatrixParams, u), delta_chunks::token_map(args.u, listed)};
  plan.map_count = 5;
  p.beta = numbers_of(args.beta, 0);
  p.sums = numbers_of(args.g_cu, 0);
  p.half_beta = is_half(args.beta) ? 1 : 0;
  p.heads = static_cast<int>(args.a.shape[at(args.a.rank - 2)]);
  const ChunkTokens tokens{"chunk_wu", "k", args.k, 3, args.cu_seqlens};
  p.sequences = sequences_of(tokens);
  p.by_heads = divisor_of(p.heads);
  p.by_k = divisor_of(p.heads / static_cast<int>(args.k.shape[at(args.k.rank - 2)]));
  p.by_v = divisor_of(p.heads / static_cast<int>(args.v.shape[at(args.v.rank - 2)]));
  p.items = static_cast<int>(slots_of(tokens)) * p.heads;
  delta_chunks::walk_chunks(p.items, args.max_sms, plan);
}

}  // namespace tj::ops::chunk_wu
