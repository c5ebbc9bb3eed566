// Logging to standard error, or into the user's sink.
//
// Decides the default sink and its format, which spdlog writes. A line goes out by one write() without a lock: standard
// error may be a pipe that nobody empties, and a fork would wait for who holds the lock. Invariant: logging never
// throws and never decides an outcome; a message is one line; no thread waits for another's line.
#include "support/log.hpp"

#include <cxxabi.h>
#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "support/atomic_file.hpp"
#include "support/fork_safe.hpp"
#include "support/process_end.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"

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

/// Formatted in a section that a fork waits for: a child would find the lock of the C library's time zone taken.
spdlog::memory_buf_t formatted(LogLevel level, std::string_view line) {
  const NoFork whole;
  spdlog::memory_buf_t text;
  spdlog::pattern_formatter format("[%Y-%m-%d %H:%M:%S.%e] [tilejit] [%l] %v");
  format.format({"tilejit", to_spdlog(level), spdlog::string_view_t(line.data(), line.size())}, text);
  return text;
}

}  // namespace

Log::Log(LogLevel level, Sink sink) : level_(level), sink_(std::move(sink)) {}

void Log::operator()(LogLevel level, std::string_view message) const {
  if (level == LogLevel::off || !enabled(level)) return;
  const Uncancelled whole;
  try {
    const std::string line = one_line(message);
    if (sink_) {
      IfExitComes::in_users_function();
      return sink_(level, line);
    }
    const spdlog::memory_buf_t text = formatted(level, line);
    [[maybe_unused]] const int error = write_all(STDERR_FILENO, {text.data(), text.size()});
  } catch (abi::__forced_unwind&) {  // the thread ends in the sink
    throw;
  } catch (...) {  // a sink that throws must not turn a warning into a failed launch
  }
}

}  // namespace tj::support
