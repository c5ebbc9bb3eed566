// The begin of a walk that draws, which stands behind a kernel's own parameter: kernel_templates/walk.cuh has the same.
//
// Decides nothing. The unit reads it, and whoever launches the kernel fills it in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "support/launch_shape.hpp"

namespace tj::support {

struct alignas(64) WalkParam {
  std::uint64_t counter = 0;      ///< address of 32 bits of device memory, or more: 0 before the launch, and after it
  std::uint64_t pieces = 0;       ///< of a split walk: where blocks leave sums
  std::uint32_t blocks = 0;       ///< of the grid
  std::uint32_t unused[11] = {};  ///< a place for each byte: what lies between members would come along with a copy,
                                  ///< and plans compare all bytes of two launches
};
static_assert(sizeof(WalkParam) == 64, "as kernel_templates/walk.cuh");

/// The offset of WalkParam behind a parameter of so many bytes.
constexpr std::size_t walk_offset(std::size_t params_bytes) {
  return (params_bytes + alignof(WalkParam) - 1) / alignof(WalkParam) * alignof(WalkParam);
}

/// Bytes of device memory that a launch takes for its walk: counters, which must be 0, then sums of pieces.
struct WalkMemory {
  std::size_t zeroed = 0, pieces = 0;
  std::size_t bytes() const { return zeroed + pieces; }
  friend bool operator==(const WalkMemory&, const WalkMemory&) = default;
};
inline constexpr std::size_t kWalkAlignment = 256;
/// For a kernel of that shape and so many blocks: a counter, and what a split walk has for each block.
constexpr WalkMemory walk_memory(const LaunchShape& shape, unsigned blocks) {
  if (shape.across_blocks == 0) return {};
  const std::size_t counters = (1 + std::size_t{blocks} * shape.block_counters) * sizeof(std::uint32_t);
  return {(counters + kWalkAlignment - 1) / kWalkAlignment * kWalkAlignment,
          std::size_t{blocks} * static_cast<std::size_t>(shape.piece_bytes)};
}

/// The place of such memory, and the bytes of its counters: there the sums begin. Launches that follow each
/// other may share the memory if they have these bytes in common.
struct WalkPlace {
  void* memory = nullptr;
  std::size_t zeroed = 0;
};

/// Writes it behind a parameter of so many bytes, and returns the bytes of both. params has room for them.
inline std::size_t add_walk(std::span<std::byte> params, std::size_t params_bytes, const WalkPlace& place,
                            unsigned blocks) {
  const std::size_t offset = walk_offset(params_bytes);
  const auto counter = reinterpret_cast<std::uintptr_t>(place.memory);
  const WalkParam walk{counter, counter + place.zeroed, blocks, {}};
  std::memset(params.data() + params_bytes, 0, offset - params_bytes);
  std::memcpy(params.data() + offset, &walk, sizeof walk);
  return offset + sizeof walk;
}

}  // namespace tj::support
