// The graph of records of the gated delta rule in chunks, with its costs; see delta_chunks.hpp.
//
// An iteration is a chunk and a head; one role does it all:
//   load_k -> multiply_keys -> square_keys -> compare_tokens -> multiply_queries -> weigh_queries
//   compare_tokens -> invert_blocks -> weigh_queries      load_q -> square_queries, multiply_queries
//   weigh_queries -> solve_weights -> put_weights -> solve_first -> solve_second -> solve_third -> put_blocks
//   put_weights, put_blocks -> store_record
//   square_keys, square_queries -> put_numbers      ask_gates -> sum_gates -> all that compares or puts
// With gates of key channels multiply_faded takes the place of what multiplies and squares:
//   load_k, load_q, sum_channels -> multiply_faded, put_faded
// Without the delta nothing is solved, and B is P that fades:
//   load_k -> normalise_keys      load_q -> square_queries, multiply_queries -> weigh_queries -> put_weights
//   put_weights -> store_weights      normalise_keys, square_queries -> put_numbers
#include <iterator>
#include <utility>
#include <vector>

#include "ops/delta_chunks/params.cuh"
#include "ops/delta_chunks/step_builder.hpp"

namespace tj::ops {
namespace {

using delta_chunks::kChunk;
using graph::Graph;

/// On an SM: registers, and shared memory where K is 128, have no room for more.
constexpr int kSolveBlocks = 5, kChannelBlocks = 3, kAddedBlocks = 6;  // the last one: without the delta

/// The kernel that makes records, and the calls that it serves.
enum class Solves {
  all,
  channels,  ///< gates of key channels
  alone,     ///< the solved matrix alone: there are no queries, and gates are sums already
};
constexpr const char* kTexts[] = {"solve", "channels", "alone"};
constexpr const char* kContexts[] = {"Solver", "ChannelSolver", "Lone"};

class SolveBuilder : delta_chunks::StepBuilder {
 public:
  SolveBuilder(const DeltaChunksKernel& kernel, const arch::Arch& arch, Solves solves)
      : StepBuilder(kernel, kTexts[static_cast<int>(solves)], "tj::ops::delta_chunks::SolveParams", arch,
                    solves == Solves::channels ? kChannelBlocks
                    : kernel.delta             ? kSolveBlocks
                                               : kAddedBlocks),
        solves_(solves),
        alone_(solves == Solves::alone),
        channels_(solves == Solves::channels),
        delta_(kernel.delta) {}

  Graph build() {
    values();
    if (delta_)
      solve();
    else
      weigh();
    if (kernel_.step == DeltaStep::solve_beside) graph_.grids = graph::Grids::joins;
    graph_.overhead_cycles = 2.0 * node(load_k_).latency;
    return std::move(graph_);
  }

 private:
  void begin() {
    load_k_ = load("load_k", k_, delta_chunks::kSolveWarps);
    if (!alone_) load_q_ = load("load_q", q_, delta_chunks::kSolveWarps);
    const int ask = ask_gates();
    gated_ = solving(alone_ ? "take_sums" : "sum_gates", {.alu = kSumCycles});
    then(ask, gated_);
  }
  void solve() {
    begin();
    const int sum = channels_ ? sum_channels() : -1;
    const int multiply = channels_ ? multiply_faded() : matrix("multiply_keys");
    const int square = channels_ ? multiply : solving("square_keys", {.alu = kSquareCycles});
    const int squared = solves_ == Solves::all ? square_queries() : multiply;
    const int queries = solves_ == Solves::all ? matrix("multiply_queries") : -1;
    const int weighed = alone_ ? -1 : weigh_queries();
    const int compare = solving("compare_tokens", {.alu = kWeights * (4 + kSplit) / arch_.fact("f32_per_cycle")});
    const int numbers = alone_ ? -1 : solving("put_numbers", weigh(3.0 * kChunk, 10));
    const int invert = invert_blocks();
    const int faded = channels_ ? put_faded() : -1;
    node(multiply).registers = (channels_ ? 2 : 1) * kBlocks * kRegisters;
    node(invert).registers = kRegisters;
    if (!channels_) {
      then(load_k_, multiply, 0, k_);
      wait(multiply, square);
    }
    if (queries >= 0) then(load_q_, squared, 0, q_);
    if (channels_) fade_rows(sum, multiply, faded);
    then(square, compare);
    compares(compare, square, -1);
    if (!alone_) {
      then(square, weighed, 0, factors_);
      then(squared, weighed, 0, q_factors_);
      compares(numbers, square, squared);
    }
    then(compare, invert);
    int weights = invert;
    if (!alone_) {
      if (queries >= 0) multiply_late(queries, compare, weighed);
      weights = solve_weights(compare, invert, weighed);
      then(gated_, weights, 0, gates_);
    }
    const int put = below_the_diagonal(compare, invert, weights);
    then(gated_, put, 0, gates_);
    if (!alone_) store("store_record", {{put, staged("matrix", k_)}, {weights, staged("weights", q_)}});
    then(put, multiply, 1);
    if (queries >= 0) then(put, queries, 1);
  }
  /// Without the delta.
  void weigh() {
    begin();
    const int sum = channels_ ? sum_channels() : -1;
    const int square = channels_ ? multiply_faded() : square_tokens("normalise_keys");
    const int squared = channels_ ? square : square_queries();
    const int queries = channels_ ? square : matrix("multiply_queries");
    const int weighed = weigh_queries();
    const int numbers = solving("put_numbers", weigh(2.0 * kChunk, 8));
    const int faded = channels_ ? put_faded() : -1;
    const int put = solving("put_weights", weigh(kWeights, kPutWeight));
    if (channels_) {
      node(square).registers = kBlocks * kRegisters;
      fade_rows(sum, square, faded);
      then(square, weighed);
    } else {
      then(load_k_, square, 0, k_);
      then(load_q_, squared, 0, q_);
      then(load_k_, queries, 0, k_);
      then(load_q_, queries, 0, q_);
      wait(queries, weighed);
    }
    then(square, weighed, 0, factors_);
    then(squared, weighed, 0, q_factors_);
    compares(numbers, square, squared);
    then(weighed, put);
    then(gated_, put, 0, gates_);
    store("store_weights", {{put, staged("weights", q_)}});
    then(put, queries, 1);
  }
  /// A reader of factors of keys, of queries where there are any, and of gates.
  void compares(int reader, int square, int squared) {
    then(square, reader, 0, factors_);
    if (squared >= 0) then(squared, reader, 0, q_factors_);
    then(gated_, reader, 0, gates_);
  }
  void fade_rows(int sum, int multiply, int faded) {
    for (const int reader : {multiply, faded}) {
      then(load_k_, reader, 0, k_);
      then(load_q_, reader, 0, q_);
      then(sum, reader, 0, sums_);
    }
  }
  int weigh_queries() { return solving("weigh_queries", {.alu = kWeights * 3 / arch_.fact("f32_per_cycle")}); }

  static constexpr std::int64_t kListBytes = 256, kListAlignment = 128;
  static constexpr int kBlock = delta_chunks::kBlockRows, kBlocks = kChunk / kBlock, kDepth = 16, kRegisters = 8;
  static constexpr int kQuarter = kBlock / 2;  // rows that are solved by substitution
  static constexpr double kWarpFlops = 2709;   // a cycle, of an SM, on an H200: matrix_flops_per_cycle of sm_90
  static constexpr int kBelow = kBlocks * (kBlocks - 1) / 2, kWeightBlocks = kBelow + kBlocks;
  static constexpr int kTerms = 3;                               // of the products of two numbers of two terms each
  static constexpr int kGateRegisters = 6, kGateLatency = 1500;  // of 64 rows of memory, in a timeline of an H200
  static constexpr double kSquareCycles = 60;                    // estimate: sixteen rows' squares, and their roots
  static constexpr double kAskCycles = 100, kSumCycles = 300;    // estimates, of one warp: loads; sums of 64 tokens
  static constexpr double kChainCycles = 20, kSplit = 6;  // estimates: a step of substitution; of a number in two terms
  // Estimates of a number of a channel: its gate and sum; its factor and place; what is made of it for the record.
  static constexpr double kGateOperations = 8, kFade = 3, kPutOperations = 6;
  static constexpr double kPutWeight = 6;  // estimate: operations of a number of B or A that goes to the record

  static constexpr double kWeights = kWeightBlocks * kBlock * kBlock;  // of B, or of A
  void values() {
    const auto list = [&](const char* name, std::int64_t bytes) {
      return value(name, bytes, Scope::iteration, 1, 1, kListAlignment);
    };
    k_ = value("k", tokens_bytes(kernel_.head_dim), Scope::iteration, 1, 1);
    if (!alone_) q_ = value("q", tokens_bytes(kernel_.head_dim), Scope::iteration, 1, 1);
    if (channels_) sums_ = value("sums", channel_bytes(), Scope::iteration, 1, 1);
    factors_ = list("factors", kListBytes);
    if (!alone_) q_factors_ = list("q_factors", kListBytes);
    gates_ = list("gates", (channels_ ? 1 : 2) * kListBytes);
    if (!delta_) return;
    lower_ = list("lower", kBelow * delta_chunks::kBlockTerms);
    inverses_ = list("inverses", kBlocks * delta_chunks::kBlockTerms);
  }
  /// Products of 16 x 16 x 16, by instructions of single warps.
  static Work products(double count) { return {.matrix = count * 2 * kBlock * kBlock * kDepth / kWarpFlops}; }
  /// 64 x 64 products of tokens, of which each warp has sixteen rows.
  int matrix(const char* body) {
    Node n = single(kContexts[static_cast<int>(solves_)], body, delta_chunks::kSolveWarps);
    multiply(n, groups_, groups_.product(2.0 * kChunk * kChunk * kernel_.head_dim, kernel_.head_dim));
    n.registers = kBlocks * kRegisters;
    return add(std::move(n));
  }
  /// Two quarters by substitution; the one below them by two products of two terms, of eight columns.
  int invert_blocks() {
    Work work = products(double{kTerms} * kBlocks);
    work.alu = kBlocks * 32 * kQuarter * kQuarter / 2 / arch_.fact("f32_per_cycle") + kQuarter * kChainCycles +
               kSplit * kBlocks * 3 * kQuarter * kQuarter / arch_.fact("f32_per_cycle");
    return solving("invert_blocks", work);
  }
  int square_queries() { return square_tokens("square_queries"); }
  int square_tokens(const char* body) {
    Work work = products(2.0 * kernel_.head_dim / kDepth);
    work.alu = kSquareCycles;
    return solving(body, work);
  }
  std::int64_t channel_bytes() const { return std::int64_t{4} * kChunk * kernel_.head_dim; }
  double channel_numbers() const { return double{kChunk} * kernel_.head_dim; }
  int ask_gates() {
    const int ask = solving("ask_gates", {.alu = kAskCycles});
    node(ask).latency = kGateLatency;
    node(ask).registers = kGateRegisters;
    return ask;
  }
  /// A thread has a channel, and asks for sixteen tokens at a time.
  int sum_channels() {
    Work work = weigh(channel_numbers(), kGateOperations);
    work.alu += memory_cycles(4 * channel_numbers());
    const int sum = solving("sum_channels", work);
    node(sum).latency += kGateLatency;
    return sum;
  }
  /// Blocks of sixteen rows and sixteen columns: rows of k and q fade, twice for the diagonal's, and the columns.
  int multiply_faded() {
    const double steps = kernel_.head_dim / kDepth, block = double{kBlock} * kDepth * steps;
    const int sides = delta_ ? 2 : 1;  // k k^T and q k^T
    Work work = products(steps * (sides * kTerms * kWeightBlocks + 2 * kBlocks));
    const double rows = (kBelow + 2 * kBlocks) * block, columns = kWeightBlocks * block;
    work.exp = (rows + columns) / arch_.fact("exp2_per_cycle");
    work.alu = (sides * rows + columns) * (kFade + kSplit) / arch_.fact("f32_per_cycle");
    return solving("multiply_faded", work);
  }
  /// Three matrices of rows, with two decays of each number.
  int put_faded() {
    Work work = weigh(2 * channel_numbers(), kPutOperations);
    const int matrices = delta_chunks::kFadedMatrices - delta_chunks::matrices_left_out(delta_);
    work.alu += memory_cycles(double{kElementBytes} * matrices * channel_numbers());
    return solving("put_faded", work);
  }
  /// Numbers that fade, and operations of each.
  Work weigh(double count, double operations) const {
    return {.exp = count / arch_.fact("exp2_per_cycle"), .alu = count * operations / arch_.fact("f32_per_cycle")};
  }
  void multiply_late(int queries, int compare, int weighed) {
    then(load_k_, queries, 0, k_);
    then(load_q_, queries, 0, q_);
    then(compare, queries);  // registers: nothing holds products of keys any more
    wait(queries, weighed);
  }
  /// Each warp has the blocks of its rows of B, from P in registers. Warps that have many of them have few of T.
  /// Returns the node that puts them.
  int solve_weights(int compare, int invert, int weighed) {
    constexpr int kProducts = kWeightBlocks + kBlocks * (kBlocks - 1) * (kBlocks + 1) / 6;
    Work work = products(double{kTerms} * kProducts);
    work.alu = kSplit * (kWeightBlocks + kBelow) * kBlock * kBlock / arch_.fact("f32_per_cycle");
    then(invert, weighed);
    const int solve = solving("solve_weights", work);
    then(compare, solve, 0, lower_);
    then(invert, solve, 0, inverses_);
    then(weighed, solve);
    const int put = solving("put_weights", weigh(kWeights, kPutWeight));
    then(solve, put);
    return put;
  }
  /// Blocks of T so many below the diagonal: each warp has those of its columns, and goes on from them. They wait for
  /// `before`, as nothing holds products with q behind it. Returns the node that puts all of them.
  int below_the_diagonal(int compare, int invert, int before) {
    constexpr const char* kBodies[] = {"solve_first", "solve_second", "solve_third"};
    int last = before;
    std::vector<int> solved = {invert};
    static_assert(std::size(kBodies) == kBlocks - 1);
    for (int apart = 1; apart < kBlocks; ++apart) {
      Work work = products(double{kTerms} * (kBlocks - apart) * (apart + 1));
      work.alu = kSplit * (kBlocks - apart) * 2 * kBlock * kBlock / arch_.fact("f32_per_cycle");
      const int solve = solving(kBodies[apart - 1], work);
      node(solve).registers = 2 * kRegisters;
      then(compare, solve, 0, lower_);
      then(invert, solve, 0, inverses_);
      then(last, solve);
      solved.push_back(last = solve);
    }
    const int put = solving(alone_ ? "put_rows" : "put_blocks", weigh(kWeights, kPutWeight));
    for (const int each : solved) then(each, put);
    return put;
  }
  static constexpr std::int64_t kStagedBytes = std::int64_t{kChunk} * delta_chunks::kRowBytes;
  /// Rows of a record, in the place of tokens that nothing reads any more.
  int staged(const char* name, int tokens) {
    const int rows = value(name, kStagedBytes, Scope::iteration, 1, 1);
    last_value().lies_in = tokens;
    return rows;
  }
  /// They leave together: a store of its own for each would have warps wait for each other twice.
  void store(const char* body, const std::vector<std::pair<int, int>>& parts) {
    const auto bytes = static_cast<double>(kStagedBytes) * static_cast<double>(parts.size());
    Node n = single("Writer", body, delta_chunks::kSolveWarps);
    n.async = graph::Async::store;
    n.reservations = {of("TMA", cycles(engine_.run_cycles(bytes)))};
    n.latency = cycles(engine_.arrival_cycles(bytes));
    const int put = add(std::move(n));
    for (const auto& [from, rows] : parts) then(from, put, 0, rows);
  }
  int solving(const char* body, const Work& work) {
    Node n = single(kContexts[static_cast<int>(solves_)], body, delta_chunks::kSolveWarps);
    hold(n, work);
    return add(std::move(n));
  }

  const Multiplier groups_{Multiplier::Way::warpgroup, arch_};
  const Solves solves_;
  const bool alone_, channels_, delta_;
  int k_ = -1, q_ = -1, sums_ = -1, factors_ = -1, q_factors_ = -1, gates_ = -1, lower_ = -1, inverses_ = -1;
  int load_k_ = -1, load_q_ = -1, gated_ = -1;
};

}  // namespace

Graph delta_solve_graph(const DeltaChunksKernel& kernel, const arch::Arch& arch) {
  return SolveBuilder(kernel, arch, kernel.channel_gate ? Solves::channels : Solves::all).build();
}
Graph delta_matrix_graph(const DeltaChunksKernel& kernel, const arch::Arch& arch) {
  return SolveBuilder(kernel, arch, Solves::alone).build();
}

}  // namespace tj::ops
