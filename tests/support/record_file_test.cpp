// Protects files to which lines are added: whole lines from many threads and processes at once, each once in a process.
// What cannot be written is one warning, fails nobody, and is written when it can be.
#include "support/record_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/scratch.hpp"

namespace {

using tj::support::RecordFile;
using tj::testing::Scratch;

struct Heard {
  std::vector<std::pair<tj::LogLevel, std::string>> lines;
  tj::support::Log log{tj::LogLevel::trace, [this](tj::LogLevel level, std::string_view text) {
                         lines.emplace_back(level, std::string(text));
                       }};
};

const tj::support::Log& no_log() {
  static const tj::support::Log none(tj::LogLevel::off, [](tj::LogLevel, std::string_view) {});
  return none;
}

std::map<std::string, int> lines_of(const std::string& path) {
  std::map<std::string, int> counted;
  std::istringstream text(tj::testing::read_bytes(path));
  for (std::string line; std::getline(text, line);) ++counted[line];
  return counted;
}

TEST_CASE("a line is added once in a process, by whichever object; without a path there is nothing to do") {
  const Scratch folder;
  RecordFile one(folder / "record", no_log()), other(folder / "record", no_log()), none("", no_log());
  CHECK(one.wanted());
  CHECK_FALSE(none.wanted());
  for (const char* line : {"a", "b", "a"}) one.add(line);
  other.add("b");
  other.add("c");
  CHECK(tj::testing::read_bytes(folder / "record") == "a\nb\nc\n");
  RecordFile elsewhere(folder / "second", no_log());
  elsewhere.add("a");
  CHECK(tj::testing::read_bytes(folder / "second") == "a\n");
}

TEST_CASE("threads and processes share a file: every line is whole, one for each process") {
  const Scratch folder;
  const std::string path = folder / "record";
  constexpr int kProcesses = 4, kThreads = 4, kLines = 50;
  const auto line = [](int i) { return std::string(static_cast<std::size_t>(100 + 7 * i), 'x') + std::to_string(i); };
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p)
    children.push_back(tj::testing::start_child([&] {
      RecordFile record(path, no_log());
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
          for (int i = 0; i < kLines; ++i) record.add(line((i + 11 * t) % kLines));
        });
      for (std::thread& each : threads) each.join();
      return 0;
    }));
  for (const pid_t child : children) CHECK(tj::testing::wait_for(child) == 0);
  const auto found = lines_of(path);
  CHECK(found.size() == kLines);
  for (int i = 0; i < kLines; ++i) {
    const auto at = found.find(line(i));
    REQUIRE(at != found.end());
    CHECK(at->second == kProcesses);
  }
}

TEST_CASE("what cannot be written is one warning that names file, reason and next step, and is written later") {
  const Scratch folder;
  Heard heard;
  RecordFile record(folder / "none/record", heard.log);
  record.add("a");
  record.add("a");
  REQUIRE(heard.lines.size() == 2);
  CHECK(heard.lines[0].first == tj::LogLevel::warn);
  CHECK(heard.lines[1].first == tj::LogLevel::debug);
  for (const char* part : {"none/record' (TJ_RECORD): No such file", "Calls go on", "can be made or appended to"})
    CHECK_MESSAGE(heard.lines[0].second.find(part) != std::string::npos, heard.lines[0].second);
  std::filesystem::create_directory(folder / "none");
  record.add("a");
  CHECK(tj::testing::read_bytes(folder / "none/record") == "a\n");
  CHECK(heard.lines.size() == 2);

  RecordFile full("/dev/full", heard.log);
  full.add("a");
  REQUIRE(heard.lines.size() == 3);
  CHECK_MESSAGE(heard.lines[2].second.find("No space left on device") != std::string::npos, heard.lines[2].second);
}

/// Adds the line where files may have so many bytes.
void add_within(RecordFile& record, rlim_t bytes, const std::string& line) {
  const rlimit full{bytes, RLIM_INFINITY}, room{RLIM_INFINITY, RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &full);
  record.add(line);
  ::setrlimit(RLIMIT_FSIZE, &room);
}

TEST_CASE("a line that a full disk cuts spoils no other one") {
  const Scratch folder;
  const std::string path = folder / "record";
  const int status = tj::testing::wait_for(tj::testing::start_child([&] {
    RecordFile record(path, no_log());
    record.add("first");
    add_within(record, 10, "second, which is cut");
    record.add("third");
    record.add("second, which is cut");
    return 0;
  }));
  CHECK(status == 0);
  CHECK(tj::testing::read_bytes(path) == "first\nseco\nthird\nsecond, which is cut\n");
}

TEST_CASE("a line of which nothing could be written leaves no empty one") {
  const Scratch folder;
  const std::string path = folder / "record";
  CHECK(tj::testing::wait_for(tj::testing::start_child([&] {
          RecordFile record(path, no_log());
          record.add("first");
          add_within(record, 6, "second");
          record.add("third");
          return 0;
        })) == 0);
  CHECK(tj::testing::read_bytes(path) == "first\nthird\n");
}

TEST_CASE("a line that is added beside one whose write is held up is not glued to a torn one") {
  const Scratch folder;
  const std::string path = folder / "record", kept = folder / "kept";
  CHECK(tj::testing::wait_for(tj::testing::start_child([&] {
          ::alarm(60);
          RecordFile record(path, no_log());
          add_within(record, 4, "torn here");
          std::filesystem::rename(path, kept);
          if (::mkfifo(path.c_str(), 0600) != 0) return 3;
          const int pipe = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
          std::thread held_up([&] { record.add(std::string(200'000, 'x')); });
          std::vector<char> bytes(4096);
          while (::read(pipe, bytes.data(), 1) != 1) std::this_thread::yield();
          std::filesystem::rename(kept, path);
          record.add("whole");
          while (::read(pipe, bytes.data(), bytes.size()) != 0) continue;
          held_up.join();
          return 0;
        })) == 0);
  CHECK(tj::testing::read_bytes(path) == "torn\nwhole\n");
}

}  // namespace
