// The dependence graph of attention forward on matrix instructions of a wave, where what is copied passes through
// registers; see fmha.hpp.
//
//   begin, load_q                          tile begin, once: queries stay in registers
//   load_k -> put_k -> qk -> row_max -> pv <- put_v <- load_v
//   put_k (i) -> load_k (i+1)              the registers of what is on its way are free again; of values likewise
//   pv (i) -> qk (i+1)                     one register copy of the scores, which become weights where pv needs them
//   store                                  tile end
// One role does it all. Loads begin a whole interval before they are put: blocks side by side may all wait at once.
// Invariant: nothing here knows which arch of the family it is but by what it has: lanes, rates, copies of operands,
// memory.
#include <algorithm>

#include "ops/fmha/rungs.hpp"
#include "ops/fmha/warps_builder.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr int kPieceBytes = 16;  // bytes that a thread loads at once

// Registers that the bodies need beside queries, scores, output and loads on their way: for addresses, fragments, a
// reference and sums. The second number is for each row block beyond the first. Both are the least that compile without
// a spill (tests/ops/fmha/amd_compile_test.cpp).
constexpr int kContextRegisters = 64, kRowBlockRegisters = 24;

/// A weight is 2^(x + bias), x the distance of its score from the query's reference in powers of two, which grows to
/// `slack` before the reference moves.
struct Powers {
  int slack, bias;
};
// Powers for archs that keep subnormal elements: an f16 weight may be as small as 2^-24, which is 16 powers below 2^-8,
// the least that a row's largest weight can be.
constexpr Powers kUsual{8, 0};
// Powers for archs that take subnormal elements as 0: an f16 weight below 2^-14 vanishes from the output, while the sum
// of the weights has it. The largest weight is to be 2^15, half of what f16 holds: one power is left for what rounding
// does to x. So slack + bias = 15. With a slack of 1, weights are kept down to 2^-28 of the reference's (19 nats). A
// query's sum is at least the reference's weight, so n keys lose at most n 2^-28 of it. 65536 keys change an output by
// at most 2.5e-4 of the largest value, half of what rounding it to f16 may.
constexpr Powers kWithoutSubnormals{1, 14};

Powers powers_of(const FmhaKernel& config, const arch::Arch& arch) {
  return config.dtype == DType::f16 && arch.has_fact("matrix_flushes_subnormals") ? kWithoutSubnormals : kUsual;
}

const FmhaRung& rung_of(const FmhaKernel& config) { return fmha_rungs()[static_cast<std::size_t>(config.rung)]; }

/// Columns that threads bring of a head dim (amd_load.cuh).
int brought_columns(int head_dim) { return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256; }

class Builder : private FmhaWarpBuilder {
 public:
  Builder(const FmhaKernel& config, const FmhaWarpTile& tile, const arch::Arch& arch)
      : FmhaWarpBuilder(config, tile, Multiplier::Way::wave, "convert_per_cycle", arch), rung_(rung_of(config)) {
    set_name(cat(rows_, "x", keys_, "_", tile_.warps, "waves", held() ? cat("_", rung_.name) : ""));
    if (held()) graph_.includes = {cat("ops/fmha/", arch_.family, "_rungs.cuh")};
    const int padding = multiplier_.row_padding();
    constant("kRowPadding", padding);
    constant("kSlack", powers_of(config_, arch_).slack);
    constant("kWeightBias", powers_of(config_, arch_).bias);
    value("k", keys_ * (std::int64_t{key_columns()} * kFmhaElementBytes + padding), Scope::iteration, 1, 2,
          kPieceBytes);
    value("v", value_columns() * (std::int64_t{keys_} * kFmhaElementBytes + padding), Scope::iteration, 1, 2,
          kPieceBytes);
    if (rung_.transposes_keys)
      value("k_columns", key_columns() * (std::int64_t{keys_} * kFmhaElementBytes + padding), Scope::iteration, 1, 2,
            kPieceBytes);
    nodes();
    graph_.overhead_cycles = 2.0 * copier_.latency_cycles() + arch_.fact("tile_turn_cycles");
  }
  /// Loads are under way all the time, so all registers are held at once. A tile whose blocks lack these could only be
  /// served with its loads one after the other. No other tile is slower, and the search would prove that for each
  /// interval in turn.
  bool registers_suffice() const {
    int held = 0;
    for (const Node& n : graph_.nodes) held += n.registers;
    return held < std::min<std::int64_t>(graph_.machine.max_registers_per_thread,
                                         graph_.machine.registers / (tile_.warps * arch_.warp_size));
  }
  /// Do two blocks' keys and values fit a multiprocessor? Rungs have one tile, whether they run one block or two.
  bool two_blocks_fit() const {
    const auto bytes = graph_.values[kKeys].slot_bytes + graph_.values[kValues].slot_bytes;
    return 2 * bytes <= graph_.machine.memory_bytes.at("SMEM") * tile_.blocks_per_sm;
  }
  Candidate candidate() {
    Candidate candidate = made();
    candidate.max_stages = rung_.max_stages;
    candidate.max_slots = rung_.max_slots;
    return candidate;
  }

 private:
  static constexpr int kKeys = 0, kValues = 1, kColumns = 2;  ///< values of the graph

  /// Is the kernel held to a rung of the ladder?
  bool held() const { return config_.rung != kNoFmhaRung; }

  int key_columns() const { return brought_columns(config_.head_dim); }
  int value_columns() const { return brought_columns(fmha_value_dim(config_)); }
  double bytes_of(int columns) const { return static_cast<double>(keys_) * columns * kFmhaElementBytes; }

  /// Rows as they are; or as columns, which takes narrow stores and an operation for each word.
  Work put(bool as_columns) const {
    Work work;
    const double bytes = bytes_of(as_columns ? value_columns() : key_columns());
    work.shared = shared_cycles(bytes) * (as_columns ? 2 : 1);
    if (as_columns) work.alu = bytes / 4 / arch_.fact("f32_per_cycle");
    return work;
  }

  /// The least time that a load is on its way: as long as its registers are its own, all of an interval but the time of
  /// its put. A rung that asks for nothing ahead has it for as long as memory takes. One that asks for more than an
  /// interval has an interval, as registers hold one block.
  double load_cycles(bool as_columns) const {
    if (held() && rung_.k_ahead == 0)
      return copier_.arrival_cycles(bytes_of(as_columns ? value_columns() : key_columns()));
    const double put_cycles = cycles(put(as_columns).longest());
    const Work parts[] = {product(), maximum(), weighted_product(), put(false), put(true)};
    double chain = issue_cycles(false) + issue_cycles(true), matrix = 0, shared = 0, alu = 0;
    for (const Work& part : parts)
      chain += cycles(part.longest()), matrix += cycles(part.matrix), shared += cycles(part.shared),
          alu += cycles(part.alu);
    const double interval = std::max(chain, tile_.blocks_per_sm * std::max({matrix, shared, alu}));
    return std::max(copier_.arrival_cycles(bytes_of(as_columns ? value_columns() : key_columns())),
                    interval - put_cycles);
  }
  double issue_cycles(bool as_columns) const {
    return cycles(shared_cycles(bytes_of(as_columns ? value_columns() : key_columns())));
  }
  int words_of_block(bool as_columns) const {
    return static_cast<int>(bytes_of(as_columns ? value_columns() : key_columns())) / 4 /
           (tile_.warps * arch_.warp_size);
  }
  /// Loads from memory to registers, which it holds until they are put: the warps go on at once.
  int load(const char* name, bool as_columns) {
    Node n = single("Loader", name, tile_.warps);
    copier_.issue(n, tile_.warps, cycles(issue_cycles(as_columns)));
    n.latency = cycles(load_cycles(as_columns));
    n.registers = words_of_block(as_columns);
    // The tile's first block of keys may have rows past the last.
    n.range = {graph::kFastVariant, graph::kFastBegin, {}, 1};
    return add(std::move(n));
  }
  int put(const char* name, bool as_columns) {
    Node n = single("Loader", name, tile_.warps);
    hold(n, put(as_columns));
    return add(std::move(n));
  }
  Work transposition() const {
    Work work;
    work.shared = shared_cycles(3.0 * copied_keys());  // elements are gathered one by one
    return work;
  }
  void nodes() {
    const int load_k = load("load_k", false), put_k = put("put_k", false), load_v = load("load_v", true),
              put_v = put("put_v", true);
    Bodies bodies;
    bodies.queries = "load_q";
    if (rung_.transposes_keys) bodies.keys = "transpose_k", bodies.qk = "qk_columns";
    if (rung_.natural_exponential) bodies.row_max = "row_max_natural", bodies.pv = "pv_natural";
    if (held()) bodies.store = rung_.exact_division ? "store_divided" : "store_approximated";
    // In the place of the multiply-add a difference and four products.
    const Chain c = chain(bodies, product(), weighted_product(rung_.natural_exponential ? 6 : 2),
                          kContextRegisters + (tile_.row_blocks - 1) * kRowBlockRegisters, transposition());
    through_registers(load_k, put_k);
    through_registers(load_v, put_v);
    then(put_k, c.keys >= 0 ? c.keys : c.qk, 0, kKeys);
    if (c.keys >= 0) then(c.keys, c.qk, 0, kColumns);
    then(put_v, c.pv.front(), 0, kValues);
    rounds(c);
  }

  const FmhaRung& rung_;
  const Copier copier_{Copier::Way::registers, arch_};
};

const arch::Needs& needs() {
  static constinit support::Lasting<const arch::Needs> needs;
  return needs.get([] {
    return arch::Needs{{"TC", "EXP", "ALU", "LSU"},
                       {"matrix_flops_per_cycle", "operand_copies", "exp2_per_cycle", "f32_per_cycle",
                        "minmax_per_cycle", "convert_per_cycle", "shared_bytes_per_cycle", "thread_copy_latency_cycles",
                        "thread_copy_cycles_per_kb", "tile_turn_cycles", "cache_bytes"},
                       {"amd"}};
  });
}

std::vector<Candidate> candidates(const FmhaKernel& config, const arch::Arch& arch) {
  constexpr int kWarps = 4;
  std::vector<Candidate> list;
  const bool held = config.rung != kNoFmhaRung;
  for (const int block_n : {64, 32})
    for (const int row_blocks : {1, 2})
      for (const int blocks : {1, 2, 3}) {
        // A rung has sixteen rows a wave, and as many keys as there is room for.
        if (held && (row_blocks != 1 || blocks != rung_of(config).blocks_per_sm || !list.empty())) continue;
        // A thread makes columns of at least two rows of values.
        const auto pieces = [&](int head_dim) {
          return block_n * brought_columns(head_dim) * kFmhaElementBytes / kPieceBytes / (kWarps * arch.warp_size);
        };
        const int values = pieces(fmha_value_dim(config));
        if (values < 2 || values > 16 || pieces(config.head_dim) < 1) continue;
        Builder builder(config, {block_n, kWarps, row_blocks, blocks, true}, arch);
        if (builder.registers_suffice() && (!held || builder.two_blocks_fit())) list.push_back(builder.candidate());
      }
  return list;
}

}  // namespace

const FmhaFamily& fmha_amd() {
  static constexpr FmhaFamily family{.name = "amd", .needs = needs, .candidates = candidates, .has_rungs = true};
  return family;
}

}  // namespace tj::ops
