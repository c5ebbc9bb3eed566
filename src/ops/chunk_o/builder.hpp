// The part that all graphs of chunk_o share, on every family of archs: the text of the unit, copies and what they cost;
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
#include "ops/common/graph_builder.hpp"
#include "support/fail.hpp"

namespace tj::ops {

class ChunkOBuilder : protected GraphBuilder {
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
      : ChunkOBuilder(kernel, heads, {Copier::Way::engine, arch}, arch) {}
  ChunkOBuilder(const ChunkOKernel& kernel, int heads, const Copier& copier, const arch::Arch& arch)
      : GraphBuilder("chunk_o", arch.family, arch), kernel_(kernel), heads_(heads), copier_(copier) {
    graph_.name = support::cat(chunk_o_request(kernel_).name, kernel_.heads == 0 ? support::cat("_h", heads_) : "");
    constant("kHeads", heads_);
    flag("kBulkCopies", copier_.by_engine());
    add_constants<kChunkOFields>("chunk_o", kernel_, graph_);
    graph_.flops_per_iteration = 2.0 * heads_ * chunk_o::kChunk *
                                 (2.0 * chunk_o::kChunk * chunk_o::kWidth + double{chunk_o::kWidth} * chunk_o::kWidth);
    // The first item has nothing to hide behind.
    graph_.overhead_cycles = 2.0 * copier_.latency_cycles();
  }

  /// A ring that copies fill: with as many slots as the kernel asks for, else with `least` or more.
  void copied(const std::string& name, std::int64_t bytes, int least) {
    const int asked = kernel_.stages;
    value(name, bytes, Scope::iteration, asked > 0 ? asked : least, asked > 0 ? asked : kMaxSlots);
  }
  /// Adds the values of all heads, and returns the first one's number.
  int copied_of_heads(const char* name, std::int64_t bytes, int least) {
    const int first = value_count();
    for (int c = 0; c < heads_; ++c) copied(support::cat(name, c), bytes, least);
    return first;
  }
  /// One head's rings of a kind lie one behind the other, so that one text can serve all consumers. The first of them.
  int of_heads(const char* name, std::int64_t bytes, int least, int most) {
    const int first = value_count();
    for (int c = 0; c < heads_; ++c) value(support::cat(name, c), bytes, Scope::iteration, least, most);
    return first;
  }
  /// Whoever copies is held for as long as the SM's share of memory's rate takes: it is what the loop waits for.
  int copy_cycles(std::int64_t bytes) const {
    return cycles(std::max(memory_cycles(static_cast<double>(bytes)), copier_.run_cycles(static_cast<double>(bytes))));
  }

  int load(const char* body, const char* context, int c, int ring) {
    Node n = ring == 0 ? single(context, body, 1) : numbered(context, body, c);
    copier_.issue(n, 1);
    const int held = copy_cycles(graph_.values[static_cast<std::size_t>(ring)].slot_bytes);
    n.reservations = {of("TMA", held)};
    n.latency = held + cycles(copier_.latency_cycles());
    n.registers = kLoadRegisters;
    if (kernel_.evict_first && ring != 0) n.cache_hint = graph::CacheHint::evict_first;  // nobody reads them again
    return add(std::move(n));
  }
  int put(int c) {
    Node n = numbered("Writer", "put_chunk", c);
    n.async = graph::Async::store;
    n.warps = 1;
    n.reservations = {of("TMA", copy_cycles(kTokenBytes))};
    // Its thread waits until the slot is read.
    busy(n, cycles(copier_.arrival_cycles(static_cast<double>(kTokenBytes))));
    n.registers = kLoadRegisters;
    return add(std::move(n));
  }

  ChunkOKernel kernel_;
  int heads_ = 1;
  const Copier copier_;
};

}  // namespace tj::ops
