// Named ranges of a thread's time for tools that draw a program's timeline, by NVIDIA's NVTX: Nsight Systems and
// others.
//
// Decides when a tool is looked for, and the domain of ranges: "tilejit". Does not decide what is a range. Invariant:
// without a tool a range is one look at a flag. Nothing is linked; a build without NVTX's headers has no ranges.
#pragma once

#include <atomic>
#include <string>

namespace tj::support {

/// Looks once in a process for the tool that NVTX_INJECTION64_PATH names, as NVTX does: it opens that library.
void look_for_tool();

/// From its construction to its end, on one thread; ranges of a thread lie within each other.
class ToolRange {
 public:
  /// name: read here alone.
  explicit ToolRange(const std::string& name) : begun_(listens()) {
    if (begun_) [[unlikely]]
      begin(name.c_str());
  }
  /// "compile fmha_f16_d128"; put together for a tool alone.
  ToolRange(const char* what, const std::string& name) : begun_(listens()) {
    if (begun_) [[unlikely]]
      begin((what + (" " + name)).c_str());
  }
  ~ToolRange() {
    if (begun_) [[unlikely]]
      end();
  }
  ToolRange(const ToolRange&) = delete;
  ToolRange& operator=(const ToolRange&) = delete;

 private:
  friend void look_for_tool();
  static bool listens() noexcept { return listens_.load(std::memory_order_relaxed); }
  static void begin(const char* name) noexcept;
  static void end() noexcept;
  static std::atomic<bool> listens_;
  const bool begun_;
};

}  // namespace tj::support
