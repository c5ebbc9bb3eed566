// Protects workspaces of plans whose blocks draw or share tiles: under TJ_CHECK a run refuses counters that an aborted
// launch has left, by op and counter, before anything is launched. Without it nobody looks.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::Runtime;

constexpr std::size_t kAlignment = 256;

/// Memory of this process, which the fake takes for a device's.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes) : bytes_(bytes + kAlignment) {}
  std::uint32_t* begin() {
    const auto first = (reinterpret_cast<std::uintptr_t>(bytes_.data()) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<std::uint32_t*>(first);
  }

 private:
  std::vector<std::byte> bytes_;
};

tj::Options options_of(Machine& machine, bool check) {
  machine.cuda.set_param_bytes(0);
  tj::Options options = machine.options();
  options.check_lists = check;
  return options;
}

tj::FmhaArgs drawn() { return attention({1, 32, 32, 2048, 2048, 128}, true); }

std::vector<void*> addresses_of(const tj::FmhaArgs& args) {
  return {args.q.data, args.k.data, args.v.data, args.o.data};
}

TEST_CASE("a counter that is left is named before the launch, where calls are checked") {
  Machine machine;
  Runtime runtime(options_of(machine, true));
  const tj::FmhaArgs args = drawn();
  const tj::Plan plan = runtime.plan(args);
  REQUIRE(plan.workspace_zeroed());
  Workspace workspace(plan.workspace_bytes());
  plan.run(addresses_of(args), {}, workspace.begin());
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  *workspace.begin() = 77;
  const std::string error = error_of([&] { plan.run(addresses_of(args), {}, workspace.begin()); }).message;
  CHECK(has(error, "fmha: counter 0 of workspace "));
  CHECK(has(error, " is 77, of all blocks together; allowed: 0. A run before this one was aborted"));
  CHECK(has(error, " bytes from byte 0 on, and run again"));
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  *workspace.begin() = 0;
  plan.run(addresses_of(args), {}, workspace.begin());
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 2);
}

TEST_CASE("counters of single blocks lie behind the first one, all of them behind sums of steps") {
  Machine machine;
  Runtime runtime(options_of(machine, true));
  tj::GemmArgs args;
  const auto matrix = [](int place, std::int64_t rows, std::int64_t columns) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep),
                                  {tj::DeviceKind::cuda, 0}, tj::DType::f16, {rows, columns});
  };
  args.a = matrix(0, 1990, 17912), args.b = matrix(1, 5120, 17912), args.d = matrix(2, 1990, 5120);  // a split walk
  const tj::Plan plan = runtime.plan(args);
  REQUIRE(plan.workspace_zeroed());
  Workspace workspace(plan.workspace_bytes());
  const std::vector<void*> addresses = {args.a.data, args.b.data, args.d.data};
  plan.run(addresses, {}, workspace.begin());
  workspace.begin()[5] = 3;
  CHECK(has(error_of([&] { plan.run(addresses, {}, workspace.begin()); }).message, "gemm: counter 5 of workspace "));
  CHECK(has(error_of([&] { plan.run(addresses, {}, workspace.begin()); }).message,
            " is 3, of single blocks; allowed: 0"));
}

TEST_CASE("nobody looks without TJ_CHECK, in a pool's memory, which is zeroed, or inside a capture") {
  Machine machine;
  Runtime quick(options_of(machine, false)), checked(options_of(machine, true));
  const tj::FmhaArgs args = drawn();
  const tj::Plan plan = quick.plan(args), looked_at = checked.plan(args);
  Workspace workspace(plan.workspace_bytes());
  *workspace.begin() = 77;
  plan.run(addresses_of(args), {}, workspace.begin());
  CHECK(count_calls(machine.cuda, "cuMemcpyDtoH") == 0);
  looked_at.run(addresses_of(args));
  machine.cuda.set_capture(1);
  looked_at.run(addresses_of(args), {}, workspace.begin());
  machine.cuda.set_capture(0);
  CHECK(count_calls(machine.cuda, "cuMemcpyDtoH") == 0);
  CHECK(has(error_of([&] { looked_at.run(addresses_of(args), {}, workspace.begin()); }).message, " is 77,"));
}

}  // namespace
