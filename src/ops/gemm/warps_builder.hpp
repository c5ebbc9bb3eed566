// The graph of products that warps or waves make, each of its piece of a tile: one for both families, which differ in
// who copies.
//
//   ab -> mma -> store            whatever hands on a slot of both operands: a copy into the ring, or a put
//   mma (i) -> mma (i+1)          sums into one set of registers; a product may be in parts, one after the other, and
//                                 between them sums may be added to others
//
// Decides the role that multiplies and what binds its products. Copies, costs and registers are the families'
// (sm80.cpp, amd.cpp). Invariant: one product reads both operands, so they come and go together, in value 0.
#pragma once

#include <utility>
#include <vector>

#include "ops/gemm/builder.hpp"
#include "ops/gemm/warps.hpp"

namespace tj::ops {

class GemmWarpsBuilder : protected GemmBuilder {
 protected:
  GemmWarpsBuilder(const GemmKernel& kernel, const GemmFamily& family, const arch::Arch& arch)
      : GemmBuilder(kernel, gemm::kDirect, family, arch), warps_(gemm_warps(tile_)) {
    unit_text(tile_.block_m, tile_.block_n);
    constant("kWarpsM", warps_.m);
    constant("kWarpsN", warps_.n);
  }

  /// What the consumers do in an iteration, one after the other; products read the slot.
  struct Step {
    Node node;
    bool reads = true;
  };
  struct Nodes {
    int begin;  ///< of a tile
    std::vector<int> steps;
  };
  /// copied: the node that hands on a slot.
  Nodes multiply_and_store(int copied, std::vector<Step> steps) {
    Nodes made = {add(single("Consumer", "begin", warps_.count(), Scope::tile_begin)), {}};
    for (Step& step : steps) made.steps.push_back(add(std::move(step.node)));
    const int first = made.steps.front(), last = made.steps.back();
    const int store = add(single("Consumer", "store", warps_.count(), Scope::tile_end));
    edge(made.begin, first, 0, 0, false);
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i].reads) then(copied, made.steps[i], 0, 0);
    for (std::size_t i = 1; i < steps.size(); ++i) then(made.steps[i - 1], made.steps[i]);
    then(last, first, 1);
    then(last, store);
    return made;
  }

  const GemmWarps warps_;
};

}  // namespace tj::ops
