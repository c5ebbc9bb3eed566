// The inside of a plan, made once; see tilejit/plan.hpp.
//
// Decides what a run checks and writes. Does not decide parameters: ops do, and relocation.hpp finds the addresses in
// them. Invariant: nothing here changes once the plan is made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tilejit/plan.hpp>

#include "placement.hpp"
#include "relocation.hpp"
#include "runtime_impl.hpp"

namespace tj {

struct PlannedTensor {
  std::uintptr_t mask = 0;       ///< of an address: the bits that count
  std::uintptr_t remainder = 0;  ///< the value that these bits must have
  std::size_t bytes = 0;
  bool written = false;
  int may_be = -1;  ///< another tensor that may be the same one
};

struct PlannedLaunch {
  KernelTable::Hold kernel;
  ops::LaunchPlan plan;
  Relocations relocations;
};

struct Plan::Impl {
  std::shared_ptr<Runtime::Impl> runtime;  ///< before the launches: drivers outlive kernels
  const ops::Op* op = nullptr;
  std::shared_ptr<void> args;     ///< the descriptor, on the model alone: what its launches may touch follows from it
  std::shared_ptr<void> checked;  ///< the descriptor, where the lists of calls are checked
  ops::Kernel kernel;
  std::uint64_t choices = 0;  ///< the version of the measured choices that the kernel was chosen by
  Device device{};
  std::vector<std::string> names;
  std::vector<PlannedTensor> tensors;
  std::vector<PlannedLaunch> launches;
  std::size_t workspace_bytes = 0;
  std::size_t walk_offset = 0;  ///< of what launches whose blocks draw their tiles take in it: behind all else
  support::WalkMemory walk;     ///< the most that one of them takes
  bool draws = false;           ///< do blocks of a launch draw their tiles?
  KernelReport report;

  class Maker;

  /// Throws tj::Error(argument) naming the tensor. Fills places, the workspace's behind those of the tensors.
  void check(std::span<void* const> addresses, Places& places) const;
  void check_workspace(void* workspace, const Places& places) const;
  void launch(const Places& places, Stream stream) const;
  /// Waits, and throws tj::Error(argument) naming the first counter of the caller's workspace that is not 0. Nothing
  /// inside a capture, where nothing has run.
  void check_counters(std::uintptr_t workspace, Stream stream) const;
  /// For memory of which nobody knows what it holds.
  void zero_counters(std::uintptr_t workspace, Stream stream) const;

 private:
  void launch_on_model(const Places& places, Stream stream) const;
  void launch_one(const PlannedLaunch& each, const Places& places, std::span<const support::MemoryRange> memory,
                  Stream stream) const;
  [[noreturn]] void refuse(std::size_t tensor, std::uintptr_t address) const;
  [[noreturn]] void refuse_overlap(std::size_t a, std::size_t b, const Places& places) const;
};

}  // namespace tj
