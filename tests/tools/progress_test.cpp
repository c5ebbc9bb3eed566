// Protects what tj-warm says while it works, letter by letter: lines with their counts, the line of a terminal that is
// written again and again, failures told once, and what stands in tables.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.hpp"
#include "support/scratch.hpp"
#include "tools/bench_numbers.hpp"
#include "tools/run_tool.hpp"
#include "tools/warm_make.hpp"

namespace {

using namespace tj;
using tools::Job;
using tools::Outcome;
using tools::Progress;

Job job_of(const std::string& name, const std::string& target = "sm_90a") {
  Job job;
  job.request.name = name;
  job.target = target;
  return job;
}
Outcome made(double total_ms, double compile_ms) {
  Outcome outcome;
  outcome.ok = true;
  outcome.report.origin = KernelOrigin::compiled;
  outcome.report.compile_ms = compile_ms;
  outcome.total_ms = total_ms;
  return outcome;
}
Outcome failure(const std::string& error, const std::string& log = "") {
  Outcome outcome;
  outcome.error = error;
  outcome.log = log;
  return outcome;
}
std::string names(std::size_t count) {
  std::vector<std::string> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back(std::to_string(i));
  std::ostringstream out;
  tools::print_names(out, list);
  return out.str();
}

}  // namespace

TEST_CASE("each kernel is a line with its number, and failures alike are told once") {
  std::ostringstream out, err;
  Progress progress(out, err, false, false, LogLevel::warn);
  progress.started(5);
  progress.finished(job_of("a"), made(1234.4, 987.6));
  Outcome cached = made(1, 0);
  cached.report.origin = KernelOrigin::disk;
  progress.finished(job_of("b", "gfx1100"), cached);
  progress.finished(job_of("c"), failure("no compiler", "line 1\n"));
  progress.finished(job_of("d"), failure("no compiler", "line 1\n"));
  progress.finished(job_of("e", "gfx1100"), failure("no compiler", "line 1\n"));
  CHECK(out.str() == "[1/5] a sm_90a: compiled in 1234 ms (compiler 988)\n[2/5] b gfx1100: already in the cache\n");
  CHECK(err.str() == "failed: c for sm_90a: no compiler\nline 1\n");
  err.str("");
  progress.end();
  CHECK(err.str() == "failed for the same reason: 2 kernels more: d for sm_90a, e for gfx1100\n");
  err.str("");
  progress.end();
  CHECK(err.str() == "");
}

TEST_CASE("two reasons are told apart in what is said at the end") {
  std::ostringstream out, err;
  Progress progress(out, err, false, false, LogLevel::warn);
  for (const char* name : {"a", "b"}) progress.failed(job_of(name), failure("first"));
  for (const char* name : {"c", "d", "e"}) progress.failed(job_of(name), failure("second"));
  progress.failed(job_of("f"), failure("third"));
  err.str("");
  progress.end();
  CHECK(err.str() ==
        "failed for the same reason (first): 1 kernel more: b for sm_90a\n"
        "failed for the same reason (second): 2 kernels more: d for sm_90a, e for sm_90a\n");
  CHECK(out.str() == "");
}

TEST_CASE("failures that differ in the names of kernel and target alone are one, and so is a line of the log") {
  std::ostringstream out, err;
  Progress progress(out, err, false, false, LogLevel::warn);
  for (const char* name : {"fmha_d64", "fmha_d128"})
    for (const char* target : {"sm_90a", "gfx1100"})
      progress.failed(job_of(name, target), failure("no compiler; the source is /d/" + std::string(name) + ".cu",
                                                    std::string(name) + "(3): error for " + target + "\n"));
  progress.failed(job_of("fmha_d64_causal"), failure("no compiler; the source is /d/fmha_d64.cu"));  // another's
  for (const char* name : {"p 1x1", "p 2x2", "p 3x3"}) progress.failed(name, std::string("not kept: ") + name);
  Options options;
  progress.follow(options);
  for (int i = 0; i < 3; ++i) options.log_sink(LogLevel::warn, "the disk is full");
  CHECK(err.str() ==
        "failed: fmha_d64 for sm_90a: no compiler; the source is /d/fmha_d64.cu\nfmha_d64(3): error for sm_90a\n"
        "failed: fmha_d64_causal for sm_90a: no compiler; the source is /d/fmha_d64.cu\n"
        "failed: p 1x1: not kept: p 1x1\n"
        "tj-warm: the disk is full\n");
  err.str("");
  progress.end();
  CHECK(err.str() ==
        "failed for the same reason (no compiler; the source is /d/....cu ...(3): error for ...): 3 kernels more: "
        "fmha_d64 for gfx1100, fmha_d128 for sm_90a, fmha_d128 for gfx1100\n"
        "failed for the same reason (not kept: ...): 2 problems more: p 2x2, p 3x3\n"
        "tj-warm: said 2 times more: the disk is full\n");
  err.str("");
  progress.end();
  CHECK(err.str() == "");
}

TEST_CASE("a terminal's line is written again, and cleared before anything else") {
  std::ostringstream out, err;
  Progress progress(out, err, true, false, LogLevel::warn);
  progress.started(3);
  progress.finished(job_of("a"), made(1, 1));
  CHECK(out.str() == "\r\x1b[K[1/3] a sm_90a");
  progress.finished(job_of("b"), failure("why"));
  CHECK(out.str() == "\r\x1b[K[1/3] a sm_90a\r\x1b[K\r\x1b[K[2/3] b sm_90a");
  out.str("");
  progress.end();
  CHECK(out.str() == "\r\x1b[K");
  progress.end();
  CHECK(out.str() == "\r\x1b[K");
}

TEST_CASE("a quiet one says failures alone; its log what is loud enough") {
  std::ostringstream out, err;
  Progress progress(out, err, true, true, LogLevel::warn);
  progress.started(1);
  progress.finished(job_of("a"), made(1, 1));
  CHECK(out.str() == "");
  Options options;
  progress.follow(options);
  CHECK(options.log_level == LogLevel::debug);  // what is not kept is told on that level
  options.log_sink(LogLevel::info, "quiet");
  options.log_sink(LogLevel::warn, "loud");
  CHECK(err.str() == "tj-warm: loud\n");
  Progress talkative(out, err, false, false, LogLevel::trace);
  talkative.follow(options);
  CHECK(options.log_level == LogLevel::trace);
}

TEST_CASE("eight names and no more, and as many threads as there is work for") {
  CHECK(names(1) == "0\n");
  CHECK(names(8) == "0, 1, 2, 3, 4, 5, 6, 7\n");
  CHECK(names(9) == "0, 1, 2, 3, 4, 5, 6, 7, ...\n");
  CHECK(tools::threads_for(3, 10) == 3);
  CHECK(tools::threads_for(3, 2) == 2);
  CHECK(tools::threads_for(0, 1) == 1);
  CHECK(tools::threads_for(0, 1000000) >= 1);
}

TEST_CASE("columns of a table: the first to the left, the others to the right, nothing behind them") {
  std::ostringstream out;
  tools::print_table({{"", "us", "x"}, {"first", "1.50", "-"}, {"a", "10.25"}, {"b", "1", ""}}, out);
  CHECK(out.str() == "          us  x\nfirst   1.50  -\na      10.25\nb          1\n");
}

TEST_CASE("a cache's table has sizes in what they are counted in, and dates of UTC") {
  const testing::Scratch folder;
  cache::Store store(folder.path(), 0, {});
  const auto keep = [&](const char* name, std::size_t bytes) {
    const cache::Key key = cache::make_key({{"name", name}, {"target", "sm_90a"}}, {{"kind", "test"}});
    const cache::Fields fields = {{"name", name},         {"target", "sm_90a"},    {"symbol", "kernel"},
                                  {"threads", "128"},     {"cluster", "1"},        {"blocks_per_sm", "1"},
                                  {"schedule", "{}"},     {"smem_bytes", "1024"},  {"registers", "168"},
                                  {"across_blocks", "0"}, {"block_counters", "0"}, {"piece_bytes", "0"}};
    REQUIRE(store.store(key, {fields, std::string(bytes, 'x')}));
  };
  keep("small", 1);
  keep("a_longer_name", 300 * 1024);
  keep("large", 3 * 1024 * 1024);
  const auto listed = [&] { return test::run_warm({"--list", "--cache-dir", folder.path()}).out; };
  const std::string text = listed();
  CHECK_MESSAGE(text.find("name           target        size  last use (UTC)\n") == 0, text);
  const auto line_of = [&](const std::string& name) {
    const std::size_t at = text.find("\n" + name) + 1;
    return text.substr(at, text.find('\n', at) - at);
  };
  const auto is_sized = [&](const std::string& name, const char* begin, const char* unit) {
    const std::string line = line_of(name);
    CHECK_MESSAGE(line.starts_with(begin), text);
    CHECK_MESSAGE(line.substr(0, 33).ends_with(unit), text);
    CHECK_MESSAGE(line.find("  20") == 33, text);
  };
  is_sized("small", "small          sm_90a    ", " B");
  is_sized("a_longer_name", "a_longer_name  sm_90a   300.", " KiB");
  is_sized("large", "large          sm_90a     3.0 MiB", " MiB");
  CHECK(line_of("large").back() == 'Z');
  CHECK_MESSAGE(text.find("3 kernels, 0 damaged, 3.3 MiB in ") != std::string::npos, text);
  // One byte less is counted in the smaller, and a thousandth of it shows where it is rounded.
  const std::size_t at = text.find("small");
  const int beside = std::stoi(text.substr(text.find_first_of("0123456789", text.find("sm_90a", at) + 6))) - 1;
  for (const auto& each : std::vector<std::pair<int, std::string>>{{1023, "1023 B"},
                                                                   {1024, "1.0 KiB"},
                                                                   {819200 + 48, "800.0 KiB"},
                                                                   {819200 + 56, "800.1 KiB"},
                                                                   {1048575, "1024.0 KiB"},
                                                                   {1048576, "1.0 MiB"},
                                                                   {3196000, "3.0 MiB"},
                                                                   {3199000, "3.1 MiB"}}) {
    const std::string& shown = each.second;
    keep("sized", static_cast<std::size_t>(each.first - beside));
    const std::string now = listed(), line = now.substr(now.find("\nsized") + 1);
    CHECK_MESSAGE(line.find(" " + shown + "  20") < line.find('\n'), shown, " is not in ", line);
  }
}

TEST_CASE("columns of a cache's table are as wide as what stands in them") {
  const testing::Scratch folder;
  cache::Store store(folder.path(), 0, {});
  for (const auto& [name, target] : {std::pair("a_name", "gfx1100"), std::pair("b", "sm_90a")}) {
    const cache::Fields fields = {{"name", name},         {"target", target},      {"symbol", "kernel"},
                                  {"threads", "128"},     {"cluster", "1"},        {"blocks_per_sm", "1"},
                                  {"schedule", "{}"},     {"smem_bytes", "1024"},  {"registers", "168"},
                                  {"across_blocks", "0"}, {"block_counters", "0"}, {"piece_bytes", "0"}};
    REQUIRE(store.store(cache::make_key({{"name", name}}, {{"kind", "test"}}), {fields, "x"}));
  }
  const std::string text = test::run_warm({"--list", "--cache-dir", folder.path()}).out;
  for (const char* line :
       {"name    target         size  last use (UTC)\n", "\na_name  gfx1100       ", "\nb       sm_90a        "})
    CHECK_MESSAGE(text.find(line) != std::string::npos, text);
}
