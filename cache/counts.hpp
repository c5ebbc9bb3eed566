// Counts of a store, and the reasons for which entries are not used.
//
// Decides which reasons there are. Decides neither what is trusted (directory.hpp) nor what is whole (entry.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tj::cache {

enum class Rejection : std::uint8_t { unreadable, untrusted, damaged, version, other_key };
inline constexpr std::array<const char*, 5> kRejectionNames = {"unreadable", "untrusted", "damaged", "version",
                                                               "other_key"};

struct StoreCounts {
  struct Layer {
    std::string directory;
    std::uint64_t bytes_read = 0;  ///< of entries that were found whole
  };
  std::vector<Layer> layers;                                     ///< in the order in which they were given
  std::array<std::uint64_t, kRejectionNames.size()> rejected{};  ///< each entry once, by its path
  std::uint64_t stores = 0, failed_stores = 0, bytes_written = 0;
  std::uint64_t alias_stores = 0;  ///< not among the stores
  std::uint64_t evictions = 0, bytes_evicted = 0;
  // Seconds of look-ups, summed over threads.
  double open_s = 0;   ///< layers opened, and packs verified that no call has seen before
  double read_s = 0;   ///< entries read
  double check_s = 0;  ///< their checksums
};

}  // namespace tj::cache
