// Protects the lines of the log about one step of one kernel: words that programs can read, an id that names the dumped
// files, and at level trace what the disk had and each launch.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::LogLevel;
using tj::Runtime;

constexpr const char* kKernel = "op=fmha kernel=fmha_f16_d128 target=sm_90a stage=";
constexpr const char* kId = " id=fmha_f16_d128-sm_90a";

struct Lines {
  std::mutex mutex;
  std::vector<std::pair<LogLevel, std::string>> all;

  /// Lines of a stage, at their level; each has the words of the kernel and its id.
  int of(const std::string& stage, LogLevel level) {
    const std::lock_guard lock(mutex);
    int count = 0;
    for (const auto& each : all) {
      const auto at = each.first;
      const std::string& line = each.second;
      if (!line.starts_with(kKernel + stage + " ")) continue;
      CHECK(at == level);
      CHECK_MESSAGE(has(line, kId), line);
      if (stage != "launch") CHECK_MESSAGE(has(line, " ms="), line);
      ++count;
    }
    return count;
  }
};

TEST_CASE("each step of a kernel is a line of words, with its time and the name of its dump; launches at level trace") {
  Machine machine;
  Lines lines;
  tj::Options options = machine.options();
  options.dump_dir = machine.scratch / "dump";
  options.log_level = LogLevel::trace;
  options.log_sink = [&lines](LogLevel level, std::string_view text) {
    const std::lock_guard lock(lines.mutex);
    lines.all.emplace_back(level, text);
  };
  {
    Runtime runtime(options);
    runtime.run(attention());
    for (const char* stage : {"schedule", "codegen", "compile", "load"}) {
      CAPTURE(stage);
      CHECK(lines.of(stage, LogLevel::debug) == 1);
    }
    CHECK(lines.of("disk", LogLevel::trace) == 0);
    CHECK(lines.of("launch", LogLevel::trace) == 1);
    const tj::FmhaArgs args = attention();
    void* addresses[] = {args.q.data, args.k.data, args.v.data, args.o.data};
    runtime.plan(args).run(addresses);
    CHECK(lines.of("launch", LogLevel::trace) == 2);
  }
  CHECK(std::filesystem::exists(machine.scratch / "dump/fmha_f16_d128-sm_90a.cu"));
  lines.all.clear();
  Runtime(options).run(attention());
  CHECK(lines.of("disk", LogLevel::trace) == 1);
  CHECK(lines.of("compile", LogLevel::debug) == 0);
  CHECK(lines.of("load", LogLevel::debug) == 1);
  CHECK(lines.of("launch", LogLevel::trace) == 1);
}

}  // namespace
