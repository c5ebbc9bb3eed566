// The dependence graph of attention forward over tensor memory, with its costs, and which forms are tried; see
// builder.hpp.
//
//   load_q                                                              tile begin, once
//   load_k -> qk.c -> maximum.c -> weights_j.c -> pv_j.c <- load_v      for each sub-tile c of 128 rows, each part j of
//   a block of keys maximum.c -> correct.c (i) -> pv_0.c, pv.c (i-1) -> correct.c (i)   what was gathered is corrected
//   in between, where a reference moved pv.c (i) -> qk.c (i+1)                                              where
//   weights lie over their scores hand_sums.c -> store.c                                                 tile end: sums
//   of the weights, then the output
//
// Decides nodes, costs, and how many exponentials arithmetic takes over; no role. Costs come from the arch's facts
// alone.
#include <algorithm>
#include <array>
#include <span>

#include "ops/fmha/builder.hpp"
#include "ops/fmha/params.cuh"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using graph::Reservation;
using graph::Space;
using support::cat;

constexpr int kRows = fmha::kRowsPerTensorTile, kTiles = 2;
constexpr int kKeys = 128;          // of an iteration
constexpr int kColumnsOfLoad = 16;  // of scores, that a thread asks for at once while it works on those before

const arch::Needs& kNeeds = support::lasting<arch::Needs>(
    {{"TC", "EXP", "ALU", "TMA", "TMEM"},
     {"matrix_flops_per_cycle", "matrix_issue_cycles", "matrix_drain_cycles", "exp2_per_cycle", "f32_per_cycle",
      "minmax_per_cycle", "minmax_operands", "convert_per_cycle", "integer_per_cycle", "copy_latency_cycles",
      "copy_cycles_per_kb", "tensor_memory_bytes_per_cycle", "barrier_cycles", "exchange_cycles",
      "exchange_cycles_per_kb", "cache_bytes"},
     {"sm100"}});

// The budget of a second search. Head dim 64 on sm_103a is proven (II 1634) after 94184 nodes, 0.4 s on an AMD EPYC,
// 2026-11-22. The usual budget leaves it at 1661.
constexpr std::uint64_t kSecondSearchNodes = 200'000;

// Registers of a thread beside its scores: reference, sum, factor, and what the bodies need throughout, addresses,
// counters and temporaries.
constexpr int kSoftmaxRegisters = 56;
constexpr int kProductRegisters =
    28;  // descriptors and places of a sub-tile's operands (tests/ops/fmha/tensor_compile_test.cpp: no spill)
constexpr int kCorrectionRegisters =
    32;  // the output passes through a part of its columns at a time; what other roles leave comes on top

// Corrections of a tile: references move far in its first iterations, later hardly ever (FlashAttention-4 is said to be
// left with a tenth of all corrections).
constexpr double kCorrections = 2;

using Parts = std::array<int, fmha::kMaxWeightParts>;

struct Tile {
  Parts parts;                ///< keys of each part of a block, whose weights go to the second product together
  int fewer_polynomials = 0;  ///< of exponentials, than units in balance ask for
};
struct Form {
  Parts parts;
  bool weights_over_scores;
};

/// Cycles of one sub-tile's nodes. Those of `key` are per key: of 128 rows.
struct Costs {
  double exp_key = 0, alu_key = 0;         ///< of one key's exponentials: special functions, arithmetic
  double write_key = 0;                    ///< its weights into tensor memory
  double product_key = 0;                  ///< of the second product
  int product = 0, values = 0, drain = 0;  ///< of the first; of the second; until sums are there
  double issue = 0;                        ///< of an instruction
  int load_chunk = 0, maximum_chunk = 0;   ///< scores out of tensor memory; what is made of them, and their maxima
  int exp_chunk = 0;                       ///< special functions of that
  int correction = 0;                      ///< of the output, where a reference moved far
  int barrier = 0, exchange = 0;
};

/// Arithmetic of one exponential by polynomial, beside the multiply-add that every one begins with: six multiply-adds
/// and additions, and one addition to the exponent (tj::ops::fmha::exp2_polynomial).
double polynomial_cycles(const arch::Arch& arch) {
  return kRows * (6 / arch.fact("f32_per_cycle") + 1 / arch.fact("integer_per_cycle"));
}

Costs costs_of(const FmhaKernel& config, const arch::Arch& arch, int polynomials, int block_n) {
  Costs c;
  const double by_arithmetic = static_cast<double>(polynomials) / fmha::kPolynomialOf,
               outputs = static_cast<double>(kRows) * fmha::multiplied_width(fmha_value_dim(config));
  const double moved = arch.fact("tensor_memory_bytes_per_cycle");
  c.exp_key = kRows * (1 - by_arithmetic) / arch.fact("exp2_per_cycle");
  // A score costs one multiply-add, one addition to the sum and half a conversion (two at a time).
  c.alu_key = kRows * (2 / arch.fact("f32_per_cycle") + 0.5 / arch.fact("convert_per_cycle")) +
              by_arithmetic * polynomial_cycles(arch);
  c.write_key = kRows * kFmhaElementBytes / moved;
  c.product_key = 2.0 * outputs / arch.fact("matrix_flops_per_cycle");
  c.product =
      cycles(2.0 * kRows * fmha::multiplied_depth(config.head_dim) / arch.fact("matrix_flops_per_cycle") * block_n);
  c.values = cycles(c.product_key * block_n);
  c.drain = cycles(arch.fact("matrix_drain_cycles"));
  c.issue = arch.fact("matrix_issue_cycles");
  c.load_chunk = cycles(4.0 * kRows * kColumnsOfLoad / moved);
  const FmhaScoreWork beside = fmha_score_work(config, arch);
  c.maximum_chunk = cycles(kRows * kColumnsOfLoad *
                           (1 / (arch.fact("minmax_per_cycle") * (arch.fact("minmax_operands") - 1)) +
                            beside.adds / arch.fact("f32_per_cycle")));
  c.exp_chunk = cycles(kRows * kColumnsOfLoad * beside.exp / arch.fact("exp2_per_cycle"));
  c.correction = cycles(2 * 4 * outputs / moved + outputs / arch.fact("f32_per_cycle"));
  c.barrier = cycles(arch.fact("barrier_cycles"));
  c.exchange = cycles(arch.fact("exchange_cycles") + arch.fact("exchange_cycles_per_kb") * 4.0 * kRows / 1024);
  return c;
}

/// A part of the weights: its exponentials, then its way into tensor memory, which its threads wait for.
struct Part {
  int exp, alu, write, product;
  int run() const { return std::max(exp, alu) + write; }
};
Part part_of(const Costs& c, int keys) {
  return {cycles(c.exp_key * keys), cycles(c.alu_key * keys), cycles(c.write_key * keys), cycles(c.product_key * keys)};
}
int room_of(const Costs& c, const Form& form) {
  return form.weights_over_scores
             ? part_of(c, *std::find_if(form.parts.rbegin(), form.parts.rend(), [](int keys) { return keys > 0; }))
                   .write
             : 0;
}
/// Behind its first load a row leaves room for the last store of another sub-tile's weights.
int maximum_run(const Costs& c, const Form& form, int block_n) {
  return c.load_chunk * (block_n / kColumnsOfLoad) + room_of(c, form) + std::max(c.maximum_chunk, c.exp_chunk);
}

/// No schedule is shorter: units, and where weights lie over scores the way round from scores to scores.
int least_interval(const Costs& c, const Form& form, int block_n) {
  int exp = c.exp_chunk * (block_n / kColumnsOfLoad), alu = c.maximum_chunk * (block_n / kColumnsOfLoad),
      weights = c.product + c.drain + maximum_run(c, form, block_n), products = 0;
  for (const int keys : form.parts) {
    const Part part = part_of(c, keys);
    exp += part.exp;
    alu += part.alu;
    weights += part.run();
    products = std::max(products, weights + c.barrier) + part.product;
  }
  return std::max(
      {kTiles * (c.product + c.values), kTiles * exp, kTiles * alu, form.weights_over_scores ? products : 0});
}

/// The number of kPolynomialOf exponentials that arithmetic takes over: none where that gains next to nothing, else the
/// fewest with which the interval is the least.
int polynomials_for(const FmhaKernel& config, const arch::Arch& arch, const Form& form, int block_n) {
  constexpr double kWorthIt = 1.05;
  const auto interval = [&](int polynomials) {
    return least_interval(costs_of(config, arch, polynomials, block_n), form, block_n);
  };
  int best = 0;
  for (int count = 1; count <= fmha::kPolynomialOf; ++count)
    if (interval(count) < interval(best)) best = count;
  return interval(0) > kWorthIt * interval(best) ? best : 0;
}

// Scores, output and weights of two sub-tiles fit beside each other where the head dim is small; else the weights take
// the place of their scores.
Form form_of(const FmhaKernel& config, const Tile& tile, const arch::Arch& arch) {
  const std::int64_t columns = arch.memory_bytes.at("TMEM") / graph::kTensorColumnBytes;
  return {tile.parts, kTiles * (kKeys + kKeys / 2 + fmha::multiplied_width(fmha_value_dim(config))) > columns};
}

class Builder : private FmhaBuilder {
 public:
  Builder(const FmhaKernel& config, const Tile& tile, const arch::Arch& arch)
      : FmhaBuilder(config, arch, kTiles * kRows, kKeys),
        form_(form_of(config, tile, arch)),
        polynomials_(std::max(0, polynomials_for(config, arch, form_, kKeys) - tile.fewer_polynomials)),
        costs_(costs_of(config, arch, polynomials_, kKeys)) {}

  Candidate build() {
    set_name(cat(kTiles, "x", kRows, "x", kKeys));
    graph_.walk = mask_.tiles_differ() ? graph::Walk::one_tile : graph::Walk::persistent;  // as on sm_90a
    constant("kPolynomials", polynomials_);
    for (int j = 0, end = 0; j < fmha::kMaxWeightParts; ++j)
      constant(cat("kPartEnd", j).c_str(), end += form_.parts[static_cast<std::size_t>(j)]);
    values(2);
    tensor_values();
    loads_ = engine_loads();
    for (int c = 0; c < kTiles; ++c) sub_tile(c);
    graph_.overhead_cycles = 2.0 * copy_.latency + kTiles * (kCorrections * costs_.correction);
    Candidate candidate = made();
    candidate.copies_apart = true;
    candidate.node_budget = kSecondSearchNodes;
    return candidate;
  }

 private:
  static constexpr int kQ = 0, kK = 1, kV = 2;
  int parts() const {
    return static_cast<int>(std::count_if(form_.parts.begin(), form_.parts.end(), [](int keys) { return keys > 0; }));
  }
  int keys(int part) const { return form_.parts[static_cast<std::size_t>(part)]; }

  /// One for each sub-tile, side by side, so that roles that do the same may share their text.
  int pair(const std::string& name, std::int64_t bytes, Scope scope, Space space) {
    const int first = value_count();
    for (int c = 0; c < kTiles; ++c) {
      value(cat(name, ".", c), bytes, scope, 1, 1, space == Space::tensor ? 1024 : 128);
      last_value().space = space;
    }
    return first;
  }
  void tensor_values() {
    scores_ = pair("scores", std::int64_t{4} * kRows * kKeys, Scope::iteration, Space::tensor);
    output_ = pair("output", std::int64_t{4} * kRows * outputs(), Scope::iteration, Space::tensor);
    for (int j = 0; j < parts(); ++j)
      weights_[static_cast<std::size_t>(j)] =
          pair(cat("weights_", j), std::int64_t{kFmhaElementBytes} * kRows * keys(j), Scope::iteration, Space::tensor);
    factors_ = pair("factors", std::int64_t{4} * kRows, Scope::iteration, Space::shared);
    sums_ = pair("sums", std::int64_t{8} * kRows, Scope::tile_end, Space::shared);
  }

  int product(const std::string& body, int c, int run, int instructions) {
    Node n = numbered("Products", body, c);
    multiply(n, unit_, {cycles(costs_.issue * instructions), run, run + costs_.drain});
    return add(std::move(n));
  }
  int work(Node n, int run, std::vector<Reservation> uses) {
    busy(n, run);
    n.reservations = std::move(uses);
    return add(std::move(n));
  }
  /// Chunk after chunk of a row's scores into registers, the maxima of one while the next is on its way.
  int maximum(int c) {
    const int chunks = kKeys / kColumnsOfLoad;
    const int room = room_of(costs_, form_), load = costs_.load_chunk;
    std::vector<Reservation> uses = {of("TMEM", load), of("TMEM", load * (chunks - 1), load + room)};
    const int run = maximum_run(costs_, form_, kKeys), maxima = costs_.maximum_chunk * chunks;
    const int exp = costs_.exp_chunk * chunks, longest = std::max(run, std::max(maxima, exp));
    uses.push_back(of("ALU", maxima, longest - maxima));  // as late as that: each chunk is there when its turn comes
    if (exp > 0) uses.push_back(of("EXP", exp, longest - exp));
    return work(numbered("Softmax", "maximum", c), longest, std::move(uses));
  }
  int weights(int c, int j) {
    const Part part = part_of(costs_, keys(j));
    return work(numbered("Softmax", cat("weights_", j), c), part.run(),
                {of("EXP", part.exp), of("ALU", part.alu), of("TMEM", part.write, std::max(part.exp, part.alu))});
  }
  /// The steady state has no reference that moves far: the factors are looked at, and the output stays where it is.
  int correct(int c) {
    Node n = numbered("Correction", "correct", kTiles);  // one object, for both sub-tiles
    n.name = cat("correct.", c);
    const int index = work(std::move(n), costs_.exchange, {});
    // It looks at factors, and seldom moves anything. No other instruction of its role may have to wait when it does.
    node(index).warp_cycles = std::max(costs_.exchange, costs_.correction);
    return index;
  }

  struct SubTile {
    int qk = 0, maximum = 0, correct = 0, store = 0;
    std::vector<int> weights, pv;
  };
  void sub_tile(int c) {
    const int begin = add(numbered("Softmax", "begin", c, Scope::tile_begin));
    SubTile t;
    t.qk = product("qk", c, costs_.product, depth() / Multiplier::kInstructionDepth);
    t.maximum = maximum(c);
    for (int j = 0; j < parts(); ++j) t.weights.push_back(weights(c, j));
    t.correct = correct(c);
    for (int j = 0; j < parts(); ++j)
      t.pv.push_back(
          product(cat("pv_", j), c, part_of(costs_, keys(j)).product, keys(j) / Multiplier::kInstructionDepth));
    const int sums = add(numbered("Softmax", "hand_sums", c, Scope::tile_end));
    t.store = add(numbered("Output", "store", c, Scope::tile_end));
    edge(begin, t.maximum, 0, 0, false);
    edge(t.weights.back(), sums, 0, 0, false);
    order(t.correct, t.store, 0);
    graph_.edges.back().same_role = true;
    products(c, t);
    softmax(c, t);
    edge(sums, t.store, 0, 0, false, sums_ + c);
    wait(t.pv.back(), t.store, 0, output_ + c);
    memory_and_registers(t);
  }
  void softmax(int c, const SubTile& t) {
    masks(t.maximum);
    wait(t.qk, t.maximum, 0, scores_ + c);
    order(t.maximum, t.qk, node(t.maximum).latency + costs_.barrier, 1);
    int before = t.maximum;
    for (const int each : t.weights) {
      then(before, each);
      before = each;
    }
    if (parts() > 1) then(t.maximum, before);  // scores stay until the last of them is used
    then(before, before, 1);                   // the sum
    then(before, t.maximum, 1);                // one register copy of the scores
    edge(t.maximum, t.correct, node(t.maximum).latency + costs_.exchange + costs_.barrier, 0, false, factors_ + c);
    for (const int each : t.pv) {  // all of them add to it
      wait(each, t.correct, 1, output_ + c);
      graph_.edges.back().updates = true;
    }
    order(t.correct, t.pv.front(), node(t.correct).latency + costs_.barrier);
  }
  void products(int c, const SubTile& t) {
    then(loads_.q, t.qk, 0, kQ);
    then(loads_.k, t.qk, 0, kK);
    for (std::size_t j = 0; j < t.pv.size(); ++j) {
      const auto in_unit = [&](std::size_t part) { return node(t.pv[part]).reservations.front().cycles; };
      then(loads_.v, t.pv[j], 0, kV);
      edge(t.weights[j], t.pv[j], node(t.weights[j]).latency + costs_.barrier, 0, false, weights_[j] + c);
      if (j > 0) order(t.pv[j - 1], t.pv[j], in_unit(j - 1));
    }
    const int last = node(t.pv.back()).reservations.front().cycles;
    order(t.pv.back(), t.pv.front(), last, 1);
    if (form_.weights_over_scores) order(t.pv.back(), t.qk, last, 1);
  }
  void memory_and_registers(const SubTile& t) {
    // Scores and output have their columns throughout, and so have weights that do not lie over their scores.
    const std::int64_t weights = form_.weights_over_scores ? 0 : std::int64_t{kFmhaElementBytes} * kRows * kKeys;
    node(t.qk).memory_bytes["TMEM"] = std::int64_t{4} * kRows * (kKeys + outputs()) + weights;
    order(t.qk, t.qk, 0, 1);
    node(t.qk).registers = kProductRegisters;
    node(t.maximum).registers = kKeys;  // a row a thread
    node(t.weights.back()).registers = kSoftmaxRegisters;
    node(t.store).registers = kCorrectionRegisters;
  }

  const Form form_;
  const Multiplier unit_{Multiplier::Way::tensor_memory, arch_};
  const int polynomials_;
  const Costs costs_;
  int scores_ = 0, output_ = 0, factors_ = 0, sums_ = 0;
  std::array<int, fmha::kMaxWeightParts> weights_{};
  const Copy copy_ = engine_copy(block_bytes());
  Loads loads_;
};

// Each part of the weights goes to the second product as soon as it is there. If scores wait for that product's end, a
// large first and a small last part let it end shortly after the last exponential. Else two halves do. Where two units
// are in balance no schedule may be that tight: one that arithmetic binds less may be found instead.
constexpr Tile kTriedTiles[] = {{{64, 32, 16, 16}, 0}, {{64, 64, 0, 0}, 0}, {{64, 64, 0, 0}, 1}, {{64, 64, 0, 0}, 2}};

std::vector<Candidate> candidates(const FmhaKernel& config, const arch::Arch& arch) {
  std::vector<Candidate> list;
  // Two sub-tiles' scores and outputs, queries and two blocks of keys and values: no wider rows fit.
  if (std::max(config.head_dim, fmha_value_dim(config)) > 128) return list;
  for (const Tile& tile : kTriedTiles) list.push_back(Builder(config, tile, arch).build());
  return list;
}

}  // namespace

const FmhaFamily& fmha_sm100() {
  static constexpr FmhaFamily family{"sm100", []() -> const arch::Needs& { return kNeeds; }, candidates, true};
  return family;
}

}  // namespace tj::ops
