// A number that equal calls of all ranks have in common.
//
// Decides how values are mixed. Each call says which of its values must be equal on all ranks.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace tj::dist {

/// FNV-1a of the values in their order.
class CallHash {
 public:
  CallHash& add(std::int64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      const auto low = static_cast<std::uint64_t>(value) >> (8 * byte) & 0xff;
      state_ = (state_ ^ low) * 1099511628211u;
    }
    return *this;
  }
  CallHash& add(float value) { return add(std::int64_t{std::bit_cast<std::int32_t>(value)}); }
  CallHash& add(const std::vector<std::int64_t>& values) {
    for (const std::int64_t value : values) add(value);
    return add(static_cast<std::int64_t>(values.size()));
  }
  std::uint32_t value() const { return static_cast<std::uint32_t>(state_ ^ state_ >> 32); }

 private:
  std::uint64_t state_ = 14695981039346656037u;
};

}  // namespace tj::dist
