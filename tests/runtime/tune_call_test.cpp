// Protects tuning by a call's descriptor: the problem that is measured is the call's, in C++ and in C.
#include <doctest/doctest.h>

#include <tilejit/tilejit.h>

#include <string>

#include <tilejit/tilejit.hpp>

#include "runtime/runtime_fixture.hpp"

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
  options.only = "none";
  CHECK(tj_tune(handle, "gemm", &in_c, &options, nullptr) == TJ_INVALID_ARGUMENT);
  CHECK(has(tj_last_error(), "none"));
  tj_runtime_destroy(handle);
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

}  // namespace
