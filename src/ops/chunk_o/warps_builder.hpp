// The graph of chunk_o where a warp's or a wave's instruction multiplies: one for both families, which differ in who
// copies and who stores.
//
//   tokens -> qk ==> weigh -> pv ==> the result      whatever hands on a slot of q and k: a copy into a ring, or a put
//   tokens, h -> qh ==> fade ----^   ^- v            without gates there is no fade
//   fetch -> weigh, the result                       the item's place and gates
//
// Decides the role that computes, its costs and its registers. Copies and what becomes of the result are the families'
// (sm80.cpp, amd.cpp). Invariant: from one item to the next only registers are shared, each free before it is filled
// again.
#pragma once

#include "ops/chunk_o/builder.hpp"

namespace tj::ops {

class ChunkOWarpsBuilder : protected ChunkOBuilder {
 protected:
  static constexpr int kRowWarps = 4;  ///< that have all of the chunk's rows, sixteen each

  struct Role {
    int warps = kRowWarps;              ///< a multiple of kRowWarps, which share the columns
    int parts = 1;                      ///< items that share a head's columns of V
    int context_registers = 0;          ///< beside scores, weights and output: places, gates, addresses, counters
    const char* conversions = nullptr;  ///< the fact that says how many elements are rounded a cycle
    bool in_place = false;  ///< weights take the place of scores, and are rounded by the product that reads them
  };
  ChunkOWarpsBuilder(const ChunkOKernel& kernel, const Multiplier& multiplier, const Copier& copier, const Role& role,
                     const arch::Arch& arch)
      : ChunkOBuilder(kernel, 1, copier, arch),
        multiplier_(multiplier),
        role_(role),
        columns_(chunk_o::kWidth / role.parts) {
    graph_.walk = graph::Walk::one_tile;
    graph_.flops_per_iteration =
        2.0 * chunk_o::kChunk *
        (double{chunk_o::kChunk} * (chunk_o::kWidth + columns_) + double{chunk_o::kWidth} * columns_);
  }

  /// A node that hands on a slot, and the ring that it fills.
  struct Filled {
    int node, ring;
    int load = -1;  ///< the node that loads, where another one hands on
  };
  /// result: the body that rounds an item's rows, with what else it does. Returns its node.
  int chain(const Filled& tokens, const Filled& h, const Filled& v, const char* result, const Work& rounding) {
    using chunk_o::kWidth;
    const int fetched = fetch();
    const int sharers = role_.warps / kRowWarps;  // each makes its rows' scores
    const int qk = compute("qk", product(sharers * chunk_o::kChunk, kWidth, true), words(sharers * chunk_o::kChunk));
    const int qh = compute("qh", product(columns_, kWidth, true), words(columns_));
    const int weighed = compute("weigh", weights(sharers), role_.in_place ? 0 : words(sharers * chunk_o::kChunk) / 2);
    const int faded = kernel_.gated ? compute("fade", {.alu = outputs() / arch_.fact("f32_per_cycle")}) : -1;
    const int pv = compute("pv", product(columns_, chunk_o::kChunk, false));
    const int end = compute(result, rounding);
    then(tokens.node, qk, 0, tokens.ring);
    then(tokens.node, qh, 0, tokens.ring);
    then(h.node, qh, 0, h.ring);
    then(v.node, pv, 0, v.ring);
    then(fetched, weighed);
    then(qk, weighed);
    then(weighed, pv);
    if (kernel_.gated) {
      then(weighed, faded);  // which makes the factors
      then(qh, faded);
      then(faded, pv);
    } else {
      then(qh, pv);
    }
    then(pv, end);
    then(qh, end);  // its registers hold the result
    then(fetched, end);
    then(end, fetched, 1);
    then(role_.in_place ? pv : weighed, qk, 1);
    then(end, qh, 1);
    then(pv, weighed, 1);
    return end;
  }
  double outputs() const { return double{chunk_o::kChunk} * columns_; }
  /// An item's rows, scaled and rounded.
  Work rounding() const {
    Work work;
    work.alu = outputs() * (1 / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact(role_.conversions));
    return work;
  }

  const Multiplier multiplier_;
  const Role role_;
  const int columns_;  ///< of V, of an item

 private:
  int words(int columns) const { return chunk_o::kChunk * columns / (role_.warps * arch_.warp_size); }
  /// columns: of all sharers together. Each warp loads its columns' operand, and of q its own rows.
  Work product(int columns, int depth, bool reads_q) const {
    const double shared = double{kRowWarps} * columns * depth * kElementBytes,
                 own = reads_q ? double{chunk_o::kChunk} * (role_.warps / kRowWarps) * depth * kElementBytes : 0;
    return multiplier_.work(2.0 * chunk_o::kChunk * columns * depth, shared + own);
  }
  /// A difference, two factors and a choice for each score; without gates the choice.
  Work weights(int sharers) const {
    const double scores = double{chunk_o::kChunk} * chunk_o::kChunk * sharers;
    Work work;
    if (kernel_.gated) work.exp = scores / arch_.fact("exp2_per_cycle");
    work.alu = scores * ((kernel_.gated ? 4 : 1) / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact(role_.conversions));
    return work;
  }
  int fetch() {
    Node n = single("Consumer", "fetch", role_.warps);
    busy(n, 1);
    n.latency += cycles(copier_.latency_cycles());
    n.registers = role_.context_registers;
    return add(std::move(n));
  }
  int compute(const char* body, const Work& work, int registers = 0) {
    Node n = single("Consumer", body, role_.warps);
    hold(n, work);
    n.registers = registers;
    return add(std::move(n));
  }
};

}  // namespace tj::ops
