// The shared memory of one block.
//
// Decides where window addresses begin and that every access is inside. Invariant: a new block finds NaN patterns,
// never what an earlier block left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/thread.hpp"
#include "support/fail.hpp"

namespace tj::model {

class SharedMemory {
 public:
  /// Window address of the first byte: not 0, so that a forgotten base shows; a multiple of 1024, as swizzles count
  /// from it.
  static constexpr std::uint32_t kBase = 0x400;
  static constexpr int kPoison = 0xff;

  void reset(std::size_t bytes) { bytes_.assign(bytes, static_cast<std::byte>(kPoison)); }
  std::size_t size() const noexcept { return bytes_.size(); }

  bool contains(std::uint64_t address, std::uint64_t bytes) const noexcept {
    return address >= kBase && address - kBase <= bytes_.size() && bytes <= bytes_.size() - (address - kBase);
  }
  /// Throws tj::Error(model_fault) naming `what`, the range and the window; the second form also names the thread.
  std::byte* at(std::uint64_t address, std::uint64_t bytes, const char* what) {
    if (!contains(address, bytes)) [[unlikely]]
      fault(out_of_bounds(address, bytes, what));
    return bytes_.data() + (address - kBase);
  }
  std::byte* at(const Thread& thread, std::uint64_t address, std::uint64_t bytes, const char* what) {
    if (!contains(address, bytes)) [[unlikely]]
      fault(thread, out_of_bounds(address, bytes, what));
    return bytes_.data() + (address - kBase);
  }

 private:
  std::string out_of_bounds(std::uint64_t address, std::uint64_t bytes, const char* what) const {
    return support::cat(what, " of ", bytes, " bytes at shared address ", hex(address),
                        " is out of bounds; the block has ", hex(kBase), " to ", hex(kBase + bytes_.size()));
  }

  std::vector<std::byte> bytes_;
};

}  // namespace tj::model
