// A kernel's way to what its launch knows of other ranks.
//
// Decides nothing: linked.hpp does. Invariant: called on the thread that runs the launch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tj::model {

struct Thread;

class LinkPort {
 public:
  virtual ~LinkPort() = default;
  /// A word that ranks write for each other. Loads acquire, stores release.
  virtual std::uint32_t load(Thread& thread, const std::uint32_t* word) = 0;
  virtual void store(Thread& thread, std::uint32_t* word, std::uint32_t value) = 0;
  /// Returns when a word may have changed.
  virtual void rest(Thread& thread) = 0;
  virtual std::uint64_t time_ns() const = 0;
  /// Global memory that the launch has touched.
  virtual void access(std::uintptr_t address, std::size_t bytes, bool write) = 0;
};

/// Words of ranks that are threads of the host: atomic ones, which nobody checks.
LinkPort& words_of_host();

}  // namespace tj::model
