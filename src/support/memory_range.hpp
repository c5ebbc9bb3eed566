// A part of device memory that somebody may touch: what a checker is told.
#pragma once

#include <cstdint>

namespace tj::support {

/// Half-open, as addresses.
struct MemoryRange {
  std::uintptr_t begin = 0, end = 0;
  bool written = false;
};

}  // namespace tj::support
