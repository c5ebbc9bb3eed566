// Logging through spdlog, or into the user's sink.
//
// Decides the default sink and its format. Invariant: logging never throws and never decides an outcome; a message is
// one line.
#include "support/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <string>
#include <utility>

#include "support/lasting.hpp"
#include "support/text.hpp"

namespace tj::support {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return spdlog::level::trace;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      return spdlog::level::off;
  }
  return spdlog::level::err;
}

/// Not in spdlog's registry (a program's own loggers stay its own), and never destroyed, so that other static objects
/// may still log while the process ends.
spdlog::logger& default_logger() {
  static constinit Lasting<spdlog::logger> logger;
  return logger.get([] {
    spdlog::logger made("tilejit", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern("[%Y-%m-%d %H:%M:%S.%e] [tilejit] [%l] %v");
    made.set_level(spdlog::level::trace);
    made.flush_on(spdlog::level::trace);
    return made;
  });
}

}  // namespace

Log::Log(LogLevel level, Sink sink) : level_(level), sink_(std::move(sink)) {}

void Log::operator()(LogLevel level, std::string_view message) const {
  if (level == LogLevel::off || !enabled(level)) return;
  try {
    const std::string line = one_line(message);
    if (sink_) {
      sink_(level, line);
    } else {
      const NoFork whole;  // a child would find the sink's lock taken
      default_logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
    }
  } catch (...) {  // a sink that throws must not turn a warning into a failed launch
  }
}

}  // namespace tj::support
