// The part that all graphs of a matrix product share, whichever instructions multiply; see gemm.hpp.
//
// Decides what the unit says before its first role, how a tile ends, and what a rung holds back. Costs and structure
// are those of each family.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "ops/common/end_text.hpp"
#include "ops/common/graph_builder.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/params.cuh"
#include "support/fail.hpp"

namespace tj::ops {

class GemmBuilder : protected GraphBuilder {
 protected:
  static constexpr int kLeastSlots = 2;  // of a ring: one is filled while the other is read
  static constexpr int kMaxSlots = 10;
  static constexpr int kReadBytes = 16;  // of one load of a thread
  // Registers of a role that brings d out of shared memory. nvcc 13.0 spills with 24, and in clusters still with 40 (4
  // bytes).
  static constexpr int kWriterRegisters = 40, kClusterWriterRegisters = 48;

  GemmBuilder(const GemmKernel& kernel, int store, const GemmFamily& family, const arch::Arch& arch)
      : GraphBuilder("gemm", arch.family, arch, family.blocks_per_sm(tile_of(kernel), arch)),
        kernel_(canonical(kernel)),
        store_(store),
        tile_(tile_of(kernel)) {
    graph_.name = gemm_request(kernel_).name;
    graph_.cluster = tile_.blocks();
    graph_.flops_per_iteration = 2.0 * tile_.block_m * tile_.block_n * tile_.block_k;
    // Later tiles are loaded while the one before is stored.
    graph_.overhead_cycles = static_cast<double>(gemm_tile_cycles(tile_, size_of(kernel_.out), family, arch_).end);
  }

  /// The candidate, with what the kernel's rung leaves to the scheduler.
  Candidate candidate(double iterations) {
    launch_.by_threads = std::none_of(graph_.nodes.begin(), graph_.nodes.end(),
                                      [](const Node& node) { return node.async == graph::Async::copy; });
    set_walk("gemm", kernel_.walk, arch_, graph_);
    share_tiles();
    launch_.walks = graph_.walks();
    launch_.split = graph_.walk == graph::Walk::split;
    launch_.pairs = graph_.pairs;
    Candidate made{std::move(graph_), iterations, 0, false};  // turns would only hold back who could go on
    made.geometry = Geometry::of(launch_);
    made.useful_flops = made.graph.flops_per_iteration * iterations;
    const GemmRung& rung = gemm_rung(kernel_);
    made.max_slots = rung.max_slots;
    made.max_stages = rung.max_stages;
    made.one_role = rung.one_role;
    return made;
  }

  /// Bytes of the sums that a block leaves.
  static std::int64_t piece_bytes(const GemmTile& tile) {
    const std::int64_t rows = std::max(tile.sum_rows(), gemm::kRowsPerConsumer);
    constexpr std::int64_t kPart = 32;  // columns that are left together
    return rows * ((tile.sum_columns() + kPart - 1) / kPart * kPart) * static_cast<std::int64_t>(sizeof(float));
  }
  /// Nodes that store sums leave them, or add those of others, where blocks do pieces of tiles.
  void share_tiles() {
    if (!graph_.cuts()) return;
    graph_.piece_bytes = piece_bytes(tile_);
    if (tile_.sliced() && tile_.cluster_k < tile_.blocks()) graph_.slices = tile_.cluster_k;
    for (Node& node : graph_.nodes) node.merges = node.scope == Scope::tile_end && node.context == "Consumer";
  }

  static const GemmTile& tile_of(const GemmKernel& kernel) {
    return gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
  }
  /// slot_rows: rows of a that a slot has room for; slot_columns: of b.
  void unit_text(int slot_rows, int slot_columns) {
    add_gemm_constants(kernel_, graph_, {"dtype", "out"});
    constant("kBlockM", tile_.block_m);
    constant("kBlockN", tile_.block_n);
    constant("kBlockK", tile_.block_k);
    constant("kSlotRows", slot_rows);
    constant("kSlotColumns", slot_columns);
    flag("kPairs", graph_.pairs);
    if (tile_.swapped) flag("kSwapped", true);
    if (kernel_.walk == WalkChoice::split || tile_.sliced()) flag("kSplit", true);
    if (tile_.sliced()) flag("kSliced", true);
    if (kernel_.groups != Groups::none) {
      graph_.includes.emplace_back("ops/gemm/groups.cuh");
      constant("kGroups", static_cast<int>(kernel_.groups));
    }
    if (kernel_.scales != Scales::tensor) {
      constant("kScales", static_cast<int>(kernel_.scales));
      if (kernel_.packed_scales) flag("kPackedScales", true);
      flag("kLeftScalesK", kernel_.left_scales_k);
      flag("kRightScalesK", kernel_.right_scales_k);
    }
    if (kernel_.gated()) add_gemm_constants(kernel_, graph_, {"gate"});
    if (kernel_.quantises()) graph_.includes.emplace_back("ops/gemm/quantised.cuh");
    constant("kClusterM", tile_.cluster_m);
    constant("kClusterN", tile_.cluster_n);
    add_gemm_constants(kernel_, graph_, {"a-major", "b-major"});
    known("kStore", launch_.store, store_);
    add_gemm_constants(kernel_, graph_, {"parts", "bias", "add-c", "c-type", "activation"});
    add_end_text(graph_, kernel_.end_text, kernel_.groups != Groups::none);
  }

  /// A copy of `rows` rows into a ring of its own by the threads of the role itself. They issue as many loads as they
  /// have registers for; then a round trip passes until all are there.
  int read(const char* name, const char* ring, int rows) {
    const std::int64_t bytes = std::int64_t{rows} * tile_.block_k * tile_.element_bytes, loads = bytes / kReadBytes;
    value(ring, bytes, Scope::iteration, kLeastSlots, kMaxSlots);
    Node n = single("Reader", name, arch_.warps_per_group);
    const auto trips =
        static_cast<double>((loads + gemm::kReaders * gemm::kReadsAhead - 1) / (gemm::kReaders * gemm::kReadsAhead));
    const Copier engine(Copier::Way::engine, arch_);  // threads have its way to L2
    busy(n, cycles(trips * engine.latency_cycles() + engine.run_cycles(static_cast<double>(bytes))));
    return add(std::move(n));
  }

  /// Applies the limits that the rung sets the scheduler. A block of one tile is alone on its SM: another block there
  /// would hide what its own schedule does not.
  void constrain() {
    const GemmRung& rung = gemm_rung(kernel_);
    if (rung.max_slots > 0)
      for (graph::Value& value : graph_.values)
        if (value.scope == graph::Scope::iteration) value.min_slots = std::min(value.min_slots, rung.max_slots);
    if (rung.thread_copies) graph_.includes.emplace_back("ops/gemm/read.cuh");
    graph_.walk = rung.tile_a_block ? graph::Walk::one_tile
                  : tile_.sliced()  ? graph::Walk::sliced
                                    : graph::Walk::persistent;
    graph_.most_iterations = rung.max_iterations;
    if (rung.tile_a_block) graph_.least_smem_bytes = graph_.machine.memory_bytes.at("SMEM") / 2 + 1024;
  }

  /// Stores what a consumer has of d, `elements` of it, and returns the node that does it in the consumer's role. That
  /// is `store` itself, or for 16-bit outputs a node that leaves the consumer's rows in shared memory. A role of its
  /// own then brings them to d under the next tile's loop.
  int end_of_tile(Node store, int elements) {
    if (store_ == gemm::kDirect) return add(std::move(store));
    const int c = store.copy;
    store.body = "stage_rows";
    store.name = support::cat(store.body, ".", c);
    Node put = numbered("Writer", store_ == gemm::kCopied ? "put_box" : "put_rows", c, Scope::tile_end);
    put.registers = tile_.blocks() > 1 ? kClusterWriterRegisters : kWriterRegisters;
    if (store_ == gemm::kCopied)
      put.async = graph::Async::store;
    else
      put.drains = true;
    return hand_out(std::move(store), std::move(put), support::cat("d", c),
                    std::int64_t{elements} * size_of(kernel_.out));
  }

  GemmKernel kernel_;
  int store_;
  GemmTile tile_;
  GemmLaunch launch_;
};

}  // namespace tj::ops
