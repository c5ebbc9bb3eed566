// Protects that a kernel of a user's own is what its folder says: right on odd sizes, other when a body is edited, with the
// compiler's words when a body does not compile, made once when many threads ask at once.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "common/half.hpp"
#include "common/random.hpp"
#include "custom/sample_kernel.hpp"

namespace {

using namespace tj;
using test::SampleKernel;
using testing::error_of;
using testing::has;

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr int kM = 70, kN = 41, kK = 200;
constexpr std::uint16_t kPoison = 0xffff;

Options options(const testing::Scratch& scratch) {
  Options options;
  options.target = "model:sm_90a";
  options.cache_dir = scratch / "cache";
  options.dump_dir = scratch / "dump";
  options.log_level = LogLevel::off;
  return options;
}

/// A small problem in host memory, and how far D is from f64.
struct Problem {
  std::vector<std::uint16_t> a = samples::random_normal(kM * kK, DType::f16, 11), b = samples::random_normal(kN * kK, DType::f16, 12);
  std::vector<std::uint16_t> d = std::vector<std::uint16_t>(kM * kN, kPoison);
  std::vector<float> bias = std::vector<float>(kN);
  alignas(16) std::uint16_t a_memory[kM * kK], b_memory[kN * kK];

  Problem() {
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = samples::float_to_half(samples::half_to_float(b[i]) / 14.0f);
    for (int i = 0; i < kN; ++i) bias[static_cast<std::size_t>(i)] = static_cast<float>(i - 20) / 16.0f;
    std::copy(a.begin(), a.end(), a_memory);
    std::copy(b.begin(), b.end(), b_memory);
  }

  sample::gemm_gelu::Params params(const custom::Kernel& kernel) {
    sample::gemm_gelu::Params p;
    p.a = kernel.tensor_map(Tensor::contiguous(a_memory, kCpu, DType::f16, {1, 1, kM, kK}), {{1, 1, 128, 64}});
    p.b = kernel.tensor_map(Tensor::contiguous(b_memory, kCpu, DType::f16, {1, 1, kN, kK}), {{1, 1, 256, 64}});
    p.bias = bias.data();
    p.d = d.data();
    p.m = kM, p.n = kN, p.k = kK;
    p.row_blocks = p.tiles = 1;
    return p;
  }

  double error() const {
    double wrong = 0, all = 0;
    for (std::size_t r = 0; r < kM; ++r)
      for (std::size_t c = 0; c < kN; ++c) {
        double x = bias[c];
        for (std::size_t i = 0; i < kK; ++i) x += static_cast<double>(samples::half_to_float(a[r * kK + i])) * samples::half_to_float(b[c * kK + i]);
        const double gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        const double difference = samples::half_to_float(d[r * kN + c]) - gelu;
        wrong += difference * difference, all += gelu * gelu;
      }
    return std::sqrt(wrong / all);
  }
};

}  // namespace

TEST_CASE("the folder's bodies are what runs") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  const SampleKernel sample;
  Problem problem;
  const custom::Kernel kernel(runtime, sample.description);
  kernel.launch(kCpu, problem.params(kernel), 1);
  CHECK(problem.error() < 6e-4);
  sample.edit("sums[0] + bias0", "sums[0] - bias0");
  const custom::Kernel edited(runtime, sample.description);
  edited.launch(kCpu, problem.params(edited), 1);
  CHECK(problem.error() > 1e-2);
  kernel.launch(kCpu, problem.params(kernel), 3);  // the first one has not changed; blocks without a tile do nothing
  CHECK(problem.error() < 6e-4);
}

TEST_CASE("other schedules of the same graph are right too") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  for (int form = 0; form < 3; ++form) {
    CAPTURE(form);
    SampleKernel sample;
    if (form == 0) sample.description.max_slots = 2;
    if (form == 1) sample.description.turns = false;
    if (form == 2) sample.description.max_stages = 1;
    Problem problem;
    const custom::Kernel kernel(runtime, sample.description);
    kernel.launch(kCpu, problem.params(kernel), 1);
    CHECK(problem.error() < 6e-4);
  }
}

TEST_CASE("a body that does not compile, and a parameter of another size") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  const SampleKernel sample;
  const custom::Kernel kernel(runtime, sample.description);
  Problem problem;
  const Error size = error_of([&] { kernel.launch(kCpu, 1.0, 1); });
  CHECK(size.stage == Stage::argument);
  CHECK_MESSAGE(has(size.message, "params of 'gemm_gelu' is of 8 bytes; the kernel's params_type has " + std::to_string(sizeof(sample::gemm_gelu::Params)) + " bytes"), size.message);
  sample.edit("dev::hold(consumer.sums);", "dev::holt(consumer.sums);");
  const Error error = error_of([&] { custom::Kernel(runtime, sample.description).prepare(kCpu); });
  CHECK(error.stage == Stage::compile);
  CHECK(error.code == Code::compile_failed);
  CHECK_MESSAGE(has(error.message, "holt"), error.message);
  CHECK(has(error.log, "gemm_gelu.cuh"));
  CHECK(std::filesystem::exists(error.source_path));
  CHECK(has(error.message, error.source_path));
}

TEST_CASE("many threads make one kernel, and launch it side by side") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  const SampleKernel sample;
  constexpr int kThreads = 4;
  std::vector<Problem> problems(kThreads);
  std::vector<KernelOrigin> origins(kThreads, KernelOrigin::compiled);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const custom::Kernel kernel(runtime, sample.description);
      origins[t] = kernel.prepare(kCpu).origin;
      kernel.launch(kCpu, problems[t].params(kernel), 1);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::count(origins.begin(), origins.end(), KernelOrigin::compiled) == 1);
  for (const Problem& problem : problems) CHECK(problem.error() < 6e-4);
}
