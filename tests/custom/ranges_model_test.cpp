// Protects ranges of iterations on the side of results. A body's variant runs in the iterations of its range that the
// loop's steps allow, and the general body in all others, each once and in order. Loops of their own for each variant
// and one guarded loop do the same. Ranges have 0, 1, 2, s - 1, s and s + 1 iterations, s being the stages.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "custom/ranges_kernel.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

constexpr Device kHost{DeviceKind::cpu, 0};

/// What ran, and the sums of the tiles.
struct Ran {
  std::vector<int> list;
  std::vector<float> sums;
  bool operator==(const Ran&) const = default;
};

Ran run(const custom::Kernel& kernel, int trip_count, int begin, int end) {
  Ran ran;
  ran.list.assign(static_cast<std::size_t>(2 * test::RangesKernel::kTiles * trip_count), -1);
  ran.list.push_back(-1);  // an address where there are no iterations
  ran.sums.assign(test::RangesKernel::kTiles, -1);
  kernel.launch(kHost, test::RangesKernel::Params{ran.list.data(), ran.sums.data(), trip_count, begin, end}, 1);
  ran.list.pop_back();
  return ran;
}

/// The bounds that a graph gives to its nodes.
struct Bounds {
  const char* members;
  int number;  ///< of the variant in the records
  bool begins, ends;
};

/// What must have run, step by step: `tail` is `depth` stages behind `head`. The first steps lack iterations.
std::vector<int> expected(int depth, const Bounds& bounds, int trip_count, int begin, int end) {
  std::vector<int> list;
  for (int tile = 0; tile < test::RangesKernel::kTiles; ++tile)
    for (int step = 0; step < trip_count + depth; ++step) {
      const bool whole = step >= depth && step < trip_count && (!bounds.begins || step >= begin + depth) &&
                         (!bounds.ends || step < end);
      for (const auto& [node, i] : {std::pair(0, step), std::pair(1, step - depth)})
        if (i >= 0 && i < trip_count)
          list.push_back(tile * 100000 + node * 10000 + (whole ? bounds.number : 0) * 1000 + i);
    }
  std::sort(list.begin(), list.end());
  return list;
}

void check_lengths(int depth, const Bounds& bounds, int latest = 1 << 20) {
  const testing::Scratch scratch;
  Options options;
  options.target = "model:sm_80";
  options.cache_dir = scratch / "cache";
  options.log_level = LogLevel::off;
  Runtime runtime(options);
  const test::RangesKernel peeled("peeled", depth, bounds.members), guarded("guarded", depth, bounds.members);
  const custom::Kernel loops(runtime, peeled.description), loop(runtime, guarded.description);
  std::set<int> lengths = {0, 1, 2, depth, depth + 1, depth + 2};
  for (const int before : lengths)
    for (const int inside : lengths)
      for (const int behind : lengths) {
        if (before > latest) continue;
        const int n = before + inside + behind, end = before + inside;
        INFO("depth " << depth << ", " << bounds.members << ", " << before << " + " << inside << " + " << behind);
        Ran a = run(loops, n, before, end);
        const Ran b = run(loop, n, before, end);
        CHECK(a == b);
        std::sort(a.list.begin(), a.list.end());
        CHECK(a.list == expected(depth, bounds, n, before, end));
      }
}

}  // namespace

TEST_CASE("general, a named variant, general again: all lengths, one, two and four stages") {
  for (const int depth : {1, 0, 3})
    if (depth == 1 || !testing::left_out())
      check_lengths(
          depth, {R"("variant": "Whole", "variant_begin": "whole_begin", "variant_end": "whole_end")", 2, true, true});
}

TEST_CASE("ranges without a begin, without an end, and with a latest begin" * doctest::skip(testing::left_out())) {
  for (const int depth : {0, 1}) {
    check_lengths(depth, {R"("variant": "Fast", "variant_begin": "whole_begin")", 1, true, false});
    check_lengths(depth, {R"("variant": "Fast", "variant_end": "whole_end")", 1, false, true});
  }
  check_lengths(
      1,
      {R"("variant": "Whole", "variant_begin": "whole_begin", "variant_end": "whole_end", "max_variant_begin": 0)", 2,
       true, true},
      0);
}
