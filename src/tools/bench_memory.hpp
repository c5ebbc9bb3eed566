// Tensors of a workload in a device's memory.
//
// Decides what they hold. Invariant: what is read holds numbers or normal random values, what is written holds bytes
// that no result has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/driver.hpp"
#include "ops/common/trial.hpp"

namespace tj::tools {

class WorkloadMemory {
 public:
  /// Allocates and fills. Throws tj::Error as the driver does.
  WorkloadMemory(const ops::Trial& trial, launch::Driver& driver, Device device, std::uint64_t seed);

  /// Calls `use` with the op's descriptor over these tensors.
  void with_args(const std::function<void(const void* args)>& use) const;
  /// "4096 of 4096 elements of d were not written": what still holds the bytes of before; empty when all was written.
  /// Elements of a tensor with gaps count with them.
  std::string unwritten() const;
  /// All tensors together, each once.
  double bytes() const { return bytes_; }

 private:
  const ops::Trial& trial_;
  launch::Driver& driver_;
  Device device_;
  std::vector<std::shared_ptr<void>> tensors_;
  double bytes_ = 0;
};

/// Writes more than any cache of a device holds, asynchronously: what is enqueued behind it finds none of its operands
/// there.
class CacheFlush {
 public:
  /// Throws tj::Error as a call does: unsupported where the target has no kernel that copies.
  CacheFlush(Runtime& runtime, launch::Driver& driver, Device device);
  void operator()();

 private:
  Runtime& runtime_;
  Device device_;
  std::shared_ptr<void> from_, to_;
};

}  // namespace tj::tools
