// Protects the promise of the public calls: bad input is a tj::Error that names the argument, its value and what is
// allowed. Nothing is launched, loaded or compiled for it.
#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "fakes/fake_hip.hpp"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Code;
using tj::DType;
using tj::Error;
using tj::FmhaArgs;
using tj::FmhaConfig;
using tj::Runtime;
using tj::Stage;
using tj::Tensor;

constexpr tj::Device kCpu{tj::DeviceKind::cpu, 0};

void nothing_happened(Machine& machine) {
  for (const char* call : {"cuLaunchKernelEx", "cuModuleLoadData", "cuTensorMapEncodeTiled"})
    CHECK_MESSAGE(count_calls(machine.cuda, call) == 0, call);
  CHECK(machine.nvrtc.compiles() == 0);
}

struct Case {
  const char* words;  ///< that the message has
  std::function<void(FmhaArgs&)> change;
};

/// Through both calls that take arguments, or through run() alone.
void refuse_all(Machine& machine, Runtime& runtime, const std::vector<Case>& cases, bool also_prepare = true) {
  for (const Case& c : cases) {
    CAPTURE(c.words);
    FmhaArgs args = attention();
    args.lse = lse_of({});
    c.change(args);
    for (const bool prepare : {false, true}) {
      if (prepare && !also_prepare) continue;
      const Error error = error_of([&] {
        if (prepare)
          runtime.prepare(args);
        else
          runtime.run(args);
      });
      CHECK(error.stage == Stage::argument);
      CHECK_MESSAGE(has(error.message, c.words), error.message);
      CHECK_MESSAGE(has(error.message, "allowed"), error.message);
    }
    nothing_happened(machine);
  }
}

TEST_CASE("pointers, ranks, types, shapes") {
  Machine machine;
  Runtime runtime(machine.options());
  refuse_all(machine, runtime,
             {{"q.data is null", [](FmhaArgs& a) { a.q.data = nullptr; }},
              {"k.data is null", [](FmhaArgs& a) { a.k.data = nullptr; }},
              {"v.data is null", [](FmhaArgs& a) { a.v.data = nullptr; }},
              {"o.data is null", [](FmhaArgs& a) { a.o.data = nullptr; }},
              {"lse.data is null", [](FmhaArgs& a) { a.lse->data = nullptr; }}},
             false);  // what is made ready needs no memory
  refuse_all(machine, runtime,
             {{"q.rank is 3", [](FmhaArgs& a) { a.q.rank = 3; }},
              {"k.rank is 5", [](FmhaArgs& a) { a.k.rank = 5; }},
              {"lse.rank is 4", [](FmhaArgs& a) { a.lse->rank = 4; }},
              {"q.rank is 0", [](FmhaArgs& a) { a.q = Tensor{a.q.data}; }},
              {"q.dtype is f32", [](FmhaArgs& a) { a.q.dtype = DType::f32; }},
              {"v.dtype is bf16", [](FmhaArgs& a) { a.v.dtype = DType::bf16; }},
              {"o.dtype is e4m3", [](FmhaArgs& a) { a.o.dtype = DType::e4m3; }},
              {"lse.dtype is f16", [](FmhaArgs& a) { a.lse->dtype = DType::f16; }},
              {"is 84", [](FmhaArgs& a) { a = attention({2, 4, 2, 300, 500, 84}); }},
              {"(H) is 4 and k.shape[1] (Hkv) is 3", [](FmhaArgs& a) { a = attention({2, 4, 3, 300, 500, 128}); }},
              {"q.shape[2] (Sq) is -1", [](FmhaArgs& a) { a.q.shape[2] = -1; }},
              {"k.shape[2] (Sk) is -5", [](FmhaArgs& a) { a.k.shape[2] = -5; }},
              {"v.shape[2]", [](FmhaArgs& a) { a.v.shape[2] = 499; }},
              {"lse.shape[2]", [](FmhaArgs& a) { a.lse->shape[2] = 299; }}});
}

TEST_CASE("alignment, strides, sizes, overlaps, scale") {
  Machine machine;
  Runtime runtime(machine.options());
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const auto moved = [](void* data, std::uintptr_t bytes) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) + bytes);
  };
  refuse_all(machine, runtime,
             {{"q.data is", [&](FmhaArgs& a) { a.q.data = moved(a.q.data, 8); }},
              {"v.data is", [&](FmhaArgs& a) { a.v.data = moved(a.v.data, 2); }},
              {"k.strides[2]", [](FmhaArgs& a) { a.k.strides[2] = 132; }},
              {"q.strides[3] (D) is 2", [](FmhaArgs& a) { a.q.strides[3] = 2; }},
              {"v.strides[1]", [](FmhaArgs& a) { a.v.strides[1] = 0; }},
              {"k.strides[2]", [](FmhaArgs& a) { a.k.strides[2] = -128; }},
              {"q.strides[0]", [](FmhaArgs& a) { a.q.strides[0] = std::int64_t{1} << 39; }},
              {"q.strides[0]", [](FmhaArgs& a) { a.q.strides[0] = kHuge; }},
              {"q.shape[2] (Sq) is 2147483648", [](FmhaArgs& a) { a.q.shape[2] = std::int64_t{1} << 31; }},
              {"B * H * ceil(Sq / 64)", [](FmhaArgs& a) { a = attention({1 << 16, 1 << 16, 1, 1, 1, 64}); }},
              {"q with shape",  // ends beyond the address space
               [](FmhaArgs& a) {
                 for (Tensor* t : {&a.q, &a.o, &a.k, &a.v}) t->shape[0] = std::int64_t{1} << 25;
                 a.lse.reset();
                 a.q.strides[0] = std::int64_t{1} << 38;
               }},
              {"overlaps", [](FmhaArgs& a) { a.o.data = a.q.data; }},
              {"scale is", [](FmhaArgs& a) { a.scale = std::numeric_limits<float>::infinity(); }},
              {"scale is", [](FmhaArgs& a) { a.scale = std::numeric_limits<float>::quiet_NaN(); }}});
}

TEST_CASE("devices that are mixed, missing or of another kind") {
  Machine machine;
  const FakeHip hip_runtime;  // in front of a real one
  hip_runtime.set_devices(0);
  machine.cuda.set_devices(2);
  Runtime runtime(machine.options());
  refuse_all(machine, runtime,
             {{"k.device is cuda:1 but q.device is cuda:0", [](FmhaArgs& a) { a.k.device.index = 1; }},
              {"o.device is cpu but q.device is cuda:0", [](FmhaArgs& a) { a.o.device = kCpu; }},
              {"lse.device is cuda:1", [](FmhaArgs& a) { a.lse->device.index = 1; }}});
  FmhaArgs args = attention();
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.o}) t->device.index = 2;
  const Error missing = error_of([&] { runtime.run(args); });
  CHECK_MESSAGE(has(missing.message, "cuda:2 does not exist; there are 2"), missing.message);
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.o}) t->device = {tj::DeviceKind::hip, 0};
  const Error hip = error_of([&] { runtime.run(args); });
  CHECK(hip.code == Code::not_found);
  CHECK_MESSAGE(has(hip.message, "hip:0"), hip.message);
  nothing_happened(machine);
}

TEST_CASE("a configuration, an op and a target that nobody has") {
  Machine machine;
  Runtime runtime(machine.options());
  CHECK(has(error_of([&] { runtime.prepare(FmhaConfig{DType::f16, 84, false, false}); }).message,
            "head_dim is 84; allowed: multiples of 8 up to 256"));
  CHECK(has(error_of([&] { runtime.prepare(FmhaConfig{DType::f32, 64, false, false}); }).message, "dtype is f32"));
  CHECK(has(error_of([&] { runtime.prepare(config_of(), {tj::DeviceKind::cuda, -1}); }).message,
            "cuda:-1 does not exist"));
  CHECK(has(error_of([&] { runtime.run("conv", nullptr); }).message, "op 'conv' is unknown; ops are "));
  CHECK(has(error_of([&] { runtime.run("fmha", nullptr); }).message, "args of 'fmha' is null"));
  struct Unknown {
    std::string target, then;
  };
  for (const Unknown& unknown : {Unknown{"sm_42", ": compute capability 4.2 is older than 8.0"},
                                 {"model:", "; allowed are sm_90a, sm_100"},
                                 {"", "; allowed are "},
                                 {"SM_90A", "; did you mean 'sm_90a'? Allowed are "},
                                 {"sm_90a ", "; did you mean 'sm_90a'? "},
                                 {"model:sm90a", "; did you mean 'model:sm_90a'? "},
                                 {"gfx1030", ": 'gfx1030' has no matrix instructions"},
                                 {"model:gfx906", ": 'gfx906' has no matrix instructions"},
                                 {"GFX1100", "; did you mean 'gfx1100'? "}}) {
    const Error error = error_of([&] { runtime.warm(config_of(), unknown.target); });
    CHECK(error.stage == Stage::target);
    CHECK_MESSAGE(has(error.message, "'" + unknown.target + "' is unknown" + unknown.then), error.message);
  }
  CHECK(has(error_of([&] { runtime.run("gem", nullptr); }).message, "delta_chunks; did you mean 'gemm'?"));
  nothing_happened(machine);
  CHECK(std::string(machine.cuda.log()).find("cuDevicePrimaryCtxRetain") == std::string::npos);
}

TEST_CASE("a device of the CPU's is the first, and time is taken of something") {
  Machine machine;
  Runtime runtime(machine.options());
  const Error second = error_of([&] { runtime.allocate({tj::DeviceKind::cpu, 1}, 64); });
  CHECK(second.code == Code::invalid_argument);
  CHECK_MESSAGE(has(second.message, "device cpu has index 1; allowed: 0"), second.message);
  const Error target = error_of([&] { runtime.target_of({tj::DeviceKind::cpu, 1}); });
  CHECK(target.code == Code::invalid_argument);
  CHECK_MESSAGE(has(target.message, "device cpu has index 1; allowed: 0"), target.message);
  const Error kind = error_of([&] { runtime.target_of({static_cast<tj::DeviceKind>(9), 0}); });
  CHECK_MESSAGE(has(kind.message, "device.kind is 9; allowed: 0 (cpu), 1 (cuda), 2 (hip)"), kind.message);
  const Error nothing = error_of([&] { runtime.time_ms(kCpu, {}); });
  CHECK(nothing.code == Code::invalid_argument);
  CHECK_MESSAGE(has(nothing.message, "work is empty"), nothing.message);
}

TEST_CASE("an unknown target is refused where it is set, by option or variable") {
  Machine machine;
  tj::Options options = machine.options();
  options.target = "sm_42";
  const Error by_option = error_of([&] { Runtime runtime(options); });
  CHECK(by_option.stage == Stage::target);
  CHECK(by_option.code == Code::invalid_argument);
  CHECK_MESSAGE(has(by_option.message, "'sm_42' is unknown: compute capability 4.2"), by_option.message);
  options.target.reset();
  ::setenv("TJ_TARGET", "sm_43", 1);
  CHECK(has(error_of([&] { Runtime runtime(options); }).message, "'sm_43'"));
  // The process-wide runtime is made by the first call that needs it, and each says the same.
  for (int i = 0; i < 2; ++i) CHECK(has(error_of([&] { tj::fmha(attention()); }).message, "'sm_43'"));
  ::unsetenv("TJ_TARGET");
  nothing_happened(machine);
}

TEST_CASE("a model target takes cpu tensors, a GPU target those of its GPU") {
  Machine machine;
  FmhaArgs on_cpu = attention();
  for (Tensor* t : {&on_cpu.q, &on_cpu.k, &on_cpu.v, &on_cpu.o}) t->device = kCpu;
  tj::Options options = machine.options();
  options.target = "model:sm_90a";
  {
    Runtime model(options);
    CHECK(model.default_device() == kCpu);
    CHECK(model.target_of(kCpu) == "model:sm_90a");
    const Error error = error_of([&] { model.run(attention()); });
    CHECK_MESSAGE(has(error.message, "q.device is cuda:0; allowed with a model target: cpu"), error.message);
    for (const int devices : {1, 0}) {  // what is wrong is the same with and without a GPU
      machine.cuda.set_devices(devices);
      const Error other = error_of([&] { model.prepare(config_of(), {tj::DeviceKind::cuda, 0}); });
      CHECK(other.stage == Stage::target);
      CHECK_MESSAGE(has(other.message, "'model:sm_90a' runs on the cpu, but the device is cuda:0"), other.message);
    }
    CHECK(std::string(machine.cuda.log()) == "");  // the model asks no driver
  }
  machine.cuda.set_devices(1);
  options.target = "sm_90a";
  Runtime forced(options);
  CHECK(forced.target_of({}) == "sm_90a");
  CHECK(has(error_of([&] { forced.run(on_cpu); }).message, "q.device is cpu; allowed with a GPU target"));
  CHECK(has(error_of([&] { forced.prepare(config_of(), kCpu); }).message, "'sm_90a' does not run on cpu"));
  nothing_happened(machine);
}

TEST_CASE("a device of two archs runs the one that is asked for, and no other device's") {
  Machine machine;
  machine.cuda.set_capability(9, 0);
  tj::Options options = machine.options();
  options.target = "sm_90";  // the same chip as sm_90a's, by other instructions
  {
    Runtime other(options);
    CHECK(other.target_of({}) == "sm_90");
  }
  options.target = "sm_80";
  Runtime wrong(options);
  CHECK(has(error_of([&] { wrong.target_of({}); }).message, "'sm_80' does not run on cuda:0 (sm_90a)"));
  machine.cuda.set_capability(8, 7);
  Runtime orin(options);
  CHECK(orin.target_of({}) == "sm_80");
}

TEST_CASE("a GPU that no arch serves is named, whether a target is set or not") {
  for (const auto& [major, minor] : {std::pair<int, int>{1, 0}, {7, 5}}) {
    Machine machine;
    machine.cuda.set_capability(major, minor);
    const std::string capability = "compute capability " + std::to_string(major) + "." + std::to_string(minor);
    CAPTURE(capability);
    tj::Options options = machine.options();
    for (const char* target : {"", "sm_90a"}) {
      options.target = target;
      Runtime runtime(options);
      const Error error = error_of([&] { runtime.run(attention()); });
      CHECK(error.stage == Stage::target);
      CHECK_MESSAGE(has(error.message, capability), error.message);
      CHECK_MESSAGE(has(error.message, "served are 8.0, "), error.message);
      CHECK(error_of([&] { runtime.prepare(config_of()); }).stage == Stage::target);
      CHECK(error_of([&] { runtime.target_of({}); }).stage == Stage::target);
    }
    nothing_happened(machine);
  }
}

TEST_CASE("after bad input the same runtime serves good input") {
  Machine machine;
  Runtime runtime(machine.options());
  FmhaArgs bad = attention();
  bad.q.data = nullptr;
  CHECK(error_of([&] { runtime.run(bad); }).code == Code::invalid_argument);
  runtime.run(attention());
  CHECK(error_of([&] { runtime.run(bad); }).code == Code::invalid_argument);  // also when the kernel is there
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
}

}  // namespace
