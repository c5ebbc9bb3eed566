// Protects a launch's parameters: they follow from the call alone. Plans find addresses in them by comparing the bytes
// of two launches.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>

#include "ops/gemm/gemm.hpp"

using namespace tj;

namespace {

/// Leaves this byte where the next call has its local variables.
[[gnu::noinline]] void fill_stack(int byte) {
  volatile unsigned char place[8192];
  for (volatile unsigned char& each : place) each = static_cast<unsigned char>(byte);
}

[[gnu::noinline]] ops::LaunchPlan planned(const GemmArgs& args, const ops::GemmLaunch& launch, int left_on_stack) {
  ops::LaunchPlan plan;
  fill_stack(left_on_stack);
  ops::gemm_plan(args, {}, launch, plan);
  return plan;
}

TEST_CASE("the parameters of a launch have no bytes of their own making, whoever copies the operands") {
  const auto tensor = [](std::uintptr_t place, std::int64_t rows, std::int64_t columns) {
    return Tensor::contiguous(reinterpret_cast<void*>(place), {DeviceKind::cuda, 0}, DType::f16, {rows, columns});
  };
  GemmArgs args;
  args.a = tensor(1 << 20, 64, 96);
  args.b = tensor(2 << 20, 32, 96);
  args.d = tensor(3 << 20, 64, 32);
  for (const bool by_threads : {false, true}) {
    CAPTURE(by_threads);
    const ops::GemmLaunch launch{.by_threads = by_threads};
    const ops::LaunchPlan first = planned(args, launch, 0x55), second = planned(args, launch, 0xaa);
    CHECK(first.params_bytes == second.params_bytes);
    CHECK(first.params == second.params);
  }
}

}  // namespace
