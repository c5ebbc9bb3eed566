// Protects calls with sizes of 0 at the driver: what asks for nothing launches nothing, also in a capture, and what
// lacks keys or a K names maps that the copy engine takes.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <initializer_list>

#include <tilejit/preparation.hpp>

#include "ops/fmha/params.cuh"
#include "ops/gemm/params.cuh"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj;
using namespace tj::test;

/// A map as the fake driver keeps it: its address, its rank, dimensions and strides.
void check_map(const TensorMap& bytes) {
  std::array<std::uint64_t, 16> words{};
  std::memcpy(words.data(), &bytes, sizeof(words));
  CHECK(words[0] != 0);
  CHECK(words[0] % 16 == 0);
  const auto rank = static_cast<std::size_t>(words[1] >> 8 & 0xff);
  for (std::size_t d = 0; d < rank; ++d) {
    CHECK((words[2 + d] >> 16) != 0);
    if (d > 0) CHECK(words[7 + d] % 16 == 0);
  }
}

template <class Params, class Args>
Params launched(Machine& machine, Runtime& runtime, const Args& args) {
  machine.cuda.set_param_bytes(sizeof(Params));
  runtime.run(args);
  Params params{};
  REQUIRE(machine.cuda.last_params(&params, sizeof(params)) == sizeof(params));
  return params;
}

void forget(std::initializer_list<Tensor*> tensors) {
  for (Tensor* const each : tensors) each->data = nullptr;
}

TEST_CASE("a call that asks for nothing launches nothing, also where a stream records a graph") {
  Machine machine;
  Runtime runtime(machine.options());
  for (const Shape& shape : {Shape{2, 4, 2, 0, 600, 128}, Shape{0, 4, 2, 300, 600, 128}, Shape{2, 4, 2, 0, 0, 128}}) {
    FmhaArgs args = attention(shape);
    forget({&args.q, &args.o});
    if (shape.batches == 0 || shape.keys == 0) forget({&args.k, &args.v});
    machine.cuda.set_capture(1);
    runtime.run(args);
    machine.cuda.set_capture(0);
    const Plan plan = runtime.plan(args);
    plan.run({args.q.data, args.k.data, args.v.data, args.o.data});
    CHECK(runtime.prepare(args).name.empty());
    Preparation list(runtime);
    CHECK(list.add(args).progress().kernels == 0);
  }
  GemmArgs product = square_product(64);
  product.d.shape[0] = product.a.shape[0] = 0;
  runtime.run(product);
  CHECK(machine.nvrtc.compiles() == 0);
  CHECK(count_calls(machine.cuda, "cuModuleLoadData") == 0);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 0);
  const Error error = error_of([&] { runtime.tune(product); });
  CHECK(has(error.message, "the call of 'gemm' writes nothing"));
}

TEST_CASE("attention without keys names maps that the driver takes, whatever strides such tensors have") {
  Machine machine;
  Runtime runtime(machine.options());
  for (const Layout layout : {Layout::bhsd, Layout::bshd}) {
    FmhaArgs args = attention({2, 4, 2, 300, 0, 128}, false, layout);
    forget({&args.k, &args.v});
    args.k.strides = {0, 0, 0, 0}, args.v.strides = {std::int64_t{1} << 62, -5, 7, 9};
    const auto params = launched<ops::fmha::Params>(machine, runtime, args);
    CHECK(params.keys == 0);
    for (const TensorMap* map : {&params.q, &params.k, &params.v}) check_map(*map);
    const Plan plan = runtime.plan(args);
    plan.run({args.q.data, nullptr, nullptr, args.o.data});
    ops::fmha::Params planned{};
    REQUIRE(machine.cuda.last_params(&planned, sizeof(planned)) == sizeof(planned));
    for (const TensorMap* map : {&planned.q, &planned.k, &planned.v}) check_map(*map);
    CHECK(std::memcmp(&planned, &params, sizeof(params)) == 0);
  }
  FmhaArgs lists = attention({1, 4, 2, 300, 0, 128});
  const auto list = [](int place, std::initializer_list<std::int64_t> sizes) {
    return Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep),
                              {DeviceKind::cuda, 0}, DType::i32, sizes);
  };
  for (Tensor* const each : {&lists.q, &lists.o})
    *each = Tensor::contiguous(each->data, each->device, DType::f16, {300, 4, 128});
  for (Tensor* const each : {&lists.k, &lists.v})
    *each = Tensor::contiguous(nullptr, each->device, DType::f16, {0, 2, 128});
  lists.cu_seqlens_q = list(5, {3}), lists.cu_seqlens_k = list(6, {3});
  const auto params = launched<ops::fmha::Params>(machine, runtime, lists);
  for (const TensorMap* map : {&params.q, &params.k, &params.v}) check_map(*map);
}

TEST_CASE("a product over a K of 0 names maps that the driver takes, where d begins anywhere") {
  Machine machine;
  Runtime runtime(machine.options());
  GemmArgs args = square_product(200);
  args.a.shape[1] = args.b.shape[1] = 0;
  args.a.dtype = args.b.dtype = DType::e4m3;  // others are read by threads, as K is short
  forget({&args.a, &args.b});
  int launches = 0;
  for (const int shift : {0, 2}) {
    args.d.data = static_cast<char*>(args.d.data) + shift;
    const auto params = launched<ops::gemm::Params>(machine, runtime, args);
    CHECK(params.k_blocks == 0);
    for (const TensorMap* map : {&params.a, &params.b}) check_map(*map);
    runtime.plan(args).run({nullptr, nullptr, args.d.data});
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == (launches += 2));
  }
}

}  // namespace
