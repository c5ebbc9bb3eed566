// Protects what gemm refuses where d is quantised, by the argument's name, its value and what is allowed; and that
// archs whose node bodies do not quantise refuse it.
#include <doctest/doctest.h>

#include <functional>

#include <tilejit/tilejit.h>

#include "arch/arch.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/expect.hpp"

using namespace tj;

namespace {

using testing::error_of;
using testing::has;

alignas(256) std::uint16_t memory_a[1 << 12], memory_b[1 << 14];
alignas(256) std::uint8_t memory_d[1 << 14];
alignas(256) float memory_scale[1 << 10], memory_bias[1 << 9];
constexpr Device kCpu{DeviceKind::cpu, 0};

/// M 24, N 300, K 32, f16 to e4m3, with a bias.
void quantised(GemmArgs& args) {
  args.a = Tensor::contiguous(memory_a, kCpu, DType::f16, {24, 32});
  args.b = Tensor::contiguous(memory_b, kCpu, DType::f16, {300, 32});
  args.d = Tensor::contiguous(memory_d, kCpu, DType::e4m3, {24, 300});
  args.bias = Tensor::contiguous(memory_bias, kCpu, DType::f16, {300});
  args.scale_d = Tensor::strided(memory_scale, kCpu, DType::f32, {24, 3}, {1, 24});
}

void refused(const std::function<void(GemmArgs&)>& change, Code code, std::initializer_list<const char*> parts) {
  GemmArgs args;
  quantised(args);
  change(args);
  testing::check_argument_error(error_of([&] { ops::validate(args, true); }), code, parts);
}

void accepted(const std::function<void(GemmArgs&)>& change) {
  GemmArgs args;
  quantised(args);
  change(args);
  CHECK_NOTHROW(ops::validate(args, true));
}

}  // namespace

TEST_CASE("what does not go with a d of e4m3 is named with its value and what is allowed") {
  constexpr Code bad = Code::invalid_argument, unsupported = Code::unsupported;
  accepted([](GemmArgs&) {});
  accepted([](GemmArgs& g) { g.scale_d = Tensor::contiguous(memory_scale, kCpu, DType::f32, {24, 3}); });
  accepted([](GemmArgs& g) {
    g.scale_d = Tensor::contiguous(memory_scale, kCpu, DType::i32, {24, 1});
    g.powers_of_two = true;
  });
  refused([](GemmArgs& g) { g.scale_d.reset(); }, bad, {"d.dtype is e4m3 and scale_d is absent", "f16, bf16, f32"});
  refused([](GemmArgs& g) { g.d.dtype = DType::f16; }, bad, {"scale_d is given with d.dtype f16", "allowed with e4m3"});
  refused([](GemmArgs& g) { g.beta = 2; }, unsupported, {"beta is 2", "with d of e4m3: 0"});
  refused([](GemmArgs& g) { g.bias->dtype = DType::e4m3; }, bad, {"bias.dtype is e4m3", "f16, with d of e4m3"});
  refused([](GemmArgs& g) { g.scale_d->dtype = DType::f16; }, bad, {"scale_d.dtype is f16", "f32, or i32"});
  refused([](GemmArgs& g) { g.scale_d = Tensor::contiguous(memory_scale, kCpu, DType::i32, {24, 1}); }, bad,
          {"scale_d.dtype is i32", "powers_of_two is false"});
  refused([](GemmArgs& g) { g.scale_d->shape[0] = 23; }, bad, {"scale_d.shape[0] (rows) is 23", "allowed: 24"});
  refused([](GemmArgs& g) { g.scale_d->shape[1] = 4; }, bad, {"scale_d.shape[1] (blocks of N) is 4", "allowed: 3"});
  refused([](GemmArgs& g) { g.scale_d->rank = 1; }, bad, {"scale_d.rank is 1", "[M, ceil(N / 128)]"});
  refused([](GemmArgs& g) { g.scale_d->device = {DeviceKind::cuda, 0}; }, bad, {"scale_d.device is cuda:0"});
  refused([](GemmArgs& g) { g.scale_d->strides = {1, 3}; }, unsupported, {"scale_d.strides", "no two elements"});
  refused([](GemmArgs& g) { g.scale_d->data = memory_d; }, unsupported, {"overlaps", "d at"});
  refused([](GemmArgs& g) { g.scale_d->data = memory_a; }, unsupported, {"scale_d at", "overlaps a"});
  refused([](GemmArgs& g) { g.scale_d->data = memory_b; }, unsupported, {"scale_d at", "overlaps b"});
  refused([](GemmArgs& g) { g.scale_d->data = memory_bias; }, unsupported, {"scale_d at", "overlaps bias"});
}

TEST_CASE("a configuration without an addend, and archs that do not quantise") {
  GemmConfig config;
  config.out = DType::e4m3;
  CHECK_NOTHROW(ops::validate(config));
  config.add_c = true;
  CHECK(has(error_of([&] { ops::validate(config); }).message, "add_c is true; allowed with out e4m3: false"));
  ops::GemmKernel kernel;
  kernel.out = DType::e4m3;
  for (const char* name : {"sm_80", "sm_100a", "gfx942", "gfx1100"}) {
    const Error error = error_of([&] { ops::choose_gemm({128, 256, 512, 1}, kernel, *arch::find(name)); });
    CHECK(error.code == Code::unsupported);
    CHECK_MESSAGE(has(error.message, "d.dtype is e4m3; allowed on"), error.message);
  }
}

TEST_CASE("rungs of the ladder neither quantise nor have a gate") {
  GemmConfig config{.m = 64, .n = 256, .k = 64};
  const auto refusal = [&] {
    return error_of([&] { ops::rung_kernel(ops::gemm_op(), ops::gemm_problem_key(config), 5, *arch::find("sm_90a")); })
        .message;
  };
  config.out = DType::e4m3;
  CHECK(has(refusal(), "rung is v5; allowed with d of e4m3: 0 (none), 10 (v10)"));
  config.out = DType::f16;
  config.gate = Activation::silu;
  CHECK(has(refusal(), "rung is v5; allowed with a gate: 0 (none), 10 (v10)"));
}

TEST_CASE("flags that do not go with e4m3 are named, and other tiles than those of whole blocks are not made") {
  const auto refusal = [](const ops::Flags& flags) {
    return error_of([&] { static_cast<void>(ops::gemm_op().requests(flags)); }).message;
  };
  CHECK(has(refusal({{"out", {"e4m3"}}, {"add-c", {"true"}}}), "--out is 'e4m3'; allowed with --add-c true"));
  CHECK(has(refusal({{"out", {"e4m3"}}, {"walk", {"split"}}}), "--out is 'e4m3'; allowed with --walk split"));
  CHECK(has(refusal({{"out", {"e4m3"}}, {"tile", {"128x192x64"}}}), "--tile is '128x192x64'"));
  CHECK(ops::gemm_op().requests({{"out", {"e4m3"}}, {"tile", {"128x128x64"}}}).size() == 2);
}

TEST_CASE("the structure of C has scale_d, and a reserved member that is 0") {
  const auto tensor = [](const Tensor& from) {
    tj_tensor t{};
    t.size = sizeof t;
    t.data = from.data;
    t.device = {TJ_CPU, 0};
    t.dtype = static_cast<std::int32_t>(from.dtype);
    t.rank = from.rank;
    for (std::size_t i = 0; i < TJ_MAX_RANK; ++i) t.shape[i] = from.shape[i], t.strides[i] = from.strides[i];
    return t;
  };
  GemmArgs args;
  quantised(args);
  const tj_tensor a = tensor(args.a), b = tensor(args.b), d = tensor(args.d), scale = tensor(*args.scale_d);
  tj_gemm_args c{};
  c.size = sizeof c;
  c.a = &a;
  c.b = &b;
  c.d = &d;
  c.scale_d = &scale;
  c.powers_of_two = 1;
  const GemmArgs made = ops::gemm_from_c(&c);
  CHECK(made.scale_d->data == memory_scale);
  CHECK(made.powers_of_two);
  c.reserved = 1;
  CHECK_THROWS_WITH_AS(static_cast<void>(ops::gemm_from_c(&c)), doctest::Contains("args.reserved is 1"), Error);
}
