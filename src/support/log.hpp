// Logging: the only file that knows spdlog is log.cpp.
#pragma once

#include <functional>
#include <string_view>
#include <tilejit/runtime.hpp>

namespace tj::support {

/// The log of a Runtime; cheap to copy, thread safe.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;
  /// An empty sink means spdlog on standard error.
  Log(LogLevel level, Sink sink);
  bool enabled(LogLevel level) const noexcept { return level >= level_; }
  void operator()(LogLevel level, std::string_view message) const;

 private:
  LogLevel level_;
  Sink sink_;
};

}  // namespace tj::support
