// The dependence graphs of the gated delta rule in chunks, with their costs; see delta_chunks.hpp. solve_graph.cpp has
// that of records.
//
// States, an iteration is a chunk; for each consumer c of 64 rows of V:
//   read_keys -> correct_values -> solve_tokens -> weigh_first -> change_first
//   change_first -> weigh_rest -> change_rest -> round_state -> read_keys of the next chunk
//   scale_values -> correct_values -> add_tokens      take_keep -> weigh_first      fade_state -> change_first
//   read_queries -> fade_output -> add_tokens -> stage_rows -> put_rows
// Without the delta the values are all that is added:
//   weigh_values -> weigh_tokens -> change_state -> round_state -> read_queries of the next chunk      fade_state ->
//   change_state weigh_values -> add_tokens
// A kernel that keeps states has keep_state behind round_state.
// The step that maps segments has no node of the last line, nor add_tokens.
// Carry, an iteration is a segment:
//   load_map, ask_rows -> multiply_map -> put_rows
// The first line is the chain of the state: a recurrence that no order of the other nodes shortens.
#include <string>
#include <utility>

#include "ops/delta_chunks/params.cuh"
#include "ops/delta_chunks/step_builder.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using delta_chunks::kChunk;
using graph::Graph;

constexpr int kContextRegisters = 40;  // of a consumer's bodies, beside sums and operands

class StateBuilder : delta_chunks::ConsumerBuilder {
 public:
  StateBuilder(const DeltaChunksKernel& kernel, const arch::Arch& arch)
      : ConsumerBuilder("delta_chunks", "state", "tj::ops::delta_chunks::StateParams", "Consumer", arch),
        kernel_(kernel),
        consumers_(kernel.step == DeltaStep::wide_state ? 2 : 1),
        maps_(kernel.step == DeltaStep::map) {
    delta_chunks::name_graph(kernel, graph_);
    constant("kConsumers", consumers_);
    constant("kMaps", maps_ ? 1 : 0);
  }

  Graph build() {
    constexpr int kMost = 4;
    chunk_ = value("chunk",
                   delta_chunks::chunk_bytes(kernel_.head_dim, kernel_.channel_gate, kernel_.delta, maps_, consumers_),
                   Scope::iteration, 2, kMost);
    load_ = load("load_chunk", chunk_, 1);
    for (int c = 0; c < consumers_; ++c) kernel_.delta ? consumer(c) : adder(c);
    if (!maps_) graph_.grids = graph::Grids::opens;        // the next range is solved beside it,
    graph_.least_smem_bytes = arch_.smem_per_block_bytes;  // on other SMs
    const double solved = kernel_.delta ? kernel_.head_dim + kChunk : 0,
                 widths = solved + kernel_.head_dim + (maps_ ? 0 : kernel_.head_dim + kChunk);
    graph_.flops_per_iteration = 2.0 * kRows * consumers_ * kChunk * widths;
    graph_.overhead_cycles = 4.0 * node(load_).latency;
    return std::move(graph_);
  }

 private:
  static constexpr double kEvery = 16;  // Costs assume a kept state every 16 chunks.

  void consumer(int c) {
    const int width = kernel_.head_dim;
    constexpr double kBytes = double{kRows} * kChunk * kElementBytes;
    const int begin = add(numbered("Consumer", "begin_state", c, Scope::tile_begin));
    const int round = arithmetic("round_state", c, width, 0, 0.5, 0, kAloneCycles, kRows * width / 2 / kThreads);
    const int keys = matrix("read_keys", c, kChunk, width, kRows * kChunk / kThreads);
    const int fade = arithmetic("fade_state", c, width, 1, 0, 0, kListCycles);
    const int scale =
        arithmetic("scale_values", c, kChunk, 2, 0, kBytes, kListCycles, kRows * kChunk / kThreads + kChunk / 4);
    const int ask = arithmetic("correct_values", c, kChunk, 1, 0.5, 0, kAloneCycles, kRows * kChunk / 2 / kThreads);
    const int solve = matrix("solve_tokens", c, kChunk, kChunk, 0);
    const int end = add(numbered("Consumer", "end_state", c, Scope::tile_end));

    edge(begin, keys, 0, 0, false);
    then(load_, keys, 0, chunk_);
    then(load_, fade, 0, chunk_);
    then(load_, scale, 0, chunk_);
    then(scale, ask);
    order(keys, scale, node(keys).cycles);  // values are scaled under the product with keys
    wait(keys, ask);
    then(ask, solve);
    then(load_, solve, 0, chunk_);
    // A fade under the product with keys makes ptxas 13.0 wait for all products at that product's first reader.
    order(solve, fade, node(solve).cycles);
    const auto [first, rest] = change(c, solve, fade);
    // A step ends with the state that the next one reads. No product is under way then: with one across a loop's end,
    // ptxas 13.0 runs all products one after the other.
    for (const int last : {end, round})
      for (const int product : {first, rest}) wait(product, last);
    wait(keys, round);
    // Edges from one chunk to the next: the state, and registers that are free.
    for (const int reader : {keys, fade}) then(round, reader, 1);
    then(ask, scale, 1);
    if (!maps_) results(c, round, scale, ask, solve);
    if (kernel_.keeps) keep(c, round, fade);
  }

  /// A consumer without the delta: nothing is read of the state but for results.
  void adder(int c) {
    const int width = kernel_.head_dim, terms = terms_of_change();
    constexpr double kBytes = double{kRows} * kChunk * kElementBytes;
    const int begin = add(numbered("Consumer", "begin_state", c, Scope::tile_begin));
    const int round = arithmetic("round_state", c, width, 0, 0.5, 0, kAloneCycles, kRows * width / 2 / kThreads);
    const int fade = arithmetic("fade_state", c, width, 1, 0, 0, kListCycles);
    const int values =
        arithmetic("weigh_values", c, kChunk, 1, 0.5, kBytes, kListCycles, kRows * kChunk * 3 / 2 / kThreads);
    const int weigh = arithmetic("weigh_tokens", c, kChunk, 2 * terms - 1, 0.5 * terms, 0, kListCycles,
                                 kRows * kChunk / 2 / kThreads * terms);
    const int change = matrix("change_state", c, width, kChunk * terms, kRows * width / kThreads);
    const int end = add(numbered("Consumer", "end_state", c, Scope::tile_end));
    edge(begin, fade, 0, 0, false);
    for (const int reader : {fade, values, weigh, change}) then(load_, reader, 0, chunk_);
    then(values, weigh);
    then(weigh, change);
    then(fade, change);
    for (const int last : {end, round}) wait(change, last);
    // A step ends with the state that the next one reads, as with the delta: values wait for it as well.
    for (const int reader : {fade, values}) then(round, reader, 1);
    weigh_ = weigh;
    changed_ = change;
    if (!maps_) edge(begin, results(c, round, values, values, -1), 0, 0, false);
    if (kernel_.keeps) keep(c, round, fade);
  }

  int terms_of_change() const { return kernel_.channel_gate ? 2 : delta_chunks::kept_terms(kernel_.dtype); }

  /// The change of the state, of the first tokens while the others are weighed. Returns both products.
  std::pair<int, int> change(int c, int solve, int fade) {
    constexpr int kParts = kChunk / 16, kFirst = delta_chunks::kFirstPairs;
    const int terms = terms_of_change(), width = kernel_.head_dim;
    const int take = arithmetic("take_keep", c, kChunk, 0, 0, 0, kListCycles, 4 * kFirst);
    then(load_, take, 0, chunk_);
    order(solve, take, node(solve).cycles);  // the chain's order, as consumers share one
    const auto weigh = [&](const char* body, int parts, double latency) {
      const int weighed = arithmetic(body, c, kChunk / kParts * parts, 2 * terms - 1, 0.5 * terms, 0, latency,
                                     kRows * kChunk / kParts * parts / 2 / kThreads * terms);
      wait(solve, weighed);
      return weighed;
    };
    const auto add = [&](const char* body, int parts, int registers) {
      const int product = matrix(body, c, width, kChunk / kParts * parts * terms, registers);
      then(load_, product, 0, chunk_);
      return product;
    };
    const int early = weigh("weigh_first", kFirst, kAloneCycles),
              first = add("change_first", kFirst, kRows * width / kThreads),
              late = weigh("weigh_rest", kParts - kFirst, kListCycles), rest = add("change_rest", kParts - kFirst, 0);
    then(load_, late, 0, chunk_);
    then(take, early);
    then(early, first);
    then(fade, first);
    order(fade, early, node(fade).cycles);   // under the product that solves, whose result is weighed
    order(first, late, node(first).cycles);  // under the first product
    then(late, rest);
    weigh_ = early;
    changed_ = rest;
    return {first, rest};
  }

  /// The caller's copy of the state, behind all products of a step: none is under way while it is stored.
  void keep(int c, int round, int fade) {
    Node n = numbered("Consumer", "keep_state", c);
    busy(n, cycles(kAloneCycles + memory_cycles(double{kRows} * kernel_.head_dim * size_of(kernel_.state)) / kEvery));
    const int keep = add(std::move(n));
    then(round, keep);
    then(keep, fade, 1);
  }

  /// `solve`: negative without the delta. Returns the product with queries.
  int results(int c, int round, int scale, int ask, int solve) {
    constexpr double kBytes = double{kRows} * kChunk * kElementBytes;
    const int queries = matrix("read_queries", c, kChunk, kernel_.head_dim, kRows * kChunk / kThreads);
    const int faded = arithmetic("fade_output", c, kChunk, 1, 0, 0, kListCycles);
    const int sum = matrix("add_tokens", c, kChunk, kChunk, kContextRegisters);
    const int stage = arithmetic("stage_rows", c, kChunk, 0, 0.5, kBytes, kAloneCycles);
    then(load_, queries, 0, chunk_);
    // Between both products ptxas 13.0 would put the values' arithmetic, and its waits, among instructions of the
    // first.
    order(queries, scale, node(queries).cycles);
    if (solve >= 0)
      order(solve, faded, node(solve).cycles);  // consumers run freely: left to the search, one asked for O ahead of D
    wait(queries, faded);
    then(load_, faded, 0, chunk_);
    then(faded, sum);
    then(ask, sum);
    if (kernel_.keeps && consumers_ > 1 && solve >= 0)
      wait(solve, sum);  // registers: kernels that keep states spill otherwise
    then(load_, sum, 0, chunk_);
    // The unit is free while D is weighed. One consumer without the delta has nothing to wait for: it weighs under the
    // product with queries.
    if (solve >= 0 || consumers_ > 1) order(sum, weigh_, node(sum).cycles);
    wait(sum, stage);
    order(changed_, stage, node(changed_).cycles);  // left to the search, one staged rows ahead of the last product
    put("put_rows", c, stage, "o" + std::to_string(c));
    for (const int product : {queries, sum}) wait(product, round);
    then(round, queries, 1);
    then(stage, queries, 1);
    return queries;
  }

  const DeltaChunksKernel kernel_;
  const int consumers_;
  const bool maps_;
  int chunk_ = 0, load_ = 0, weigh_ = 0, changed_ = 0;
};

class CarryBuilder : delta_chunks::StepBuilder {
 public:
  CarryBuilder(const DeltaChunksKernel& kernel, const arch::Arch& arch)
      : StepBuilder(kernel, "carry", "tj::ops::delta_chunks::CarryParams", arch, 1) {}

  Graph build() {
    const std::int64_t bytes = std::int64_t{4} * kernel_.head_dim * kernel_.head_dim;
    const int map = value("map", bytes, Scope::iteration, 1, 2), load_map = load("load_map", map, 1);
    const double numbers = double{delta_chunks::kCarryRows} * kernel_.head_dim;
    const int begin = carrying("begin_rows", {.alu = memory_cycles(4 * numbers)}, Scope::tile_begin);
    const int ask = carrying("ask_rows", {.alu = memory_cycles(4 * numbers)});
    node(ask).registers = kRowRegisters;
    // A lane's number comes from another lane for so many columns of K.
    const int multiply =
        carrying("multiply_map", {.alu = numbers * kernel_.head_dim / arch_.fact("f32_per_cycle") * kShuffled});
    const int put = carrying("put_rows", {.alu = memory_cycles(4 * numbers)});
    then(begin, multiply);
    then(load_map, multiply, 0, map);
    then(ask, multiply);
    then(multiply, put);
    then(put, multiply, 1);
    then(multiply, ask, 1);
    graph_.overhead_cycles = 2.0 * node(load_map).latency;
    return std::move(graph_);
  }

 private:
  static constexpr int kRowRegisters = 8;
  static constexpr double kShuffled = 1.5;  // instructions over multiplications

  int carrying(const char* body, const Work& work, Scope scope = Scope::iteration) {
    Node n = single("Carrier", body, delta_chunks::kCarryWarps, scope);
    hold(n, work);
    return add(std::move(n));
  }
};

}  // namespace

const arch::Needs& delta_chunks_needs() {
  static constinit support::Lasting<const arch::Needs> needs;
  return needs.get([] {
    return arch::Needs{
        {"TC", "EXP", "ALU", "TMA"},
        {"matrix_flops_per_cycle", "matrix_group_cycles", "matrix_drain_cycles", "exp2_per_cycle", "f32_per_cycle",
         "convert_per_cycle", "copy_latency_cycles", "copy_cycles_per_kb", "memory_bytes_per_cycle"},
        {"sm90"}};
  });
}

Graph delta_state_graph(const DeltaChunksKernel& kernel, const arch::Arch& arch) {
  return StateBuilder(kernel, arch).build();
}
Graph delta_carry_graph(const DeltaChunksKernel& kernel, const arch::Arch& arch) {
  return CarryBuilder(kernel, arch).build();
}

}  // namespace tj::ops
