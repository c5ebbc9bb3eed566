// The kernels of a runtime by small key: what a hot call looks up.
//
// Decides how look-ups stay free of locks: readers follow one atomic pointer to a table that never changes; a writer
// publishes a larger copy. Superseded tables are kept until the runtime ends, so that no reader holds a dead one.
// Invariant: a kernel, once published, is there and unchanged for the life of the table. Its key stays with it, unless
// it is a quick kernel: then the best one takes its place.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "launch/driver.hpp"
#include "ops/common/geometry.hpp"
#include "ops/op.hpp"
#include "support/fork_safe.hpp"

namespace tj {

struct LoadedKernel {
  std::shared_ptr<launch::Driver> driver;  ///< before the kernel: the kernel unloads first
  std::shared_ptr<launch::Kernel> kernel;
  int device = 0;
  unsigned sm_count = 0;  ///< multiprocessors that its blocks run on at once; blocks, where these form clusters
  support::LaunchShape shape;
  bool waits_itself = false;
  ops::Geometry geometry;
  KernelReport report;
  bool quick = false;  ///< the best one may come in its place
  std::string id;      ///< the name of its files, without what stands behind the last point

  /// Blocks that run side by side on each multiprocessor that sm_count counts.
  unsigned blocks_per_sm() const { return shape.cluster > 1 ? 1 : shape.blocks_per_sm; }
  /// Do its blocks draw their tiles? Then a launch needs a counter, and the begin of the walk behind its parameter.
  bool draws() const { return shape.across_blocks != 0; }
  /// A launch of so many blocks. memory: what it may touch, for a driver that checks accesses.
  launch::LaunchConfig config(unsigned blocks, std::span<const support::MemoryRange> memory = {}) const {
    return {{blocks, 1, 1}, shape, waits_itself, memory};
  }
  launch::LaunchConfig config(const ops::LaunchPlan& plan, std::span<const support::MemoryRange> memory = {}) const {
    return {{plan.blocks, 1, 1}, shape, waits_itself, memory, plan.overlaps};
  }
};

struct HotKey {
  const void* op = nullptr;
  std::uint64_t small_key = 0;
  Device device{};
  friend bool operator==(const HotKey&, const HotKey&) = default;
};

class KernelTable {
 public:
  const LoadedKernel* find(const HotKey& key) const noexcept {
    const Slots* slots = current_.load(std::memory_order_acquire);
    if (slots == nullptr) return nullptr;
    for (std::size_t i = hash(key);; ++i) {
      const Slot& slot = (*slots)[i & (slots->size() - 1)];
      if (slot.kernel == nullptr) return nullptr;
      if (slot.key == key) return slot.kernel;
    }
  }

  /// Keeps the first kernel of a key, but for a quick one that is followed by one that is not. Returns the one that is
  /// kept. replaced, where it is wanted: did the key have a quick one?
  const LoadedKernel* insert(const HotKey& key, std::unique_ptr<LoadedKernel> kernel, bool* replaced = nullptr) {
    const std::lock_guard lock(mutex_);
    const LoadedKernel* const present = find(key);
    if (present != nullptr && (!present->quick || kernel->quick)) return present;
    if (replaced != nullptr) *replaced = present != nullptr;
    std::size_t size = 16;
    while (size < 4 * (entries_.size() + 1)) size *= 2;
    // All that can run out of memory comes first: a failed insertion leaves the table as it was.
    tables_.reserve(tables_.size() + 1);
    auto slots = std::make_unique<Slots>(size);
    entries_.push_back({key, std::move(kernel)});
    for (const Entry& entry : entries_) {
      std::size_t i = hash(entry.key);
      while ((*slots)[i & (size - 1)].kernel != nullptr && !((*slots)[i & (size - 1)].key == entry.key)) ++i;
      (*slots)[i & (size - 1)] = {entry.key, entry.kernel.get()};
    }
    current_.store(slots.get(), std::memory_order_release);
    tables_.push_back(std::move(slots));
    return entries_.back().kernel.get();
  }

 private:
  struct Slot {
    HotKey key;
    const LoadedKernel* kernel = nullptr;
  };
  using Slots = std::vector<Slot>;
  struct Entry {
    HotKey key;
    std::unique_ptr<LoadedKernel> kernel;
  };

  static std::size_t hash(const HotKey& key) noexcept {
    std::uint64_t h = key.small_key ^ reinterpret_cast<std::uintptr_t>(key.op) ^
                      (static_cast<std::uint64_t>(key.device.kind) << 56) ^
                      (static_cast<std::uint64_t>(key.device.index) << 40);
    h *= 0x9e3779b97f4a7c15ull;  // Fibonacci hashing
    return static_cast<std::size_t>(h >> 32);
  }

  std::atomic<const Slots*> current_{nullptr};
  support::Mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<Slots>> tables_;
};

}  // namespace tj
