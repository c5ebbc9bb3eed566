// A family of chunk_o's kernels: what one kind of matrix instructions makes of a kernel.
//
// Decides what a family gives, and which one serves an arch. Does not decide nodes nor costs: each family has a file of
// its name. Invariant: nothing else asks an arch for its family. A new family is a file and a row in family.cpp.
#pragma once

#include "ops/chunk_o/chunk_o.hpp"

namespace tj::ops {

struct ChunkOFamily {
  const char* name;  ///< arch::Arch::family, and of the node bodies: kernel_templates/ops/chunk_o/<name>.cuh
  const arch::Needs& (*needs)(const arch::Arch&);  ///< of its node bodies, by whoever copies there
  int most_heads;                                  ///< value heads that an item may have
  graph::Graph (*graph)(const ChunkOKernel& kernel, int heads, const arch::Arch& arch);
  std::vector<std::string> (*definitions)() = nullptr;  ///< Candidate::definitions; null: none
  /// The numbers of its kernels that a launch must know, beside an item's heads; null: those of copies by the engine.
  ChunkOLaunch (*launch)(const arch::Arch& arch) = nullptr;
};

}  // namespace tj::ops
