// The begin of a dynamic walk, which stands behind a kernel's own parameter: kernel_templates/walk.cuh has the same.
//
// Decides nothing. The unit reads it, and whoever launches the kernel fills it in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tj::support {

struct alignas(64) WalkParam {
  std::uint64_t counter = 0;  ///< address of 32 bits of device memory: 0 before the launch, and after it
  std::uint32_t blocks = 0;   ///< of the grid
};
static_assert(sizeof(WalkParam) == 64, "as kernel_templates/walk.cuh");

/// The offset of WalkParam behind a parameter of so many bytes.
constexpr std::size_t walk_offset(std::size_t params_bytes) {
  return (params_bytes + alignof(WalkParam) - 1) / alignof(WalkParam) * alignof(WalkParam);
}

/// Writes it behind a parameter of so many bytes, and returns the bytes of both. params has room for them.
inline std::size_t add_walk(std::span<std::byte> params, std::size_t params_bytes, void* counter, unsigned blocks) {
  const std::size_t offset = walk_offset(params_bytes);
  const WalkParam walk{reinterpret_cast<std::uintptr_t>(counter), blocks};
  std::memset(params.data() + params_bytes, 0, offset - params_bytes);
  std::memcpy(params.data() + offset, &walk, sizeof walk);
  return offset + sizeof walk;
}

/// Device memory that the launches of a call take for their counters: they come one after the other.
inline constexpr std::size_t kCounterBytes = 256;

}  // namespace tj::support
