// Protects what production does to a runtime: contexts that are destroyed under it, drivers older than the toolkit, and
// devices whose memory is full. Each is an error by name, leaves nothing behind, and the next call that can work does.
#include <doctest/doctest.h>

#include <string>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Code;
using tj::Error;
using tj::KernelOrigin;
using tj::Runtime;

constexpr int kNoMemory = 2, kInvalidBinary = 200, kInvalidContext = 201, kContextDestroyed = 709;

TEST_CASE("a context that was destroyed under the library: the next call loads its kernels anew, and nothing twice") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    const auto lost = runtime.allocate({tj::DeviceKind::cuda, 0}, 1000);
    const tj::FmhaArgs args = attention();
    void* addresses[] = {args.q.data, args.k.data, args.v.data, args.o.data};
    runtime.run(args);
    runtime.run(square_product(512));
    const tj::Plan plan = runtime.plan(args);
    const int compiles = machine.nvrtc.compiles();
    for (int round = 1; round <= 3; ++round) {
      CAPTURE(round);
      REQUIRE(machine.cuda.destroy_context(0) == 0);
      if (round == 2) {  // another user of the process was faster: the context has its old address
        void* context = nullptr;
        REQUIRE(machine.cuda.retain(&context, 0) == 0);
      }
      const int launches = count_calls(machine.cuda, "cuLaunchKernelEx"),
                loads = count_calls(machine.cuda, "cuModuleLoadData");
      plan.run(addresses);
      runtime.run(args);
      runtime.run(square_product(512));
      CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == launches + 3);
      CHECK(count_calls(machine.cuda, "cuModuleLoadData") == loads + 2);
      if (round == 2) REQUIRE(machine.cuda.release(0) == 0);
      const auto held = runtime.allocate({tj::DeviceKind::cuda, 0}, 1000);
    }
    CHECK(machine.nvrtc.compiles() == compiles);
    machine.cuda.destroy_context(0);
    machine.cuda.fail("cuModuleLoadData", count_calls(machine.cuda, "cuModuleLoadData") + 1, kNoMemory);
    CHECK(error_of([&] { runtime.run(args); }).code == Code::out_of_memory);
    runtime.run(args);
    CHECK(machine.warnings.empty());
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("launches in a context that is no longer there, such as of an old stream, are an error by name") {
  for (const int number : {kContextDestroyed, kInvalidContext}) {
    Machine machine;
    {
      Runtime runtime(machine.options());
      runtime.run(attention());
      const tj::Plan plan = runtime.plan(attention());
      for (const char* call : {"cuLaunchKernelEx", "cuCtxPushCurrent"}) {
        CAPTURE(call);
        for (const bool by_plan : {false, true}) {
          machine.cuda.fail(call, count_calls(machine.cuda, call) + 1, number);
          const tj::FmhaArgs args = attention();
          void* addresses[] = {args.q.data, args.k.data, args.v.data, args.o.data};
          const Error error = error_of([&] {
            if (by_plan)
              plan.run(addresses);
            else
              runtime.run(args);
          });
          CHECK(error.code == Code::driver_error);
          CHECK_MESSAGE(has(error.message, std::string(call) + " failed with "), error.message);
          CHECK_MESSAGE(has(error.message, "use a stream of the device's primary context that still exists"),
                        error.message);
        }
      }
      runtime.run(attention());  // of a context that is there
    }
    CHECK(std::string(machine.cuda.leaks()) == "");
  }
}

TEST_CASE(
    "a driver older than the toolkit: what it refuses is an error that names the remedy, and is compiled no more than "
    "once anew") {
  Machine machine;
  Runtime first(machine.options());
  machine.cuda.fail("cuModuleLoadData", 1, kInvalidBinary);
  const Error error = error_of([&] { first.prepare(attention()); });
  CHECK(error.code == Code::unsupported);
  CHECK_MESSAGE(has(error.message, "newer than the driver"), error.message);
  CHECK_MESSAGE(has(error.message, "update the driver"), error.message);
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK(machine.warnings.empty());
  CHECK(first.prepare(attention()).origin == KernelOrigin::disk);  // under a driver that takes it
}

TEST_CASE(
    "a device whose memory is full at any allocation: an error with a code of its own, no leak, and the next call "
    "runs") {
  Machine machine;
  const auto matrix = [](int place, std::int64_t rows, std::int64_t columns) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep),
                                  {tj::DeviceKind::cuda, 0}, tj::DType::f16, {rows, columns});
  };
  tj::GemmArgs in_parts;  // of K, whose sums lie in a workspace
  in_parts.a = matrix(0, 128, 16384);
  in_parts.b = matrix(1, 128, 16384);
  in_parts.d = matrix(2, 128, 128);
  const auto work_on = [&](Runtime& runtime) {
    const auto held = runtime.allocate({tj::DeviceKind::cuda, 0}, 1000);
    runtime.run(attention());
    runtime.run(in_parts);
    const tj::Plan plan = runtime.plan(in_parts);
    plan.run({in_parts.a.data, in_parts.b.data, in_parts.d.data});
  };
  {
    Runtime runtime(machine.options());
    work_on(runtime);
  }
  const int compiles = machine.nvrtc.compiles();
  int refused = 0;
  for (const auto& use : uses_of(machine.cuda.log())) {
    const std::string call = use.first;
    const int nth = use.second;
    // An allocation from the pool is one of memory in the fake's books, too.
    const bool allocates = has(call, "Alloc") || has(call, "ModuleLoad") || has(call, "CtxRetain");
    if (!allocates) continue;
    CAPTURE(call);
    CAPTURE(nth);
    machine.cuda.reset();
    machine.cuda.fail(call.c_str(), nth, kNoMemory);
    {
      Runtime runtime(machine.options());
      const auto work = [&] { work_on(runtime); };
      CHECK(error_of(work).code == Code::out_of_memory);
      ++refused;
      work();
    }
    CHECK(std::string(machine.cuda.leaks()) == "");
  }
  CHECK(refused >= 9);
  CHECK(machine.nvrtc.compiles() == compiles);
}

}  // namespace
