// The kernels of a runtime by small key: what a hot call looks up.
//
// Decides how look-ups stay free of locks: readers follow one atomic pointer to a table that never changes; a writer
// publishes a larger copy. Superseded tables are kept until the runtime ends, so that no reader holds a dead one.
// Decides, too, what is unloaded: kernels that nobody holds, those first whose last use is longest ago. Such a kernel's
// place stays, for the day that it is loaded again. Invariant: a kernel that somebody holds is there and unchanged. Its
// key stays with it, unless it is a quick kernel: then the best one takes its place.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
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
  std::uint64_t code_bytes = 0;  ///< of the binary
  unsigned sm_count = 0;         ///< multiprocessors that its blocks run on at once; blocks, where these form clusters
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
  struct Entry {
    HotKey key;
    LoadedKernel kernel;
    std::atomic<std::uint32_t> holds{0};  ///< their number; kUnloaded is added where `kernel` is not there
    std::atomic<std::uint64_t> used{0};   ///< the table's clock when it was last asked for
    std::atomic<bool> in_graph{false};    ///< a graph may launch it at any time
  };
  static constexpr std::uint32_t kUnloaded = 1u << 31;

 public:
  /// A kernel that stays loaded while this is there; empty where there is none. Dies before the table.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(entry_, other.entry_);
      return *this;
    }
    ~Hold() {
      if (entry_ != nullptr) entry_->holds.fetch_sub(1, std::memory_order_release);
    }
    explicit operator bool() const noexcept { return entry_ != nullptr; }
    const LoadedKernel& operator*() const noexcept { return entry_->kernel; }
    const LoadedKernel* operator->() const noexcept { return &entry_->kernel; }
    bool in_graph() const noexcept { return entry_->in_graph.load(std::memory_order_relaxed); }
    /// From now on it stays loaded, as a graph that somebody has may launch it.
    void stays_for_graph() const noexcept { entry_->in_graph.store(true, std::memory_order_relaxed); }

   private:
    friend class KernelTable;
    explicit Hold(Entry* entry) noexcept : entry_(entry) {}
    Entry* entry_ = nullptr;
  };

  Hold find(const HotKey& key) const noexcept {
    Entry* const entry = entry_of(key);
    if (entry == nullptr) return {};
    const std::uint64_t now = clock_.load(std::memory_order_relaxed);
    if (entry->used.load(std::memory_order_relaxed) != now) entry->used.store(now, std::memory_order_relaxed);
    return hold(*entry);
  }
  /// The same, behind whoever is just deciding what is unloaded.
  Hold find_settled(const HotKey& key) const {
    const std::lock_guard lock(mutex_);
    return find(key);
  }

  enum class Kept {
    present,  ///< the one that was there
    own,
    replaced  ///< its own, in the place of a quick one
  };
  /// Keeps the first kernel of a key, but for a quick one that is followed by one that is not. Returns the one that is
  /// kept. how: tells which, where it is wanted.
  Hold insert(const HotKey& key, std::unique_ptr<LoadedKernel> kernel, Kept* how = nullptr) {
    const std::lock_guard lock(mutex_);
    Kept ignored;
    Kept& kept = how != nullptr ? *how : ignored;
    kept = Kept::own;
    if (Entry* const present = entry_of(key); present != nullptr) {
      Hold held = hold(*present);
      if (!held) return revive(*present, std::move(*kernel));
      kept = !held->quick || kernel->quick ? Kept::present : Kept::replaced;
      if (kept == Kept::present) return held;
    }
    std::size_t size = 16;
    while (size < 4 * (entries_.size() + 1)) size *= 2;
    // All that can run out of memory comes first: a failed insertion leaves the table as it was.
    tables_.reserve(tables_.size() + 1);
    auto slots = std::make_unique<Slots>(size);
    auto made = std::make_unique<Entry>();
    made->key = key;
    made->kernel = std::move(*kernel);
    made->used = ++clock_;
    entries_.push_back(std::move(made));
    for (const auto& entry : entries_) {
      std::size_t i = hash(entry->key);
      while ((*slots)[i & (size - 1)] != nullptr && !((*slots)[i & (size - 1)]->key == entry->key)) ++i;
      (*slots)[i & (size - 1)] = entry.get();
    }
    Hold own = hold(*entries_.back());
    current_.store(slots.get(), std::memory_order_release);
    tables_.push_back(std::move(slots));
    return own;
  }

  /// Kernels that were taken out. They are unloaded where this dies.
  struct Unloaded {
    std::vector<std::shared_ptr<launch::Kernel>> kernels;
    std::uint64_t bytes = 0;
  };
  /// Takes out what nobody holds and no graph may launch, until at most so many bytes of code are left on the device.
  Unloaded unload(Device device, std::uint64_t keep_bytes) {
    const std::lock_guard lock(mutex_);
    std::uint64_t loaded = 0;
    std::vector<std::pair<std::uint64_t, Entry*>> oldest;  // by their last use, which may change meanwhile
    for (const auto& entry : entries_) {
      if (!(entry->key.device == device) || !is_loaded(*entry)) continue;
      loaded += entry->kernel.code_bytes;
      // A quick kernel that still serves goes when the best one comes.
      if (!entry->kernel.quick || entry_of(entry->key) != entry.get())
        oldest.emplace_back(entry->used.load(std::memory_order_relaxed), entry.get());
    }
    std::stable_sort(oldest.begin(), oldest.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Unloaded out;
    out.kernels.reserve(oldest.size());
    for (const auto& [used, entry] : oldest) {
      if (loaded <= keep_bytes) break;
      if (!take_out(*entry)) continue;
      out.kernels.push_back(std::move(entry->kernel.kernel));
      out.bytes += entry->kernel.code_bytes;
      loaded -= entry->kernel.code_bytes;
    }
    return out;
  }

  struct Use {
    Device device;
    std::shared_ptr<launch::Driver> driver;
    std::uint64_t kernels = 0, code_bytes = 0;  ///< that are loaded
  };
  /// The devices that kernels were loaded on.
  std::vector<Use> uses() const {
    const std::lock_guard lock(mutex_);
    std::vector<Use> out;
    for (const auto& entry : entries_) {
      auto use =
          std::find_if(out.begin(), out.end(), [&](const Use& each) { return each.device == entry->key.device; });
      if (use == out.end()) use = out.insert(out.end(), {entry->key.device, entry->kernel.driver});
      if (!is_loaded(*entry)) continue;
      ++use->kernels;
      use->code_bytes += entry->kernel.code_bytes;
    }
    return out;
  }

 private:
  using Slots = std::vector<Entry*>;

  Entry* entry_of(const HotKey& key) const noexcept {
    const Slots* slots = current_.load(std::memory_order_acquire);
    if (slots == nullptr) return nullptr;
    for (std::size_t i = hash(key);; ++i) {
      Entry* const entry = (*slots)[i & (slots->size() - 1)];
      if (entry == nullptr || entry->key == key) return entry;
    }
  }
  static Hold hold(Entry& entry) noexcept {
    Hold held(&entry);
    if ((entry.holds.fetch_add(1, std::memory_order_acquire) & kUnloaded) == 0) [[likely]]
      return held;
    return {};  // and `held` takes its count back
  }
  static bool is_loaded(const Entry& entry) noexcept {
    return (entry.holds.load(std::memory_order_acquire) & kUnloaded) == 0;
  }
  /// False where somebody holds it. Who has asked before the count was taken has it; who asks later finds none.
  static bool take_out(Entry& entry) noexcept {
    if (entry.in_graph.load(std::memory_order_relaxed)) return false;
    std::uint32_t none = 0;
    if (!entry.holds.compare_exchange_strong(none, kUnloaded, std::memory_order_acq_rel)) return false;
    if (!entry.in_graph.load(std::memory_order_relaxed)) return true;
    entry.holds.fetch_sub(kUnloaded, std::memory_order_release);
    return false;
  }
  /// Nobody reads the kernel of an entry that is not loaded.
  Hold revive(Entry& entry, LoadedKernel kernel) {
    entry.kernel = std::move(kernel);
    entry.used = ++clock_;
    entry.holds.fetch_sub(kUnloaded - 1, std::memory_order_acq_rel);  // and it is held once more
    return Hold(&entry);
  }

  static std::size_t hash(const HotKey& key) noexcept {
    std::uint64_t h = key.small_key ^ reinterpret_cast<std::uintptr_t>(key.op) ^
                      (static_cast<std::uint64_t>(key.device.kind) << 56) ^
                      (static_cast<std::uint64_t>(key.device.index) << 40);
    h *= 0x9e3779b97f4a7c15ull;  // Fibonacci hashing
    return static_cast<std::size_t>(h >> 32);
  }

  std::atomic<const Slots*> current_{nullptr};
  std::atomic<std::uint64_t> clock_{0};  ///< counts kernels that were loaded
  mutable support::Mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::unique_ptr<Slots>> tables_;
};

}  // namespace tj
