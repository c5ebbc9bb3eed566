// Protects tuning by a call's descriptor: the problem that is measured is the call's, in C++ and in C. Operands that
// are measured hold normal values, rounded to their type.
#include <doctest/doctest.h>

#include <tilejit/tilejit.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include <tilejit/tilejit.hpp>

#include "runtime/runtime_fixture.hpp"
#include "support/random_values.hpp"

namespace {

using namespace tj::test;

TEST_CASE("a call's descriptor names the problem that is measured, in C++ and in C, without memory") {
  Machine machine;
  machine.cuda.set_param_bytes(0);  // kernels of several kinds
  machine.cuda.set_block_ms(0.001);
  tj::Runtime runtime(machine.options());
  tj::GemmArgs args;
  args.a = args.b = args.d = tj::Tensor::contiguous(nullptr, {tj::DeviceKind::cuda, 0}, tj::DType::f16, {1024, 1024});
  tj::TuneOptions two;
  two.rounds = 1;
  two.only = {"64x64x128", "128x192x64"};
  const tj::TuneReport report = runtime.tune(args, two);
  CHECK(report.problem == "gemm_f16_kk 1024x1024x1024");
  CHECK(report.kept);
  REQUIRE(report.chosen >= 0);

  const std::string cache = machine.cache_dir();
  tj_options how;
  tj_options_init(&how);
  how.cache_dir = cache.c_str();
  how.log_level = TJ_LOG_OFF;
  tj_runtime* handle = nullptr;
  REQUIRE(tj_runtime_create(&how, &handle) == TJ_OK);
  const tj_tensor matrix{sizeof(tj_tensor), nullptr, {TJ_CUDA, 0}, TJ_F16, 2, {1024, 1024}, {1024, 1}};
  tj_gemm_args in_c{};
  in_c.size = sizeof in_c;
  in_c.a = in_c.b = in_c.d = &matrix;
  in_c.alpha = 1;
  tj_tune_options options{};
  options.size = sizeof options;
  options.only = "64x64x128,128x192x64";
  options.rounds = 1;
  tj_tune_report told{};
  told.size = sizeof told;
  REQUIRE_MESSAGE(tj_tune(handle, "gemm", &in_c, &options, &told) == TJ_OK, tj_last_error());
  CHECK(told.measured == 2);
  CHECK(told.variants == static_cast<int>(report.variants.size()));
  CHECK(std::string(told.problem) == report.problem);
  CHECK(std::string(told.chosen) == report.variants[static_cast<std::size_t>(report.chosen)].name);
  CHECK(told.kept == 1);
  CHECK(report.usual == -1);  // left out: its time is not known
  CHECK(told.usual_us == 0);
  const tj::TuneReport predicted = runtime.tune(args, {.only = {}, .limit = 1, .rounds = 1});
  REQUIRE(predicted.usual == 0);
  CHECK(predicted.variants.front().name != report.variants.front().name);
  const std::string usual = "64x64x128," + predicted.variants.front().name;
  options.only = usual.c_str();
  REQUIRE(tj_tune(handle, "gemm", &in_c, &options, &told) == TJ_OK);
  CHECK(told.usual_us > 0);
  options.only = "none";
  CHECK(tj_tune(handle, "gemm", &in_c, &options, nullptr) == TJ_INVALID_ARGUMENT);
  CHECK(has(tj_last_error(), "none"));
  tj_runtime_destroy(handle);
}

TEST_CASE("a recording has calls for two milliseconds of the best prediction among those that can be measured") {
  for (const bool refused : {false, true}) {
    Machine machine;
    machine.cuda.set_param_bytes(0);
    machine.cuda.set_block_ms(0.0001);
    if (refused) machine.cuda.fail("cuModuleLoadData", 1, 209);  // no binary for this GPU
    tj::Runtime runtime(machine.options());
    tj::GemmArgs args;
    args.a = args.b = args.d = tj::Tensor::contiguous(nullptr, {tj::DeviceKind::cuda, 0}, tj::DType::f16, {4096, 4096});
    tj::TuneOptions options;
    options.rounds = 2;
    options.only = {"64x64x128", "128x128x64", "128x192x64"};
    const tj::TuneReport report = runtime.tune(args, options);
    double best = 0, worst = 0;
    int measured = 0, times = 0;
    for (const tj::TunedVariant& variant : report.variants) {
      times += variant.times;
      if (variant.times == 0) continue;
      ++measured;
      best = best == 0 ? variant.predicted_us : std::min(best, variant.predicted_us);
      worst = std::max(worst, variant.predicted_us);
    }
    CHECK(measured == (refused ? 2 : 3));
    const int calls = static_cast<int>(2000 / best);
    CHECK(calls > 2);
    CHECK(calls < 40);
    CHECK(calls != static_cast<int>(2000 / worst));
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == measured * (1 + calls));
    // Three operands of 32 MiB, each filled with the same 2^21 values again and again.
    const std::string log = machine.cuda.log();
    int pieces = 0;
    for (std::size_t at = 0; (at = log.find("cuMemcpyHtoD 4194304\n", at)) != std::string::npos; ++at) ++pieces;
    CHECK(pieces == 3 * 8);
    CHECK(count_calls(machine.cuda, "cuMemcpyHtoD") == pieces);
    // One that is not timed before each three. Before all, replays until the clock has settled, of which there are no
    // more than 1000: this device works for hardly any time.
    CHECK(count_calls(machine.cuda, "cuGraphLaunch") == times / 3 * 4 + 1000);
  }
}

TEST_CASE("a plan is current until other choices hold on its device") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  machine.cuda.set_block_ms(0.001);
  tj::Runtime runtime(machine.options());
  tj::GemmArgs args;
  args.a = args.b = args.d = tj::Tensor::contiguous(nullptr, {tj::DeviceKind::cuda, 0}, tj::DType::f16, {1024, 1024});
  const tj::Plan before = runtime.plan(args);
  const tj::Plan another = runtime.plan(args);  // looks for records again, and finds none
  CHECK(before.current());
  CHECK(another.current());
  tj::TuneOptions one;
  one.rounds = 1;
  one.only = {before.report().name.find("64x64x128") == std::string::npos ? "64x64x128" : "128x192x64"};
  REQUIRE(runtime.tune(args, one).kept);
  CHECK_FALSE(before.current());
  const tj::Plan after = runtime.plan(args);
  CHECK(after.current());
  CHECK(after.report().name != before.report().name);
}

struct Narrow {
  tj::DType dtype;
  int mantissa, bias;  ///< its stored bits; what its exponents are counted from
};

std::uint32_t element(const std::string& bytes, tj::DType dtype, std::size_t at) {
  const auto size = static_cast<std::size_t>(tj::size_of(dtype));
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes.data() + at * size, size);
  return bits;
}

TEST_CASE("normal values of narrow types are those of f32, rounded to nearest even; what is too small for them is 0") {
  constexpr std::size_t kCount = 20'000;
  constexpr std::uint64_t kSeed = 3;
  const std::string wide = tj::normal_values(tj::DType::f32, kCount, kSeed);
  CHECK(wide.size() == kCount * 4);
  CHECK(wide != tj::normal_values(tj::DType::f32, kCount, kSeed + 1));
  int vanished = 0;
  for (const Narrow type :
       {Narrow{tj::DType::f16, 10, 15}, Narrow{tj::DType::bf16, 7, 127}, Narrow{tj::DType::e4m3, 3, 7}}) {
    const std::string bytes = tj::normal_values(type.dtype, kCount, kSeed);
    REQUIRE(bytes.size() == kCount * static_cast<std::size_t>(tj::size_of(type.dtype)));
    int wrong = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto value = std::bit_cast<float>(element(wide, tj::DType::f32, i));
      const std::uint32_t bits = element(bytes, type.dtype, i), one = 1u << type.mantissa;
      const std::uint32_t sign = 8u * static_cast<std::uint32_t>(tj::size_of(type.dtype)) - 1,
                          exponent = (bits & ((1u << sign) - 1)) >> type.mantissa;
      const bool small = std::abs(value) < std::ldexp(1.0, 1 - type.bias);
      vanished += small ? 1 : 0;
      const int unit = std::ilogb(value) - type.mantissa;
      const double wanted = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(value), -unit)), unit),
                   found = std::ldexp(static_cast<double>(one | (bits & (one - 1))),
                                      static_cast<int>(exponent) - type.bias - type.mantissa) *
                           (bits >> sign != 0 ? -1 : 1);
      wrong += small ? bits != 0 : found != wanted;
    }
    CHECK(wrong == 0);
  }
  CHECK(vanished > 0);
}

TEST_CASE("the least normal number of a type is kept") {
  constexpr std::uint64_t kSeed = 4024848;  // which gives e4m3's there
  constexpr std::size_t kAt = 54;
  const std::string wide = tj::normal_values(tj::DType::f32, kAt + 1, kSeed);
  if (element(wide, tj::DType::f32, kAt) != std::bit_cast<std::uint32_t>(0x1p-6f)) return;  // another library's
  CHECK(element(tj::normal_values(tj::DType::e4m3, kAt + 1, kSeed), tj::DType::e4m3, kAt) == 0x08);
}

}  // namespace
