// See prediction.hpp.
#include "common/prediction.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

#include "common/report_text.hpp"

namespace tj::samples {
namespace {

constexpr double kSame = 0.995;  // from here on a gain is none: times differ by as much from run to run

/// {128, 256, 64} of "128x256x64c2x1"; empty for other words.
std::vector<std::int64_t> sizes_of(const std::string& word) {
  std::vector<std::int64_t> sizes;
  std::size_t at = 0;
  while (at < word.size() && std::isdigit(static_cast<unsigned char>(word[at])) != 0) {
    std::int64_t value = 0;
    for (; at < word.size() && std::isdigit(static_cast<unsigned char>(word[at])) != 0 && value < 1 << 20; ++at)
      value = value * 10 + (word[at] - '0');
    sizes.push_back(std::max<std::int64_t>(value, 1));
    if (at >= word.size() || word[at] != 'x') break;
    ++at;
  }
  return sizes.size() > 1 ? sizes : std::vector<std::int64_t>();
}

/// The first part of the graph's name, between '_', that has as many sizes.
std::vector<std::int64_t> tile_of(const ScheduleFacts& schedule, std::size_t count) {
  const std::string& name = schedule.graph;
  for (std::size_t begin = 0; begin < name.size(); begin = std::min(name.find('_', begin), name.size()) + 1)
    if (const auto sizes = sizes_of(name.substr(begin, name.find('_', begin) - begin)); sizes.size() == count)
      return sizes;
  return {};
}

std::int64_t parts(std::int64_t size, std::int64_t of) { return (size + of - 1) / of; }

template <class Value>
const Value* find(const std::vector<std::pair<std::string, Value>>& list, const std::string& name) {
  for (const auto& [key, value] : list)
    if (key == name) return &value;
  return nullptr;
}

/// Changes that can cost time, in words.
std::vector<std::string> costs(const ScheduleFacts& before, const ScheduleFacts& now) {
  std::vector<std::string> words;
  for (const auto& [value, blocks] : now.sharers)
    if (const int* was = find(before.sharers, value); blocks > (was != nullptr ? *was : 1))
      words.push_back(
          format("a copy of %s serves %d blocks, and waits until all of them have a free slot", value.c_str(), blocks));
  for (const auto& [value, slots] : now.slots)
    if (const int* was = find(before.slots, value); was != nullptr && slots < *was)
      words.push_back(
          format("ring %s has %d slot%s, in the place of %d", value.c_str(), slots, slots == 1 ? "" : "s", *was));
  if (now.blocks_per_sm < before.blocks_per_sm)
    words.push_back(format("%d block%s side by side on an SM, in the place of %d", now.blocks_per_sm,
                           now.blocks_per_sm == 1 ? "" : "s", before.blocks_per_sm));
  for (const auto& [unit, percent] : now.busy)
    if (const double* was = find(before.busy, unit); was != nullptr && percent > *was + 1 && percent > 90)
      words.push_back(format("%s is held for %.0f%% of the time, %.0f%% before", unit.c_str(), percent, *was));
  return words;
}

}  // namespace

std::vector<Tiles> gemm_tiles(const ScheduleFacts& schedule, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::vector<std::int64_t> tile = tile_of(schedule, 3);
  if (tile.empty()) return {};
  return {{parts(m, tile[0]) * parts(n, tile[1]), parts(k, tile[2])}};
}

std::vector<Tiles> fmha_tiles(const ScheduleFacts& schedule, std::int64_t heads, std::int64_t seq_len, bool causal) {
  std::vector<std::int64_t> tile = tile_of(schedule, 2);
  if (tile.empty()) tile = tile_of(schedule, 3);  // consumers, rows of each, keys
  if (tile.empty()) return {};
  const std::int64_t rows = tile.size() == 3 ? tile[0] * tile[1] : tile[0], keys = tile.back();
  std::vector<Tiles> list;
  for (std::int64_t first = 0; first < seq_len; first += rows)
    list.push_back({heads, parts(causal ? std::min(seq_len, first + rows) : seq_len, keys)});
  return list;
}

double predicted_ms(const ScheduleFacts& schedule, std::vector<Tiles> tiles) {
  const int clusters = schedule.sm_count * schedule.blocks_per_sm / std::max(1, schedule.cluster);
  if (clusters < 1 || schedule.clock_ghz <= 0 || schedule.ii < 1 || tiles.empty()) return 0;
  std::sort(tiles.begin(), tiles.end(), [](const Tiles& x, const Tiles& y) { return x.iterations > y.iterations; });
  const auto blocks = static_cast<std::size_t>(clusters) * static_cast<std::size_t>(std::max(1, schedule.cluster));
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at(std::greater<>(),
                                                                           std::vector<double>(blocks, 0.0));
  double end = 0;
  for (const Tiles& group : tiles) {
    const double cycles =
        schedule.overhead_cycles +
        (group.iterations > 0 ? static_cast<double>(group.iterations - 1) * schedule.ii + schedule.length : 0);
    for (std::int64_t tile = 0; tile < group.count; ++tile) {
      const double done = free_at.top() + cycles;
      free_at.pop();
      free_at.push(done);
      end = std::max(end, done);
    }
  }
  return end / schedule.clock_ghz * 1e-6;
}

std::string why_slower(const ScheduleFacts& before, const ScheduleFacts& now, double measured, double predicted) {
  if (!(measured > 0) || measured >= kSame) return {};
  std::string text = format("measured %.2fx", measured);
  if (predicted > 0)
    text += format(", predicted %.2fx: the schedule %s", predicted,
                   predicted < kSame ? "says so" : "does not say so; what it does not see costs more");
  text += "; bound by " + (now.certificate.empty() ? std::string("what its schedule does not name") : now.certificate);
  for (const std::string& each : costs(before, now)) text += "; " + each;
  return text;
}

}  // namespace tj::samples
