// Protects what gemm refuses with a gate, by the argument's name, its value and what is allowed; and that archs whose
// node bodies have no gate refuse one.
#include <doctest/doctest.h>

#include <functional>

#include "arch/arch.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/expect.hpp"

using namespace tj;

namespace {

using testing::error_of;
using testing::has;

alignas(256) std::uint16_t memory_a[1 << 12], memory_b[1 << 13];
alignas(256) float memory_c[1 << 12], memory_d[1 << 12], memory_bias[1 << 8];
constexpr Device kCpu{DeviceKind::cpu, 0};

/// M 24, N 40, K 32, f16 to f32, with a bias and a gate: d has 20 columns.
void gated(GemmArgs& args) {
  args.a = Tensor::contiguous(memory_a, kCpu, DType::f16, {24, 32});
  args.b = Tensor::contiguous(memory_b, kCpu, DType::f16, {40, 32});
  args.d = Tensor::contiguous(memory_d, kCpu, DType::f32, {24, 20});
  args.bias = Tensor::contiguous(memory_bias, kCpu, DType::f32, {40});
  args.gate = Activation::silu;
}

void refused(const std::function<void(GemmArgs&)>& change, Code code, std::initializer_list<const char*> parts) {
  GemmArgs args;
  gated(args);
  change(args);
  testing::check_argument_error(error_of([&] { ops::validate(args, true); }), code, parts);
}

void accepted(const std::function<void(GemmArgs&)>& change) {
  GemmArgs args;
  gated(args);
  change(args);
  CHECK_NOTHROW(ops::validate(args, true));
}

}  // namespace

TEST_CASE("what does not go with a gate is named with its value and what is allowed") {
  constexpr Code bad = Code::invalid_argument, unsupported = Code::unsupported;
  accepted([](GemmArgs&) {});
  accepted([](GemmArgs& g) { g.gate_interleaved = true; });
  refused([](GemmArgs& g) { g.gate = static_cast<Activation>(5); }, bad, {"gate is 5", "3 (silu)"});
  refused([](GemmArgs& g) { g.gate = static_cast<Activation>(-1); }, bad, {"gate is -1"});
  refused([](GemmArgs& g) { g.activation = Activation::relu; }, unsupported,
          {"activation is 1", "with a gate: 0 (none)"});
  refused([](GemmArgs& g) { g.beta = 1; }, unsupported, {"beta is not 0", "with a gate: 0"});
  refused([](GemmArgs& g) { g.b.shape[0] = 39; }, bad, {"N (rows of b) is 39", "with a gate: even numbers"});
  refused([](GemmArgs& g) { g.d = Tensor::contiguous(memory_d, kCpu, DType::f32, {24, 40}); }, bad,
          {"b.shape[0] (N) is 40", "allowed: 80", "twice d's columns"});
  refused([](GemmArgs& g) { g.bias = Tensor::contiguous(memory_bias, kCpu, DType::f32, {20}); }, bad,
          {"bias.shape[0] (N) is 20", "allowed: 40"});
  refused([](GemmArgs& g) { g.b = Tensor::strided(memory_b, kCpu, DType::f16, {40, 32}, {1, 40}); }, unsupported,
          {"b.strides[1] (K) is 40", "with a gate: 1"});
}

TEST_CASE("a gate with scales of blocks: halves of b have scales of their own") {
  constexpr Code unsupported = Code::unsupported;
  const auto with = [](std::int64_t n, std::int64_t rows, bool interleaved = false) {
    return [=](GemmArgs& g) {
      g.gate = Activation::silu;
      g.gate_interleaved = interleaved;
      g.beta = 0;
      g.bias.reset();
      g.a = Tensor::contiguous(memory_a, kCpu, DType::e4m3, {4, 16});
      g.b = Tensor::contiguous(memory_b, kCpu, DType::e4m3, {n, 16});
      g.d = Tensor::contiguous(memory_d, kCpu, DType::f32, {4, n / 2});
      g.scale_a = Tensor::contiguous(memory_c, kCpu, DType::f32, {4, 1});
      g.scale_b = Tensor::strided(memory_bias, kCpu, DType::f32, {rows, 1}, {1, rows});
    };
  };
  accepted(with(256, 2));
  accepted(with(24, 24));
  refused(with(192, 2), unsupported, {"b.shape[0] is 192", "scales of 128 rows", "multiples of 256"});
  refused(with(20, 20), unsupported, {"b.shape[0] is 20", "contiguous in N", "multiples of 8"});
  refused(with(256, 2, true), unsupported, {"gate_interleaved is true", "with scales of blocks: false"});
}

TEST_CASE("archs whose node bodies have no gate refuse one by the argument's name") {
  ops::GemmKernel kernel;
  kernel.gate = Activation::silu;
  for (const char* name : {"sm_80", "sm_100a", "gfx942", "gfx1100"}) {
    const Error error = error_of([&] { ops::choose_gemm({128, 256, 512, 1}, kernel, *arch::find(name)); });
    CHECK(error.code == Code::unsupported);
    CHECK_MESSAGE(has(error.message, "gate is silu; allowed on"), error.message);
  }
}
