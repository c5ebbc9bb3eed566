// Protects the devices that tensor memory serves. A B200 and a B300 get such kernels only on request, since these never
// ran on one. An op that nothing else of theirs serves would be the exception. The driver and the compiler are the
// fakes.
#include <doctest/doctest.h>

#include <tilejit/ladder.hpp>

#include <cstdlib>

#include "backends.hpp"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Runtime;

constexpr tj::Device kDevice{tj::DeviceKind::cuda, 0};

struct Served {
  int minor;
  const char *usual, *tensor;
};
constexpr Served kServed[] = {{0, "sm_100", "sm_100a"}, {3, "sm_103", "sm_103a"}};

/// Threads of a block of the last launch, as the fake driver's log has it.
std::string last_launch(const FakeCuda& cuda) {
  std::istringstream lines(cuda.log());
  std::string found;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("cuLaunchKernelEx")) found = line;
  return found;
}

const tj::ChunkOConfig kChunks{2, true, false, false};
/// 128 tokens of one head, in sequences of 64: a call of that kind.
tj::ChunkOArgs chunks() {
  const auto tensor = [](int place, tj::DType dtype, std::initializer_list<std::int64_t> shape) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), kDevice,
                                  dtype, shape);
  };
  tj::ChunkOArgs args;
  args.q = tensor(0, tj::DType::bf16, {128, 1, 128});
  args.k = tensor(1, tj::DType::bf16, {128, 1, 128});
  args.v_new = tensor(2, tj::DType::bf16, {128, 2, 128});
  args.h = tensor(3, tj::DType::bf16, {2, 2, 128, 128});
  args.o = tensor(4, tj::DType::bf16, {128, 2, 128});
  args.g_cu = tensor(5, tj::DType::f32, {128, 2});
  args.seq_length = 64;
  return args;
}

}  // namespace

TEST_CASE("a data-center Blackwell runs what every GPU since 9.0 can, unless tensor memory is asked for") {
  for (const Served& each : kServed) {
    CAPTURE(each.tensor);
    Machine machine;
    machine.cuda.set_capability(10, each.minor);
    {
      Runtime runtime(machine.options());
      CHECK(runtime.target_of(kDevice) == each.usual);
      const tj::KernelReport report = runtime.prepare(config_of());
      CHECK(report.target == each.usual);
      CHECK_FALSE(has(report.schedule_json, "TMEM"));
      runtime.run(attention());
    }
    const std::string usual = last_launch(machine.cuda);
    tj::Options options = machine.options();
    options.target = each.tensor;
    Runtime runtime(options);
    CHECK(runtime.target_of(kDevice) == each.tensor);
    const tj::KernelReport report = runtime.prepare(config_of());
    CHECK(report.target == each.tensor);
    CHECK(report.origin == tj::KernelOrigin::compiled);
    CHECK(has(report.schedule_json, "TMEM"));
    runtime.run(attention());
    CHECK(last_launch(machine.cuda) != usual);
    CHECK(machine.nvrtc.compiles() == 5);  // of the usual target also those of few queries, and their merge
    CHECK(machine.warnings.empty());
  }
}

TEST_CASE("chunk output as well: by the usual target, without a word; by tensor memory where that is asked for") {
  for (const Served& each : kServed) {
    CAPTURE(each.tensor);
    Machine machine;
    machine.cuda.set_capability(10, each.minor);
    {
      Runtime runtime(machine.options());
      CHECK(runtime.target_of(kDevice, "chunk_o") == each.usual);
      const tj::KernelReport report = runtime.prepare(kChunks, kDevice);
      CHECK(report.target == each.usual);
      CHECK(report.origin == tj::KernelOrigin::compiled);
      CHECK_FALSE(has(report.schedule_json, "TMEM"));
      CHECK(runtime.prepare(chunks()).origin == tj::KernelOrigin::memory);
      for (int call = 0; call < 3; ++call) runtime.run(chunks());
      CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 3);
      CHECK(machine.warnings.empty());
    }
    tj::Options options = machine.options();
    options.target = each.tensor;
    Runtime told(options);
    const tj::KernelReport report = told.prepare(kChunks, kDevice);
    CHECK(report.target == each.tensor);
    CHECK(has(report.schedule_json, "TMEM"));
    CHECK(told.warm(kChunks, each.tensor).origin == tj::KernelOrigin::disk);
    CHECK(told.warm(kChunks, each.usual).origin == tj::KernelOrigin::disk);
    CHECK(machine.warnings.empty());
  }
}

TEST_CASE("what was measured on a device for chunk output is found again, with its target's kernels") {
  Machine machine;
  machine.cuda.set_capability(10, 0);
  {
    Runtime runtime(machine.options());
    const tj::TuneReport report = runtime.tune(chunks());
    CHECK(report.target == "sm_100");
    CHECK(report.variants.size() > 1);
    CHECK(report.kept);
  }
  Runtime runtime(machine.options());
  runtime.run(chunks());
  for (const std::string& warning : machine.warnings) CHECK_MESSAGE(!has(warning, "tuning record"), warning);
}

TEST_CASE("an op that a target has no kernel for takes the target of the same devices that has") {
  const auto taken = [](const char* op, const char* usual) {
    return tj::serving_arch(*tj::ops::find(op), *tj::arch::find(usual)).name;
  };
  CHECK(taken("chunk_states", "sm_90") == "sm_90a");
  CHECK(taken("chunk_o", "sm_90") == "sm_90");  // has one
  CHECK(taken("chunk_o", "sm_100") == "sm_100");
  CHECK(taken("chunk_states", "sm_100") == "sm_100");  // none of them has
}

TEST_CASE("where no target of the device has a kernel for an op, the refusal is that of its usual one") {
  Machine machine;
  machine.cuda.set_capability(8, 0);
  Runtime runtime(machine.options());
  CHECK(runtime.target_of(kDevice, "chunk_states") == "sm_80");
  const tj::Error error = error_of([&] { runtime.prepare(tj::ChunkStatesConfig{}, kDevice); });
  CHECK_MESSAGE(has(error.message, "chunk_states does not run on 'sm_80'"), error.message);
  CHECK(runtime.target_of(kDevice, "chunk_o") == "sm_80");
  CHECK(machine.warnings.empty());
  CHECK(error_of([&] { runtime.target_of(kDevice, "chunk"); }).message.find("op 'chunk' is unknown") !=
        std::string::npos);
}

TEST_CASE("the variable asks for it too, and what one device needs is not run on another") {
  Machine machine;
  machine.cuda.set_capability(10, 0);
  ::setenv("TJ_TARGET", "sm_100a", 1);
  tj::Options options = machine.options();
  options.target.reset();
  CHECK(Runtime(options).prepare(config_of()).target == "sm_100a");
  ::setenv("TJ_TARGET", "sm_103a", 1);
  const tj::Error other = error_of([&] { Runtime(options).prepare(config_of()); });
  ::unsetenv("TJ_TARGET");
  CHECK(other.stage == tj::Stage::target);
  CHECK_MESSAGE(has(other.message, "target 'sm_103a' does not run on cuda:0 (sm_100)"), other.message);
}

TEST_CASE(
    "other ops under that target: products and chunk output are made for it; what it has no body for is refused by "
    "name") {
  Machine machine;
  machine.cuda.set_capability(10, 0);
  tj::Options options = machine.options();
  options.target = "sm_100a";
  Runtime runtime(options);
  CHECK(has(runtime.prepare(tj::GemmConfig{}, kDevice).schedule_json, "TMEM"));
  CHECK(has(runtime.prepare(kChunks, kDevice).schedule_json, "TMEM"));
  tj::GemmConfig narrow;
  narrow.dtype = tj::DType::e4m3;
  narrow.out = tj::DType::bf16;
  const tj::Error refused = error_of([&] { runtime.prepare(narrow, kDevice); });
  CHECK_MESSAGE(has(refused.message, "a.dtype is e4m3; allowed on sm_100a: f16, bf16"), refused.message);
  const tj::Error rungs = error_of([&] { tj::Ladder(runtime).prepare(config_of(), 2, kDevice); });
  CHECK_MESSAGE(has(rungs.message, "sm_100a"), rungs.message);
}
