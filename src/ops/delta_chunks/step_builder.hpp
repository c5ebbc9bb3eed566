// The builder of the graphs of delta_chunks whose nodes are bodies of one role; internal to the op.
//
// Decides a kernel's name and constants alone.
#pragma once

#include "ops/delta_chunks/builder.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/delta_chunks/fields.hpp"

namespace tj::ops::delta_chunks {

inline void name_graph(const DeltaChunksKernel& kernel, graph::Graph& graph) {
  graph.name = request_of_fields<kFields>("delta_chunks", kernel).name;
  add_constants<kFields>("delta_chunks", kernel, graph);
}

class StepBuilder : protected LoadBuilder {
 protected:
  StepBuilder(const DeltaChunksKernel& kernel, const char* text, const char* params, const arch::Arch& arch, int blocks)
      : LoadBuilder("delta_chunks", text, params, arch, blocks), kernel_(kernel) {
    name_graph(kernel, graph_);
  }

  const DeltaChunksKernel kernel_;
};

}  // namespace tj::ops::delta_chunks
