// D = rmsnorm(X) W^T + R in one kernel of the sample's own: a norm, a product and a residual that are three calls else.
//
//   09_rmsnorm_gemm [--m N] [--n N] [--k N]
//
// X [M, K], W [N, K], R and D [M, N] are f16, rows contiguous; sums are f32. A row of X is divided by its root mean
// square; the norm's weights are in W's columns, as whoever loads a model puts them there once. Each family of archs
// has a graph and bodies of a few dozen lines; the schedule is found for each. Exits 0 when the error against f64 is
// within its limit, 1 when it is not, 2 when something could not run.
#include <tilejit/tilejit.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "09_rmsnorm_gemm/rmsnorm_gemm_params.cuh"
#include "common/arguments.hpp"
#include "common/device_memory.hpp"
#include "common/half.hpp"
#include "common/output.hpp"
#include "common/random.hpp"
#include "common/resources.hpp"
#include "common/schedule_summary.hpp"

namespace {

namespace samples = tj::samples;

constexpr const char* kSample = "09_rmsnorm_gemm";
constexpr tj::Device kHost{tj::DeviceKind::cpu, 0};
constexpr std::size_t kGuard = 1024;       // elements behind D that nobody may touch
constexpr std::uint16_t kPoison = 0xffff;  // NaN: what a kernel leaves out is seen
constexpr double kMaxError = 6e-4, kEpsilon = 1e-6;

/// The graph of a family of archs, and its tile as the graph's file says it. A graph with candidates has their tiles.
struct Family {
  const char *graph, *machine;  ///< the file, the arch that it names
  std::vector<std::string> archs;
  int block_m, block_n, block_k;
  bool boxes;       ///< the copy engine brings X and W
  bool persistent;  ///< blocks do tile after tile
};

const std::vector<Family>& families() {
  static const std::vector<Family> list = {
      {"sm90.json", "sm_90a", {"sm_90a"}, 128, 256, 64, true, true},
      {"sm80.json",
       "sm_80",
       {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120a", "sm_121a"},
       128,
       128,
       64,
       false,
       true},
      {"amd.json",
       "gfx1100",
       {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1200", "gfx1201", "gfx90a", "gfx942",
        "gfx950"},
       64,
       128,
       32,
       false,
       false},
  };
  return list;
}

[[noreturn]] void refuse(tj::Stage stage, const std::string& message) {
  throw tj::Error(stage, stage == tj::Stage::target ? tj::Code::unsupported : tj::Code::invalid_argument, message);
}

/// "model:sm_90a" is a model of sm_90a.
std::string arch_of(const std::string& target) { return target.rfind("model:", 0) == 0 ? target.substr(6) : target; }
const Family& family_of(const std::string& arch) {
  std::string known;
  for (const Family& family : families())
    for (const std::string& each : family.archs) {
      if (each == arch) return family;
      known += (known.empty() ? "" : ", ") + each;
    }
  refuse(tj::Stage::target, "the sample has no graph for '" + arch + "'; it has them for " + known);
}

struct Problem {
  int m = 150, n = 200, k = 136;
  std::vector<std::uint16_t> x, w, residual, d;
};

void make_problem(samples::Arguments& words, bool model, Problem& p) {
  if (!model) p.m = p.n = p.k = 4096;
  const auto size = [&](const char* name, int& value) {
    value = static_cast<int>(words.take_number(name, 1, 1u << 20).value_or(static_cast<unsigned>(value)));
  };
  size("--m", p.m), size("--n", p.n), size("--k", p.k);
  for (const auto& [name, value] : {std::pair{"--n", p.n}, std::pair{"--k", p.k}})
    if (value % 8 != 0)
      refuse(tj::Stage::argument, std::string(name) + " is " + std::to_string(value) + "; it must be a multiple of 8");
  const std::uint64_t seed = words.take_number("--seed", 0, UINT64_MAX).value_or(samples::fresh_seed());
  std::printf("data     normal random, seed %llu\n", static_cast<unsigned long long>(seed));
  const auto m = static_cast<std::size_t>(p.m), n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  const auto scaled = [](std::vector<std::uint16_t> values, const auto& factor) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = samples::float_to_half(samples::half_to_float(values[i]) * factor(i));
    return values;
  };
  // Rows of other sizes: else a norm that is wrong would hardly show.
  p.x = scaled(samples::random_normal(m * k, tj::DType::f16, seed),
               [&](std::size_t i) { return std::exp2(static_cast<float>(i / k % 7) - 3.0f); });
  p.w = scaled(samples::random_normal(n * k, tj::DType::f16, seed + 1),
               [&](std::size_t) { return 1.0f / std::sqrt(static_cast<float>(p.k)); });
  p.residual = samples::random_normal(m * n, tj::DType::f16, seed + 2);
  p.d.assign(m * n + kGuard, kPoison);
}

int up(int value, int by) { return (value + by - 1) / by; }

/// The kernel, in the form whose waves of tiles over the multiprocessors end first: a tile takes its schedule's
/// interval for each iteration. Few rows have one narrow tile for each multiprocessor, or they leave most of them idle.
/// Sets the family's width to the form's.
tj::custom::Kernel make_kernel(tj::Runtime& runtime, tj::Device device, const Problem& p, Family& family) {
  const std::string arch = arch_of(runtime.target_of(device));
  tj::Graph graph = tj::Graph::parse(samples::resource_text(kSample, family.graph), "rmsnorm_gemm");
  graph.machine.name = arch;  // of the same family: the costs are those of the arch that the file names
  const auto kernel = [&](const tj::Graph& form) {
    return tj::custom::Kernel(runtime, {"rmsnorm_gemm", form.json(), samples::resources(kSample)});
  };
  const int sms = static_cast<int>(kernel(graph).sm_count(device));
  double fewest = 0;
  std::string best;
  for (const auto& candidate : graph.candidates) {
    const tj::Schedule schedule = tj::schedule(graph.resolved("", candidate.name));
    const int height = std::stoi(candidate.parameters.at("block_m")),
              width = std::stoi(candidate.parameters.at("block_n")), waves = up(up(p.m, height) * up(p.n, width), sms);
    const double cycles = waves * (static_cast<double>(up(p.k, family.block_k)) * schedule.ii() + schedule.length());
    if (fewest == 0 || cycles < fewest)
      fewest = cycles, best = candidate.name, family.block_m = height, family.block_n = width;
  }
  return kernel(graph.resolved("", best));
}

/// Runs and times the kernel; p.d receives the result.
void run(tj::Runtime& runtime, tj::Device device, int iterations, Problem& p) {
  Family family = family_of(arch_of(runtime.target_of(device)));
  const tj::custom::Kernel kernel = make_kernel(runtime, device, p, family);
  const auto x = samples::upload(runtime, device, p.x), w = samples::upload(runtime, device, p.w),
             residual = samples::upload(runtime, device, p.residual), d = samples::upload(runtime, device, p.d);
  sample::rmsnorm_gemm::Params params{};
  if (family.boxes) {
    const auto map = [&](void* data, int rows, int block) {
      return kernel.tensor_map(tj::Tensor::contiguous(data, device, tj::DType::f16, {1, 1, rows, p.k}),
                               {{1, 1, block, family.block_k}});
    };
    params.x_map = map(x.get(), p.m, family.block_m), params.w_map = map(w.get(), p.n, family.block_n);
  }
  params.x = x.get(), params.w = w.get(), params.residual = residual.get(), params.d = d.get();
  params.m = p.m, params.n = p.n, params.k = p.k;
  params.one_over_k = 1.0f / static_cast<float>(p.k), params.epsilon = static_cast<float>(kEpsilon);
  params.row_blocks = up(p.m, family.block_m);
  params.tiles = params.row_blocks * up(p.n, family.block_n);
  const auto tiles = static_cast<unsigned>(params.tiles);
  const unsigned blocks = family.persistent ? std::min(tiles, kernel.sm_count(device)) : tiles;

  std::printf("tile     %d x %d x %d, %u of them, by %u blocks\n", family.block_m, family.block_n, family.block_k,
              tiles, blocks);
  std::fputs(samples::kernel_text(kernel.prepare(device)).c_str(), stdout);
  if (iterations > 1) kernel.launch(device, params, blocks);  // the first run warms the clocks and is not timed
  const double ms = runtime.time_ms(device, [&] {
    for (int i = 0; i < iterations; ++i) kernel.launch(device, params, blocks);
  }) / iterations;
  std::printf("run      %.3f ms, %.4g TFLOP/s, mean of %d run%s\n", ms, 2.0 * p.m * p.n * p.k / ms * 1e-9, iterations,
              iterations == 1 ? "" : "s in a row");
  runtime.copy(p.d.data(), kHost, d.get(), device, p.d.size() * sizeof(p.d[0]));
}

std::vector<double> row_of(const std::vector<std::uint16_t>& matrix, std::size_t row, std::size_t columns) {
  std::vector<double> values(columns);
  for (std::size_t i = 0; i < columns; ++i)
    values[i] = static_cast<double>(samples::half_to_float(matrix[row * columns + i]));
  return values;
}

/// Against f64 on the same rounded inputs: all rows of a small problem, evenly spread ones of a large problem.
bool check(const Problem& p) {
  constexpr double kMaxProducts = 1 << 28;
  const auto n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  const int rows =
      static_cast<int>(std::clamp(kMaxProducts / (static_cast<double>(p.n) * p.k), 1.0, static_cast<double>(p.m)));
  const std::vector<double> w = row_of(p.w, 0, n * k);
  double wrong = 0, all = 0;
  for (int r = 0; r < rows; ++r) {
    const auto row = static_cast<std::size_t>(static_cast<std::int64_t>(r) * p.m / rows);
    const std::vector<double> x = row_of(p.x, row, k), residual = row_of(p.residual, row, n);
    double squares = 0;
    for (const double each : x) squares += each * each;
    const double scale = 1 / std::sqrt(squares / p.k + kEpsilon);
    for (std::size_t column = 0; column < n; ++column) {
      double sum = 0;
      for (std::size_t i = 0; i < k; ++i) sum += x[i] * w[column * k + i];
      const double wanted = sum * scale + residual[column];
      const double difference = static_cast<double>(samples::half_to_float(p.d[row * n + column])) - wanted;
      wrong += difference * difference;
      all += wanted * wanted;
    }
  }
  const bool guard = std::all_of(p.d.end() - kGuard, p.d.end(), [](std::uint16_t each) { return each == kPoison; });
  const double error = std::sqrt(wrong / all);
  const bool good = error <= kMaxError && guard;  // false for NaN
  std::printf("check    %s: against f64, error %.1e (limit %.1e), %d of %d rows compared%s\n", good ? "ok" : "WRONG",
              error, kMaxError, rows, p.m, guard ? "" : "; wrote behind D");
  return good;
}

int main_checked(int argc, char** argv) {
  samples::Arguments words(argc, argv);
  if (words.take_switch("--help")) {
    std::puts(
        "09_rmsnorm_gemm [--m N] [--n N] [--k N] [--seed N] [--iterations N]\nTJ_TARGET=model:sm_90a, model:sm_80 or "
        "model:gfx1100 runs on the CPU model.");
    return 0;
  }
  tj::Runtime& runtime = tj::Runtime::instance();
  const tj::Device device = runtime.default_device();
  const bool model = device.kind == tj::DeviceKind::cpu;
  std::printf("target   %s on %s\n", runtime.target_of(device).c_str(), tj::to_string(device).c_str());
  const int iterations = static_cast<int>(words.take_number("--iterations", 1, 1000000).value_or(model ? 1 : 20));
  Problem p;
  make_problem(words, model, p);
  if (const auto rest = words.rest(); !rest.empty())
    refuse(tj::Stage::argument, "'" + rest.front() + "' means nothing to this sample; see --help");
  std::printf("problem  M %d, N %d, K %d\n", p.m, p.n, p.k);
  run(runtime, device, iterations, p);
  return check(p) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return tj::samples::all_written(kSample, main_checked(argc, argv));
  } catch (const tj::Error& error) {
    std::fprintf(stderr, "%s: %s\n%s", kSample, error.what(), error.log.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", kSample, error.what());
  }
  return 2;
}
