// The workspaces that runs are using at this moment: a second run at the same time is refused by them.
//
// Decides what can be seen: two threads inside a run with one workspace, on different streams, or on the model, which
// runs at once. Nobody sees what streams do later. Invariant: no lock, no allocation; when another workspace has the
// place, a run is not refused. A forked child begins with no run: those of its parent's threads stayed there.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "support/fork_safe.hpp"

namespace tj {

class WorkspaceUse {
 public:
  /// alone: refuse another run on the same stream too.
  WorkspaceUse(const void* workspace, const void* stream, bool alone) noexcept
      : place_(places()[hash(workspace) % kPlaces]) {
    const std::uint64_t own = word(workspace, stream);
    std::uint64_t present = 0;
    held_ = place_.compare_exchange_strong(present, own, std::memory_order_acquire);
    clash_ = !held_ && present >> kStreamBits == own >> kStreamBits && (alone || present != own);
  }
  ~WorkspaceUse() {
    if (held_) place_.store(0, std::memory_order_release);
  }
  WorkspaceUse(const WorkspaceUse&) = delete;
  WorkspaceUse& operator=(const WorkspaceUse&) = delete;

  bool clash() const noexcept { return clash_; }

 private:
  static constexpr std::size_t kPlaces = 64;
  static constexpr int kStreamBits =
      16;  // of a word; the rest is the address, which is below 2^56 and a multiple of 256

  struct Table {
    std::array<std::atomic<std::uint64_t>, kPlaces> places{};
    std::atomic<std::uint32_t> generation{0};  ///< of the process that wrote them
  };

  /// Emptied by the first run of a process.
  static std::array<std::atomic<std::uint64_t>, kPlaces>& places() noexcept {
    static constinit Table table;
    const std::uint32_t own = support::process_generation();
    std::uint32_t seen = table.generation.load(std::memory_order_acquire);
    if (seen != own && table.generation.compare_exchange_strong(seen, own)) [[unlikely]]
      for (std::atomic<std::uint64_t>& each : table.places) each.store(0);
    return table.places;
  }
  static std::size_t hash(const void* pointer) noexcept {
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(pointer) * 0x9e3779b97f4a7c15ull) >> 40);
  }
  static std::uint64_t word(const void* workspace, const void* stream) noexcept {
    return (reinterpret_cast<std::uintptr_t>(workspace) >> 8) << kStreamBits | (hash(stream) & 0xffff);
  }

  std::atomic<std::uint64_t>& place_;
  bool held_ = false, clash_ = false;
};

}  // namespace tj
