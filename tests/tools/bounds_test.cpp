// Protects the numbers that tools take: the first and the last that are allowed are taken, their neighbours are refused
// with the flag and its bounds. What is taken is seen by the mistake that comes behind it: an op that there is not.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "sched/schedule.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"
#include "tools/bench.hpp"
#include "tools/check.hpp"
#include "tools/options.hpp"
#include "tools/run_tool.hpp"

namespace {

using namespace tj;
using testing::has;
using Words = std::vector<std::string>;

struct Number {
  const char* flag;
  std::uint64_t low, high;
};

/// Runs a tool and gives what it says on its second stream; all of these are bad use.
using Tool = std::function<std::string(const Words&)>;

void check_bounds(const Tool& tool, const Words& others, const std::vector<Number>& numbers) {
  for (const Number& number : numbers) {
    CAPTURE(std::string(number.flag));
    const std::string allowed = number.low == number.high
                                    ? std::to_string(number.low)
                                    : std::to_string(number.low) + " to " + std::to_string(number.high);
    const auto said = [&](const std::string& value) {
      Words words = others;
      words.insert(words.end(), {number.flag, value});
      return tool(words);
    };
    for (const std::string& wrong : {number.low > 0 ? std::to_string(number.low - 1) : std::string("-1"),
                                     std::to_string(number.high + 1), std::string("many"), std::string("1x")}) {
      const std::string message = said(wrong);
      CHECK_MESSAGE(has(message, number.flag), message);
      CHECK_MESSAGE(has(message, "is '" + wrong + "'; allowed: " + allowed), message);
    }
    for (const std::uint64_t right : {number.low, number.high})
      CHECK_MESSAGE(has(said(std::to_string(right)), "--op is 'nothing'"), said(std::to_string(right)));
  }
}

template <class Call>
std::string refused(const Call& call) {
  std::ostringstream out, err;
  CHECK(call(out, err) == tools::kExitBadUse);
  CHECK(out.str() == "");
  return err.str();
}

constexpr std::uint64_t kMostInt = std::numeric_limits<int>::max(),
                        kMostSeed = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("tj-bench") {
  const Tool bench = [](const Words& words) {
    return refused([&](auto& out, auto& err) { return tools::bench(words, out, err, {}); });
  };
  check_bounds(bench, {"--op", "nothing"}, {{"--rounds", 1, 100000}, {"--seed", 0, std::uint64_t{1} << 62}});
  check_bounds(bench, {"--timeline", "--op", "nothing"},
               {{"--iterations", 1, 64},
                {"--first-block", 0, std::uint64_t{1} << 30},
                {"--blocks", 1, 1024},
                {"--records", 64, std::uint64_t{1} << 20},
                {"--launches", 1, 100000}});
  CHECK(has(bench({"--timeline", "--op", "nothing", "--records", "96"}), "96 is no power of two"));
  CHECK(has(bench({"--timeline", "--op", "gemm", "--m", "1", "--m", "2"}), "--m is given twice; give it once"));
}

TEST_CASE("tj-check") {
  check_bounds(
      [](const Words& words) {
        return refused([&](auto& out, auto& err) { return tools::check(words, out, err, false); });
      },
      {"--op", "nothing"},
      {{"--seeds", 1, 1000000}, {"--seed", 0, kMostSeed}, {"--data-seed", 0, kMostSeed}, {"--jobs", 1, 256}});
}

TEST_CASE("tj-schedule") {
  check_bounds(
      [](const Words& words) {
        return refused([&](auto& out, auto& err) { return tools::schedule(words, out, err); });
      },
      {"--op", "nothing"},
      {{"--max-stages", 0, kMostInt},
       {"--min-ii", 0, sched::kMaxMinIi},
       {"--max-slots", 0, kMostInt},
       {"--budget", 0, std::uint64_t{1} << 40},
       {"--streaming-latency", 0, 0}});
}

TEST_CASE("tj-warm") {
  const testing::Scratch folder;
  const Tool warm = [&](const Words& words) {
    return refused([&](auto& out, auto& err) { return tools::warm(words, out, err, false); });
  };
  check_bounds(warm, {"--cache-dir", folder / "cache", "--op", "nothing"}, {{"--jobs", 1, 256}});
  check_bounds(warm, {"--cache-dir", folder / "cache", "--op", "nothing", "--tune"},
               {{"--tune-limit", 1, 1000}, {"--tune-rounds", 1, 10000}});
}
