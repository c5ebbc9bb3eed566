// The graph of products that warps or waves make, each of its piece of a tile: one for both families, which differ in
// who copies.
//
//   ab -> mma -> store            whatever hands on a slot of both operands: a copy into the ring, or a put
//   mma (i) -> mma (i+1)          sums into one set of registers; a product may be in parts, one after the other
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

  /// copied: the node that hands on a slot.
  void multiply_and_store(int copied, std::vector<Node> parts) {
    const int begin = add(single("Consumer", "begin", warps_.count(), Scope::tile_begin));
    std::vector<int> mma;
    for (Node& part : parts) mma.push_back(add(std::move(part)));
    const int store = add(single("Consumer", "store", warps_.count(), Scope::tile_end));
    edge(begin, mma.front(), 0, 0, false);
    for (const int part : mma) then(copied, part, 0, 0);
    for (std::size_t part = 1; part < mma.size(); ++part) then(mma[part - 1], mma[part]);
    then(mma.back(), mma.front(), 1);
    then(mma.back(), store);
  }

  const GemmWarps warps_;
};

}  // namespace tj::ops
