// The builders of graphs over chunks of tokens: loads by the copy engine, and consumers of 64 rows of V.
//
// Decides what nodes of such kernels cost, whichever op they belong to. Does not decide which nodes there are.
// Invariant: nodes stand in the graph in the order of the calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tilejit/tensor.hpp>

#include "ops/common/graph_builder.hpp"
#include "ops/delta_chunks/params.cuh"

namespace tj::ops::delta_chunks {

class LoadBuilder : protected GraphBuilder {
 protected:
  static constexpr int kElementBytes = 2;

  LoadBuilder(std::string_view op, std::string_view text, const char* params, const arch::Arch& arch, int blocks)
      : GraphBuilder(op, text, arch, blocks) {
    graph_.params_type = params;
  }
  /// The bytes of a chunk's rows.
  static constexpr std::int64_t tokens_bytes(int width) { return std::int64_t{kChunk} * width * kElementBytes; }

  int load(const char* body, int ring, int warps) {
    Node n = single("Loader", body, warps);
    const auto bytes = static_cast<double>(graph_.values[static_cast<std::size_t>(ring)].slot_bytes);
    engine_.issue(n, 1);
    n.warps = warps;
    const int run = cycles(engine_.run_cycles(bytes));
    n.reservations = {of("TMA", run)};
    n.latency = run + cycles(engine_.latency_cycles());
    return add(std::move(n));
  }

  const Copier engine_{Copier::Way::engine, arch_};
};

/// Terms of keep D, what a chunk adds to states: kTwoTerms of kernel_templates/ops/delta_chunks/consumer.cuh.
inline int kept_terms(DType dtype) { return dtype == DType::bf16 ? 2 : 1; }

class ConsumerBuilder : protected LoadBuilder {
 protected:
  static constexpr int kRows = 64, kChunkColumns = kChunk;
  static constexpr int kThreads = 128;
  // Cycles of a body beside its work: of one whose lists come from shared memory first, and of others. They are half of
  // those in timelines of an H200 (tj-bench --timeline: 66 to 135, and 13 to 40), as marks take cycles, too.
  static constexpr double kListCycles = 40, kAloneCycles = 12;

  ConsumerBuilder(std::string_view op, std::string_view text, const char* params, const char* context,
                  const arch::Arch& arch)
      : LoadBuilder(op, text, params, arch, 1), context_(context) {}

  int matrix(const char* body, int c, int width, int depth, int registers) {
    Node n = numbered(context_, body, c);
    multiply(n, groups_, groups_.product(2.0 * kRows * width * depth, depth));
    n.registers = registers;
    return add(std::move(n));
  }
  /// Operations of f32 and conversions, so many for each of `columns` columns, and bytes of shared memory. A warp is
  /// alone on its scheduler, so it sees the latency of its first load.
  int arithmetic(const char* body, int c, int columns, double operations, double conversions, double bytes,
                 double latency, int registers = 0) {
    Node n = numbered(context_, body, c);
    const double elements = double{kRows} * columns;
    const int work =
        cycles(elements * (operations / arch_.fact("f32_per_cycle") + conversions / arch_.fact("convert_per_cycle")) +
               bytes / kSharedBytesPerCycle);
    busy(n, work + cycles(latency));
    n.reservations = {of("ALU", work)};
    n.registers = registers;
    return add(std::move(n));
  }
  /// Rows that a consumer has staged leave by a warp of another role, so many columns of them. Returns the node.
  int put(const char* body, int c, int stage, std::string name, int columns = kChunkColumns) {
    const std::int64_t bytes = std::int64_t{kRows} * columns * kElementBytes;
    Node n = numbered("Writer", body, c);
    n.async = graph::Async::store;
    n.warps = 1;
    n.registers = kWriterRegisters;
    n.reservations = {of("TMA", cycles(engine_.run_cycles(static_cast<double>(bytes))))};
    busy(n, cycles(engine_.arrival_cycles(static_cast<double>(bytes))));
    const int o = value(std::move(name), bytes, Scope::iteration, 2, 2), put = add(std::move(n));
    then(stage, put, 0, o);
    return put;
  }

  const char* const context_;

 private:
  static constexpr double kSharedBytesPerCycle = 128;  // CUDA C++ Programming Guide: 32 banks of 4 bytes
  static constexpr int kWriterRegisters = 32;          // with 24, kernels of two consumers spill 8 bytes (NVRTC 13.0)

  const Multiplier groups_{Multiplier::Way::warpgroup, arch_};
};

}  // namespace tj::ops::delta_chunks
