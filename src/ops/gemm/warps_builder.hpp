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

  /// Products of e4m3, of half of the columns at a time, and the additions behind each: product(body) makes the node of
  /// one. Scales of blocks come out of memory while products are under way, `latency` cycles after they are asked for.
  /// beside: blocks of an SM.
  template <class Product>
  void multiply_narrow(int copied, const Product& product, int beside, double latency) {
    const int adds = cycles(static_cast<double>(tile_.block_m) * tile_.block_n / 2 / arch_.fact("f32_per_cycle"));
    const auto promotion = [&](const char* body) {
      Node promote = single("Consumer", body, warps_.count());
      busy(promote, beside * adds);
      promote.reservations = {of("ALU", adds)};
      return promote;
    };
    const Nodes nodes = multiply_and_store(copied, {{product("mma_low")},
                                                    {promotion("promote_low"), false},
                                                    {product("mma_high")},
                                                    {promotion("promote_high"), false}});
    if (kernel_.scales == Scales::tensor) return;
    constexpr int kScaleCycles = 40;  // estimate: of a thread that asks for its rows' and columns' scales
    Node bring = single("Consumer", "bring_scales", warps_.count());
    busy(bring, kScaleCycles);
    bring.latency = cycles(latency);
    const int brought = add(std::move(bring)), low = nodes.steps[1], high = nodes.steps[3];
    edge(nodes.begin, brought, 0, 0, false);
    then(brought, low);
    then(high, brought, 1);
  }

  const GemmWarps warps_;
};

}  // namespace tj::ops
