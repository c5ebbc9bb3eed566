// Protects that levels filter, that a user's sink gets everything and may throw or end its thread, and that the default
// names tilejit. A line that nobody reads stops its own thread alone.
#include "support/log.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/scratch.hpp"

using tj::LogLevel;
using tj::support::Log;

TEST_CASE("levels below the threshold are dropped, off drops all") {
  std::vector<std::pair<LogLevel, std::string>> seen;
  const auto sink = [&](LogLevel level, std::string_view text) { seen.emplace_back(level, text); };
  const Log log(LogLevel::warn, sink);
  log(LogLevel::info, "no");
  log(LogLevel::warn, "yes {} %s");
  log(LogLevel::error, "worse");
  Log(LogLevel::off, sink)(LogLevel::error, "no");
  Log(LogLevel::trace, sink)(LogLevel::off, "no");
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == std::pair<LogLevel, std::string>(LogLevel::warn, "yes {} %s"));
  CHECK(seen[1].second == "worse");
  CHECK_FALSE(log.enabled(LogLevel::debug));
  CHECK(log.enabled(LogLevel::error));
}

TEST_CASE("a sink that throws changes nothing") {
  const Log log(LogLevel::trace, [](LogLevel, std::string_view) { throw 1; });
  CHECK_NOTHROW(log(LogLevel::error, "text"));
}

TEST_CASE("the default sink writes whole lines that name tilejit to standard error, from any thread") {
  const tj::testing::Scratch scratch;
  const std::string path = scratch / "stderr";
  const pid_t child = tj::testing::start_child([&] {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, 2);
    const auto work = [] {
      const Log log(LogLevel::info, {});
      for (int i = 0; i < 50; ++i) log(LogLevel::warn, "braces {} stay");
      log(LogLevel::debug, "hidden");
    };
    std::thread other(work);
    work();
    other.join();
    return 0;
  });
  REQUIRE(tj::testing::wait_for(child) == 0);
  std::ifstream in(path);
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    CHECK(line.find("[tilejit] [warning] braces {} stay") != std::string::npos);
  }
  CHECK(lines == 100);
}

TEST_CASE("a line of the default sink names its level") {
  const tj::testing::Scratch scratch;
  const std::string path = scratch / "stderr";
  const pid_t child = tj::testing::start_child([&] {
    ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
    const Log log(LogLevel::trace, {});
    for (const LogLevel level :
         {LogLevel::trace, LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error, LogLevel::off})
      log(level, "text");
    return 0;
  });
  REQUIRE(tj::testing::wait_for(child) == 0);
  std::ifstream in(path);
  std::string levels;
  for (std::string line; std::getline(in, line);) levels += line.substr(line.find("[tilejit] ") + 10) + '\n';
  CHECK(levels == "[trace] text\n[debug] text\n[info] text\n[warning] text\n[error] text\n");
}

namespace {

/// Standard error is a pipe from now on that is full, and that nobody reads.
void fill_standard_error() {
  int ends[2];
  if (::pipe(ends) != 0) ::_exit(98);
  ::dup2(ends[1], STDERR_FILENO);
  ::fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
  const std::string bytes(4096, 'x');
  while (::write(STDERR_FILENO, bytes.data(), bytes.size()) > 0) continue;
  while (::write(STDERR_FILENO, "x", 1) > 0) continue;
  ::fcntl(STDERR_FILENO, F_SETFL, 0);
}

}  // namespace

TEST_CASE("a thread that is stuck in writing a line keeps no fork waiting, and no line of the child") {
  const tj::testing::Scratch scratch;
  const std::string path = scratch / "stderr";
  const pid_t child = tj::testing::start_child([&] {
    ::alarm(240);
    fill_standard_error();
    std::atomic<pid_t> writer{0};
    std::thread stuck([&] {
      writer = ::gettid();
      Log(LogLevel::info, {})(LogLevel::warn, "nobody reads this");
    });
    while (writer == 0 || !tj::testing::sleeps(writer)) std::this_thread::yield();
    const pid_t forked = tj::testing::start_child([&] {
      ::alarm(60);
      ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
      Log(LogLevel::info, {})(LogLevel::warn, "of the child");
      return 0;
    });
    ::_exit(tj::testing::wait_for(forked) == 0 ? 0 : 1);  // the thread never ends
    return 1;
  });
  REQUIRE(tj::testing::wait_for(child) == 0);
  CHECK(tj::testing::read_bytes(path).find("[tilejit] [warning] of the child\n") != std::string::npos);
}

TEST_CASE("a thread may end in a sink") {
  const Log log(LogLevel::trace, [](LogLevel, std::string_view) { ::pthread_exit(nullptr); });
  std::atomic<bool> behind{false};
  std::thread([&] {
    log(LogLevel::error, "the last line");
    behind = true;
  }).join();
  CHECK_FALSE(behind.load());
}
