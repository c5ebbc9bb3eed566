// See calibrate_facts.hpp.
#include "tools/calibrate_facts.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

#include "support/fail.hpp"
#include "tools/bench_numbers.hpp"

namespace tj::tools {
namespace {

using support::cat;
using Samples = std::vector<double>;

constexpr int kLanes = 32;
constexpr unsigned kManyThreads = 512;  // 16 warps: four on each quarter of an SM
constexpr double kProductFlops = 2.0 * 16 * 8 * 16;
constexpr std::int64_t kOperandBytes = calibrate::kLoadedBytes;
constexpr int kGroupRows = 64, kBroad = 256, kUsual = 128, kNarrow = 32, kUsualSteps = 8, kStepK = 16;

Samples each(Samples samples, const std::function<double(double)>& of) {
  std::transform(samples.begin(), samples.end(), samples.begin(), of);
  return samples;
}

/// Amounts of something that an SM does in a cycle.
Samples rate(Lab& lab, const Probe& probe, double amount_of_warp) {
  const double amount = amount_of_warp * (probe.threads / kLanes);
  return each(lab.cycles(probe, 32), [&](double cycles) { return amount / cycles; });
}

FactSamples arithmetic(Lab& lab) {
  constexpr std::pair<const char*, const char*> kOps[] = {{"exp2_per_cycle", "Exp2"},
                                                          {"f32_per_cycle", "MultiplyAdd"},
                                                          {"minmax_per_cycle", "Maximum"},
                                                          {"convert_per_cycle", "Convert"}};
  FactSamples found;
  for (const auto& [fact, op] : kOps)
    if (lab.arch().has_fact(fact))
      found[fact] =
          rate(lab, {.file = "common", .run = cat("arithmetic<", kManyThreads, ", ", op, ">"), .threads = kManyThreads},
               double{kLanes} * calibrate::kChains * calibrate::kStepsOfChain);
  return found;
}

FactSamples barriers(Lab& lab) {
  const Probe probe{.file = "common", .run = "barrier_turns<64>", .threads = 64, .smem_bytes = 1024};
  return {{"barrier_cycles", each(lab.cycles(probe, 64), [](double cycles) { return cycles / 2; })}};
}

/// The line through (kilobytes, cycles) of the points' samples with the same number.
void add_line(const std::vector<std::pair<double, Samples>>& points, const char* fixed, const char* slope,
              FactSamples& found) {
  std::size_t count = ~std::size_t{0};
  for (const auto& [kilobytes, samples] : points) count = std::min(count, samples.size());
  found[fixed], found[slope];
  for (std::size_t i = 0; i < count; ++i) {
    double x = 0, y = 0, xx = 0, xy = 0;
    const auto n = static_cast<double>(points.size());
    for (const auto& [kilobytes, samples] : points) {
      x += kilobytes;
      y += samples[i];
      xx += kilobytes * kilobytes;
      xy += kilobytes * samples[i];
    }
    const double rise = (n * xy - x * y) / (n * xx - x * x);
    found[slope].push_back(rise);
    found[fixed].push_back((y - rise * x) / n);
  }
}

FactSamples thread_copies(Lab& lab) {
  constexpr unsigned kThreads = 128;
  std::vector<std::pair<double, Samples>> points;
  for (const int kilobytes : {2, 8, 16, 32})
    points.emplace_back(kilobytes, lab.cycles({.file = "common",
                                               .run = cat("thread_copies<", kThreads, ">"),
                                               .threads = kThreads,
                                               .smem_bytes = 32 * 1024,
                                               .size = kilobytes * 1024 / 16 / static_cast<int>(kThreads)},
                                              32));
  FactSamples found;
  add_line(points, "thread_copy_latency_cycles", "thread_copy_cycles_per_kb", found);
  return found;
}

FactSamples box_copies(Lab& lab) {
  constexpr int kBoxBytes = calibrate::kBoxRows * calibrate::kRowBytes, kMostBoxes = 6;
  std::vector<std::pair<double, Samples>> points;
  for (const int boxes : {2, 4, kMostBoxes})
    points.emplace_back(boxes * kBoxBytes / 1024.0, lab.cycles({.file = "boxes",
                                                                .run = "box_copies<32>",
                                                                .threads = 32,
                                                                .smem_bytes = kMostBoxes * kBoxBytes + 1024,
                                                                .size = boxes},
                                                               64));
  FactSamples found;
  add_line(points, "copy_latency_cycles", "copy_cycles_per_kb", found);
  return found;
}

FactSamples warp_products(Lab& lab) {
  FactSamples found;
  found["matrix_flops_per_cycle"] =
      rate(lab, {.file = "warps", .run = cat("warp_products<", kManyThreads, ">"), .threads = kManyThreads},
           kProductFlops * calibrate::kChains);
  found["shared_bytes_per_cycle"] = rate(lab,
                                         {.file = "warps",
                                          .run = cat("matrix_loads<", kManyThreads, ">"),
                                          .threads = kManyThreads,
                                          .smem_bytes = kOperandBytes},
                                         512.0 * calibrate::kChains);
  return found;
}

/// held: a is in registers, as weights of attention are.
Samples group_cycles(Lab& lab, const char* type, int columns, int steps, int repeats, bool held = false) {
  return lab.cycles(
      {.file = "groups",
       .run = cat("group_products<128, tj::dev::", type, ", ", columns, ", ", steps, held ? ", true>" : ">"),
       .threads = 128,
       .smem_bytes = kOperandBytes},
      repeats);
}

/// Long groups give the rate, short ones what a group takes beyond it, narrow ones the least time of an instruction.
FactSamples group_products(Lab& lab) {
  const auto flops = [](int columns, int steps, int k) { return 2.0 * kGroupRows * columns * k * steps; };
  constexpr int kLong = calibrate::kMatrixSteps;
  FactSamples found;
  Samples& rates = found["matrix_flops_per_cycle"];
  rates = each(group_cycles(lab, "F16", kBroad, kLong, 8),
               [&](double cycles) { return flops(kBroad, kLong, kStepK) / cycles; });
  found["matrix_flops_per_cycle_8bit"] = each(group_cycles(lab, "E4m3", kBroad, kLong, 8),
                                              [&](double cycles) { return flops(kBroad, kLong, 2 * kStepK) / cycles; });
  found["matrix_least_cycles"] =
      each(group_cycles(lab, "F16", kNarrow, kLong, 16), [](double cycles) { return cycles / kLong; });
  found["matrix_drain_cycles"];
  if (rates.empty()) return found;
  const double alone = flops(kUsual, kUsualSteps, kStepK) / spread_of(rates).median;
  found["matrix_drain_cycles"] = each(group_cycles(lab, "F16", kUsual, kUsualSteps, 64, true),
                                      [&](double cycles) { return std::max(0.0, cycles - alone); });
  return found;
}

FactSamples memory(Lab& lab) {
  double bytes = 0;
  const double hertz = lab.arch().clock_ghz * 1e9;
  const Samples seconds = lab.copy_seconds(bytes);
  return {{"memory_bytes_per_cycle", each(seconds, [&](double each) { return 2 * bytes / each / hertz; })}};
}

/// Products whose sums lie in tensor memory have no probe.
bool is_groups(const arch::Arch& arch) { return arch.has_fact("matrix_drain_cycles") && !arch.has_unit("TMEM"); }
bool is_warps(const arch::Arch& arch) { return !arch.has_fact("matrix_drain_cycles"); }
bool has_engine(const arch::Arch& arch) { return arch.has_unit("TMA"); }
bool is_any(const arch::Arch&) { return true; }

struct Offered {
  Experiment experiment;
  bool (*serves)(const arch::Arch& arch);
};

std::vector<Offered> offered() {
  return {
      {{{"exp2_per_cycle", "f32_per_cycle", "minmax_per_cycle", "convert_per_cycle"},
        "16 warps of each SM, chains of results that do not wait for each other",
        arithmetic},
       is_any},
      {{{"barrier_cycles"}, "two warps that wait for each other in turn", barriers}, is_any},
      {{{"copy_latency_cycles", "copy_cycles_per_kb"},
        "one thread of each SM, 16, 32 and 48 KB from L2 and the wait for them: the line through them",
        box_copies},
       has_engine},
      {{{"thread_copy_latency_cycles", "thread_copy_cycles_per_kb"},
        "128 threads of each SM, 2 to 32 KB from L2 and the block's wait for them: the line through them",
        thread_copies},
       is_any},
      {{{"matrix_flops_per_cycle", "shared_bytes_per_cycle"},
        "16 warps of each SM, products from registers alone; loads of matrices",
        warp_products},
       is_warps},
      {{{"matrix_flops_per_cycle", "matrix_flops_per_cycle_8bit", "matrix_least_cycles", "matrix_drain_cycles"},
        "one warpgroup of each SM: 64 x 256 with K 1024, 64 x 32; 64 x 128 with K 128 and a in registers, less its "
        "rate",
        group_products},
       is_groups},
      {{{"memory_bytes_per_cycle"}, "512 MB read and written by all SMs, at the shipped clock", memory}, is_any},
  };
}

}  // namespace

std::vector<Experiment> experiments_for(const arch::Arch& arch) {
  std::vector<Experiment> list;
  for (Offered& each : offered()) {
    std::erase_if(each.experiment.facts, [&](const std::string& fact) { return !arch.has_fact(fact); });
    if (!each.experiment.facts.empty() && each.serves(arch)) list.push_back(std::move(each.experiment));
  }
  return list;
}

}  // namespace tj::tools
