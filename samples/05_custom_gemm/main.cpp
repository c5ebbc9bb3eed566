// D = GELU(A B^T + bias) in one kernel that is no op of the library. A graph and its node bodies make it, both files of
// this folder.
//
//   05_custom_gemm [--m N] [--n N] [--k N]
//
// A [M, K] and B [N, K] are f16, rows contiguous; bias [N] is f32; D [M, N] is f16; sums are f32. M and N are any
// sizes, K a multiple of 8: the copy engine takes rows that are multiples of 16 bytes apart. Exits 0 when the error
// against f64 is within its limit, 1 when it is not, 2 when something could not run.
#include <tilejit/tilejit.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "05_custom_gemm/gemm_gelu_params.cuh"
#include "common/arguments.hpp"
#include "common/device_memory.hpp"
#include "common/half.hpp"
#include "common/output.hpp"
#include "common/random.hpp"
#include "common/resources.hpp"
#include "common/schedule_summary.hpp"

namespace {

namespace samples = tj::samples;

constexpr tj::Device kHost{tj::DeviceKind::cpu, 0};
constexpr int kBlockM = 128, kBlockN = 256, kBlockK = 64;  // as gemm_gelu.json
constexpr std::size_t kGuard = 1024;                       // elements behind D that nobody may touch
constexpr std::uint16_t kPoison = 0xffff;                  // NaN: what a kernel leaves out is seen
constexpr double kMaxError = 6e-4;

struct Problem {
  int m = 300, n = 200, k = 136;
  std::vector<std::uint16_t> a, b, d;
  std::vector<float> bias;
};

void make_problem(samples::Arguments& words, bool model, Problem& p) {
  if (!model) p.m = p.n = p.k = 4096;
  const auto size = [&](const char* name, int& value) {
    value = static_cast<int>(words.take_number(name, 1, 1u << 20).value_or(static_cast<unsigned>(value)));
  };
  size("--m", p.m), size("--n", p.n), size("--k", p.k);
  if (p.k % 8 != 0)
    throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument,
                    "--k is " + std::to_string(p.k) + "; it must be a multiple of 8");
  const std::uint64_t seed = words.take_number("--seed", 0, UINT64_MAX).value_or(samples::fresh_seed());
  std::printf("data     normal random, seed %llu\n", static_cast<unsigned long long>(seed));
  const auto m = static_cast<std::size_t>(p.m), n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  p.a = samples::random_normal(m * k, tj::DType::f16, seed);
  p.b = samples::random_normal(n * k, tj::DType::f16, seed + 1);
  for (std::uint16_t& each : p.b)
    each = samples::float_to_half(samples::half_to_float(each) / std::sqrt(static_cast<float>(p.k)));
  for (const std::uint16_t each : samples::random_normal(n, tj::DType::f16, seed + 2))
    p.bias.push_back(samples::half_to_float(each));
  p.d.assign(m * n + kGuard, kPoison);
}

/// Runs and times the kernel; p.d receives the result.
void run(tj::Runtime& runtime, tj::Device device, int iterations, Problem& p) {
  const tj::custom::Kernel kernel(runtime, {"gemm_gelu", samples::resource_text("05_custom_gemm", "gemm_gelu.json"),
                                            samples::resources("05_custom_gemm")});
  const auto a = samples::upload(runtime, device, p.a), b = samples::upload(runtime, device, p.b),
             bias = samples::upload(runtime, device, p.bias), d = samples::upload(runtime, device, p.d);

  sample::gemm_gelu::Params params;
  params.a = kernel.tensor_map(tj::Tensor::contiguous(a.get(), device, tj::DType::f16, {1, 1, p.m, p.k}),
                               {{1, 1, kBlockM, kBlockK}});
  params.b = kernel.tensor_map(tj::Tensor::contiguous(b.get(), device, tj::DType::f16, {1, 1, p.n, p.k}),
                               {{1, 1, kBlockN, kBlockK}});
  params.bias = static_cast<const float*>(bias.get());
  params.d = d.get();
  params.m = p.m, params.n = p.n, params.k = p.k;
  params.row_blocks = (p.m + kBlockM - 1) / kBlockM;
  params.tiles = params.row_blocks * ((p.n + kBlockN - 1) / kBlockN);
  const unsigned blocks = std::min(static_cast<unsigned>(params.tiles), kernel.sm_count(device));

  std::fputs(samples::kernel_text(kernel.prepare(device)).c_str(), stdout);
  if (iterations > 1) kernel.launch(device, params, blocks);  // the first run warms the clocks and is not timed
  const double ms = runtime.time_ms(device, [&] {
    for (int i = 0; i < iterations; ++i) kernel.launch(device, params, blocks);
  }) / iterations;
  std::printf("run      %.3f ms, %.4g TFLOP/s, mean of %d run%s\n", ms, 2.0 * p.m * p.n * p.k / ms * 1e-9, iterations,
              iterations == 1 ? "" : "s in a row");
  runtime.copy(p.d.data(), kHost, d.get(), device, p.d.size() * sizeof(p.d[0]));
}

/// Against f64 on the same rounded inputs: all rows of a small problem, evenly spread ones of a large problem.
bool check(const Problem& p) {
  constexpr double kMaxProducts = 1 << 28;
  const auto n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  const int rows =
      static_cast<int>(std::clamp(kMaxProducts / (static_cast<double>(p.n) * p.k), 1.0, static_cast<double>(p.m)));
  std::vector<float> b(n * k);
  std::transform(p.b.begin(), p.b.end(), b.begin(), samples::half_to_float);
  double wrong = 0, all = 0;
  for (int r = 0; r < rows; ++r) {
    const auto row = static_cast<std::size_t>(static_cast<std::int64_t>(r) * p.m / rows);
    std::vector<double> left(k);
    std::transform(p.a.begin() + static_cast<std::ptrdiff_t>(row * k),
                   p.a.begin() + static_cast<std::ptrdiff_t>((row + 1) * k), left.begin(), samples::half_to_float);
    for (std::size_t column = 0; column < n; ++column) {
      double x = p.bias[column];
      for (std::size_t i = 0; i < k; ++i) x += left[i] * b[column * k + i];
      const double gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      const double difference = samples::half_to_float(p.d[row * n + column]) - gelu;
      wrong += difference * difference;
      all += gelu * gelu;
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
        "05_custom_gemm [--m N] [--n N] [--k N] [--seed N] [--iterations N]\nTJ_TARGET=model:sm_90a runs on the CPU "
        "model.");
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
    throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument,
                    "'" + rest.front() + "' means nothing to this sample; see --help");
  std::printf("problem  M %d, N %d, K %d\n", p.m, p.n, p.k);
  run(runtime, device, iterations, p);
  return check(p) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return tj::samples::all_written("05_custom_gemm", main_checked(argc, argv));
  } catch (const tj::Error& error) {
    std::fprintf(stderr, "05_custom_gemm: %s\n%s", error.what(), error.log.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "05_custom_gemm: %s\n", error.what());
  }
  return 2;
}
