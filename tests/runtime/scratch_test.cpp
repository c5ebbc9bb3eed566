// Protects calls that take several launches: scratch memory of the stream, given back whatever happens.
#include <doctest/doctest.h>

#include <string>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::GemmArgs;
using tj::Runtime;

/// Rows of a at odd addresses, those of b at multiples of 16 bytes.
GemmArgs product() {
  const tj::Device gpu{tj::DeviceKind::cuda, 0};
  const auto matrix = [&](int place, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
    return tj::Tensor::strided(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), gpu,
                               tj::DType::f16, {rows, columns}, {pitch, 1});
  };
  GemmArgs args;
  args.a = matrix(0, 1000, 511, 511);
  args.b = matrix(1, 1024, 511, 512);
  args.d = matrix(2, 1000, 1024, 1024);
  return args;
}

TEST_CASE("an operand that begins anywhere costs one copy, in scratch memory that goes back at once") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    runtime.run(product());
    CHECK(count_calls(machine.cuda, "cuMemAllocFromPoolAsync") == 1);
    CHECK(count_calls(machine.cuda, "cuMemFreeAsync") == 1);
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 2);
    CHECK(std::string(machine.cuda.log()).find("cuMemAllocFromPoolAsync 1024000\n") !=
          std::string::npos);  // 1000 rows of 512 elements
    runtime.prepare(product());
    CHECK(count_calls(machine.cuda, "cuMemAllocFromPoolAsync") == 1);  // nothing is launched, nothing is needed
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("with alpha 0 nothing is copied") {
  Machine machine;
  Runtime runtime(machine.options());
  GemmArgs args = product();
  args.alpha = 0;
  runtime.run(args);
  CHECK(count_calls(machine.cuda, "cuMemAllocFromPoolAsync") == 0);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
}

/// Few tiles, a long K: in parts.
GemmArgs long_product() {
  GemmArgs args = product();
  args.a = tj::Tensor::strided(args.a.data, args.a.device, tj::DType::f16, {100, 16384}, {16384, 1});
  args.d = tj::Tensor::contiguous(args.d.data, args.d.device, tj::DType::f16, {100, 64});
  args.b = tj::Tensor::strided(args.b.data, args.b.device, tj::DType::f16, {64, 16384}, {16384, 1});
  return args;
}

TEST_CASE("a product in parts of K is two launches, whose sums lie in scratch memory that goes back at once") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    CHECK(has(runtime.prepare(long_product()).name, "_parts"));
    CHECK(count_calls(machine.cuda, "cuMemAllocFromPoolAsync") == 0);
    CHECK(machine.nvrtc.compiles() == 2);
    machine.cuda.set_capture(1);  // what was prepared can be captured
    runtime.run(long_product());
    machine.cuda.set_capture(0);
    CHECK(count_calls(machine.cuda, "cuMemAllocAsync") == 1);  // the graph's
    CHECK(count_calls(machine.cuda, "cuMemFreeAsync") == 1);
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 2);
    GemmArgs nothing = long_product();
    nothing.alpha = 0;                                       // only the epilogue
    CHECK(has(runtime.prepare(nothing).name, "sum_parts"));  // what runs, as no kernel of gemm's does
    runtime.run(nothing);
    CHECK(count_calls(machine.cuda, "cuMemAllocAsync") == 1);
    CHECK(count_calls(machine.cuda, "cuMemAllocFromPoolAsync") == 0);
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 3);
    CHECK(machine.nvrtc.compiles() == 2);
    machine.cuda.fail("cuLaunchKernelEx", 5, 999);  // the sum
    CHECK(error_of([&] { runtime.run(long_product()); }).code == tj::Code::driver_error);
    CHECK(count_calls(machine.cuda, "cuMemFreeAsync") == 2);
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("a call in many ranges of chunks launches two kernels a range, by itself and as a plan") {
  Machine machine;
  machine.cuda.set_param_bytes(0);  // kernels of three kinds
  Runtime runtime(machine.options());
  const auto by_tokens = [](int place, std::int64_t heads) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep),
                                  {tj::DeviceKind::cuda, 0}, tj::DType::bf16, {1, 32768, heads, 128});
  };
  tj::GatedDeltaRuleArgs args;
  args.q = by_tokens(0, 16);
  args.k = by_tokens(1, 16);
  args.v = by_tokens(2, 32);
  args.o = by_tokens(3, 32);
  runtime.run(args);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 14);
  CHECK(machine.nvrtc.compiles() == 3);
  const std::string states = std::to_string(512 * 32 * 18432 + 32 * 128 * 128 * 4);
  CHECK(has(std::string(machine.cuda.log()), "cuMemAllocFromPoolAsync " + states + "\n"));
  runtime.plan(args).run({args.q.data, args.k.data, args.v.data, args.o.data});
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 28);
}

TEST_CASE("preparing by sizes, in this process or an earlier one, makes all kernels of a product in parts") {
  Machine machine;
  tj::GemmConfig config;
  config.m = 100;
  config.n = 64;
  config.k = 16384;
  CHECK(has(Runtime(machine.options()).warm(config, "sm_90a").name, "_parts"));
  CHECK(machine.nvrtc.compiles() == 2);
  Runtime runtime(machine.options());
  CHECK(has(runtime.prepare(config, {tj::DeviceKind::cuda, 0}).name, "_parts"));
  machine.cuda.set_capture(1);
  runtime.run(long_product());
  machine.cuda.set_capture(0);
  CHECK(machine.nvrtc.compiles() == 2);
}

TEST_CASE("a cold call inside a capture leaves nothing in the graph") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.cuda.set_capture(1);
  for (const GemmArgs& args : {product(), long_product()})
    CHECK(error_of([&] { runtime.run(args); }).code == tj::Code::cold_in_capture);
  CHECK(count_calls(machine.cuda, "cuMemAllocAsync") == 0);
  CHECK(count_calls(machine.cuda, "cuMemAllocFromPoolAsync") == 0);
  machine.cuda.set_capture(0);
}

TEST_CASE("scratch memory stays in one pool between calls; where a device has none, it is the stream's") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    for (int i = 0; i < 3; ++i) runtime.run(product());
    CHECK(count_calls(machine.cuda, "cuMemPoolCreate") == 1);
    CHECK(std::string(machine.cuda.log()).find("cuMemPoolSetAttribute 134217728\n") != std::string::npos);
    CHECK(count_calls(machine.cuda, "cuMemAllocFromPoolAsync") == 3);
    CHECK(count_calls(machine.cuda, "cuMemAllocAsync") == 0);
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
  Machine without;
  {
    Runtime runtime(without.options());
    without.cuda.fail("cuMemPoolCreate", 1, 801);
    for (int i = 0; i < 3; ++i) runtime.run(product());
    CHECK(count_calls(without.cuda, "cuMemPoolCreate") == 1);
    CHECK(count_calls(without.cuda, "cuMemAllocAsync") == 3);
  }
  CHECK(std::string(without.cuda.leaks()) == "");
}

TEST_CASE("without scratch memory nothing is launched; when a launch fails it goes back") {
  constexpr int kOutOfMemory = 2, kUnknownError = 999;
  Machine machine;
  {
    Runtime runtime(machine.options());
    runtime.prepare(product());
    machine.cuda.fail("cuMemAllocFromPoolAsync", 1, kOutOfMemory);
    const tj::Error memory = error_of([&] { runtime.run(product()); });
    CHECK(memory.code == tj::Code::out_of_memory);
    CHECK(memory.message.find("cuMemAllocFromPoolAsync") != std::string::npos);
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 0);
    machine.cuda.fail("cuLaunchKernelEx", 2, kUnknownError);
    CHECK(error_of([&] { runtime.run(product()); }).code == tj::Code::driver_error);
    CHECK(count_calls(machine.cuda, "cuMemFreeAsync") == 1);
    runtime.run(product());
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

}  // namespace
