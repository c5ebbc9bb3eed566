// What the graphs of chunk_o have in common, on every family of archs: the text of the unit, copies and what they cost;
// see chunk_o.hpp.
//
// Decides nothing about products, weights or what a consumer is. Invariant: one head's rings of a kind lie one behind
// the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "ops/chunk_o/chunk_o.hpp"
#include "ops/chunk_o/fields.hpp"
#include "ops/chunk_o/params.cuh"
#include "ops/common/machine.hpp"
#include "support/fail.hpp"

namespace tj::ops {

class ChunkOBuilder {
 protected:
  static constexpr int kElementBytes = 2;
  static constexpr std::int64_t kTokenBytes =
      std::int64_t{chunk_o::kChunk} * chunk_o::kWidth * kElementBytes;  ///< of q, k, v or o
  static constexpr std::int64_t kStateBytes = std::int64_t{chunk_o::kWidth} * chunk_o::kWidth * kElementBytes;
  static constexpr int kMaxSlots = 6;
  static constexpr double kSharedBytesPerCycle = 128;  ///< CUDA C++ Programming Guide: 32 banks of 4 bytes
  static constexpr int kLoadRegisters =
      16;  ///< a thread's, of what each load keeps from item to item: where its items lie

  ChunkOBuilder(const ChunkOKernel& kernel, int heads, const arch::Arch& arch)
      : kernel_(kernel), heads_(heads), arch_(arch) {
    graph_.name = support::cat(chunk_o_request(kernel_).name, kernel_.heads == 0 ? support::cat("_h", heads_) : "");
    graph_.machine = machine_of(arch_);
    unit_text();
    graph_.flops_per_iteration = 2.0 * heads_ * chunk_o::kChunk *
                                 (2.0 * chunk_o::kChunk * chunk_o::kWidth + double{chunk_o::kWidth} * chunk_o::kWidth);
    // The first item has nothing to hide behind.
    graph_.overhead_cycles = 2.0 * arch_.fact("copy_latency_cycles");
  }

  void unit_text() {
    graph_.namespace_name = "tj::ops::chunk_o";
    graph_.includes = {support::cat("ops/chunk_o/", arch_.family, ".cuh")};
    graph_.params_type = "tj::ops::chunk_o::Params";
    graph_.config.emplace_back("static constexpr int kHeads", support::cat(heads_));
    add_constants<kChunkOFields>("chunk_o", kernel_, graph_);
  }

  int value(std::string name, std::int64_t bytes, int least, int most) {
    graph_.values.push_back({std::move(name), bytes, 1024, graph::Scope::iteration, least, most});
    return static_cast<int>(graph_.values.size()) - 1;
  }
  /// One head's rings of a kind lie one behind the other, so that one text can serve all consumers. The first of them.
  int of_heads(const char* name, std::int64_t bytes, int least, int most) {
    const auto first = static_cast<int>(graph_.values.size());
    for (int c = 0; c < heads_; ++c) value(support::cat(name, c), bytes, least, most);
    return first;
  }
  /// The copy engine is held for as long as the SM's share of memory's rate takes: it is what the loop waits for.
  int copy_cycles(std::int64_t bytes) const {
    const double share = arch_.fact("memory_bytes_per_cycle") / std::max(1, arch_.sm_count);
    return cycles(std::max(static_cast<double>(bytes) / share,
                           static_cast<double>(bytes) / 1024 * arch_.fact("copy_cycles_per_kb")));
  }
  int unit(const char* name) const { return graph_.machine.unit_index(name); }
  int add(graph::Node node) {
    graph_.nodes.push_back(std::move(node));
    return static_cast<int>(graph_.nodes.size()) - 1;
  }
  void edge(int src, int dst, int delay, int distance, bool blocking, int value = -1) {
    graph_.edges.push_back({src, dst, delay, distance, blocking, value, 0, value < 0});
  }
  const graph::Node& node(int index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }

  int load(const char* body, const char* context, int c, int value) {
    graph::Node n;
    n.name = value == 0 ? body : support::cat(body, ".", c);
    n.body = body;
    n.context = context;
    n.copy = c;
    n.async = graph::Async::copy;
    const int held = copy_cycles(graph_.values[static_cast<std::size_t>(value)].slot_bytes);
    n.reservations = {{unit("TMA"), 0, held, 1}};
    n.cycles = 1;
    n.latency = held + cycles(arch_.fact("copy_latency_cycles"));
    n.variable_latency = n.streaming = true;
    n.warps = 1;
    n.registers = kLoadRegisters;
    return add(std::move(n));
  }

  graph::Node of_threads(const char* body, const char* context, int c) const {
    graph::Node n;
    n.name = support::cat(body, ".", c);
    n.body = body;
    n.context = context;
    n.copy = c;
    n.warps = arch_.warps_per_group;
    return n;
  }
  int put(int c) {
    graph::Node n = of_threads("put_chunk", "Writer", c);
    n.async = graph::Async::store;
    n.warps = 1;
    n.reservations = {{unit("TMA"), 0, copy_cycles(kTokenBytes), 1}};
    n.latency = cycles(arch_.fact("copy_latency_cycles") +
                       static_cast<double>(kTokenBytes) / 1024 * arch_.fact("copy_cycles_per_kb"));
    n.cycles = n.warp_cycles = n.latency;  // its thread waits until the slot is read
    n.registers = kLoadRegisters;
    return add(std::move(n));
  }

  ChunkOKernel kernel_;
  int heads_ = 1;
  const arch::Arch& arch_;
  graph::Graph graph_;
};

}  // namespace tj::ops
