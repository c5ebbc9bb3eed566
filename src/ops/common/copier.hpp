// Copiers: who brings operands from memory into shared memory, and what that costs.
//
//   const Copier engine(Copier::Way::engine, arch);
//   engine.issue(load, 1);                                   // one thread asks, the engine does it
//   load.latency = cycles(engine.arrival_cycles(bytes));     // the SM copies nothing else
//
// | way | who | the end is seen at |
// |---|---|---|
// | engine | one thread asks the copy engine | the full barrier of the ring, by transaction bytes |
// | threads | all threads of the role; what they copy goes to shared memory by itself | the same, each thread arrives |
// | registers | all threads load, and put what they have loaded | the put's return |
//
// Decides by the arch's facts alone. Which rings there are, and how far ahead of its use a copy goes out, is the
// graph's.
#pragma once

#include <cstdint>

#include "arch/arch.hpp"
#include "graph/graph.hpp"

namespace tj::ops {

class Copier {
 public:
  enum class Way : std::uint8_t { engine, threads, registers };

  Copier(Way way, const arch::Arch& arch) : way_(way), arch_(arch) {}
  /// The engine where the arch has one, else threads.
  static Copier into_rings(const arch::Arch& arch) { return {arch.has_unit("TMA") ? Way::engine : Way::threads, arch}; }
  Way way() const { return way_; }
  bool by_engine() const { return way_ == Way::engine; }

  /// Cycles of a copy from L2 while nobody else copies.
  double latency_cycles() const {
    return arch_.fact(by_engine() ? "copy_latency_cycles" : "thread_copy_latency_cycles");
  }
  double cycles_per_kb() const { return arch_.fact(by_engine() ? "copy_cycles_per_kb" : "thread_copy_cycles_per_kb"); }
  double run_cycles(double bytes) const { return bytes / 1024 * cycles_per_kb(); }
  double arrival_cycles(double bytes) const { return latency_cycles() + run_cycles(bytes); }

  /// Threads are held for `issue_cycles`; whoever asks the engine is not.
  void issue(graph::Node& node, int warps, int issue_cycles = 1) const {
    node.warps = by_engine() ? 1 : warps;
    node.cycles = by_engine() ? 1 : issue_cycles;
    if (!by_engine()) node.warp_cycles = issue_cycles;
    if (way_ == Way::registers) return;
    node.async = by_engine() ? graph::Async::copy : graph::Async::threads;
    node.variable_latency = node.streaming = true;
  }

 private:
  Way way_;
  const arch::Arch& arch_;
};

}  // namespace tj::ops
