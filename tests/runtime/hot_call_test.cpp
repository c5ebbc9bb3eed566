// Protects the hot call: no allocation and no driver call beyond three tensor maps, one look at the current context and
// the launch. And the table behind it when memory runs out.
#include <doctest/doctest.h>

#include <new>

#include "custom/sample_kernel.hpp"
#include "kernel_table.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"
#include "runtime/runtime_fixture.hpp"
#include "support/allocations.hpp"
#include "support/full.hpp"
#include "tuning/tune.hpp"

namespace {

using namespace tj::test;
using tj::FmhaArgs;
using tj::Runtime;

long allocations_of(Machine& machine, Runtime& runtime, const FmhaArgs& args) {
  machine.cuda.record(0);  // the fake's own books allocate
  const long before = tj::testing::allocations();
  runtime.run(args);
  const long after = tj::testing::allocations();
  machine.cuda.record(1);
  return after - before;
}

std::string calls_of(Machine& machine, Runtime& runtime, const FmhaArgs& args) {
  const std::string before = machine.cuda.log();
  runtime.run(args);
  std::string names;
  std::istringstream lines(std::string(machine.cuda.log()).substr(before.size()));
  for (std::string line; std::getline(lines, line);) names += line.substr(0, line.find(' ')) + "\n";
  return names;
}

const std::string kMaps =  // of q, k, v and o
    "cuTensorMapEncodeTiled\ncuTensorMapEncodeTiled\ncuTensorMapEncodeTiled\ncuTensorMapEncodeTiled\n";

TEST_CASE("a hot call allocates nothing, whatever the arguments of the same kernel") {
  Machine machine;
  Runtime runtime(machine.options());
  const Shape small{1, 1, 1, 65, 160, 128}, large{4, 32, 8, 4097, 16384, 128};
  FmhaArgs with_lse = attention(large);
  with_lse.lse = lse_of(large);
  with_lse.scale = 0.5f;
  runtime.run(attention(small));
  for (const FmhaArgs& args : {attention(small), attention(large), attention(large, false, Layout::bshd), with_lse})
    CHECK(allocations_of(machine, runtime, args) == 0);
  // Also with several kernels to tell apart.
  for (const tj::DType dtype : {tj::DType::f16, tj::DType::bf16})
    for (const bool causal : {true, false})
      for (const std::int64_t head_dim : {64, 128}) {
        const Shape shape{2, 4, 2, 300, 500, head_dim};
        runtime.run(attention(shape, causal, Layout::bhsd, dtype));
        CHECK(allocations_of(machine, runtime, attention(shape, causal, Layout::bhsd, dtype)) == 0);
      }
  CHECK(allocations_of(machine, runtime, attention(small)) == 0);
  // Few queries: keys in parts, and a second launch that merges them.
  machine.cuda.set_param_bytes(0);  // kernels of two kinds
  const Shape few{2, 8, 2, 1, 5000, 128};
  runtime.run(attention(few));
  CHECK(allocations_of(machine, runtime, attention(few)) <= 1);  // the handle of its workspace
}

TEST_CASE("a hot launch of a user's own kernel allocates nothing, tensor maps included") {
  Machine machine;
  Runtime runtime(machine.options());
  const SampleKernel sample;
  const tj::custom::Kernel kernel(runtime, sample.description);
  const tj::Device gpu{tj::DeviceKind::cuda, 0};
  const tj::Tensor tensor = tensor_at(0, tj::DType::f16, Layout::bhsd, 1, 1, 300, 128);
  sample::gemm_gelu::Params params{};
  machine.cuda.set_param_bytes(sizeof(params));
  kernel.launch(gpu, params, 1);
  machine.cuda.record(0);
  const long before = tj::testing::allocations();
  params.a = kernel.tensor_map(tensor, {{1, 1, 128, 64}});
  kernel.launch(gpu, params, 1);
  const long after = tj::testing::allocations();
  machine.cuda.record(1);
  CHECK(after == before);
}

/// A target with options has an arch of its own, made when it was named.
void hot_products_allocate_nothing(const char* target) {
  Machine machine;
  tj::Options options = machine.options();
  if (target[0] != 0) options.target = target;
  Runtime runtime(options);
  machine.cuda.set_param_bytes(sizeof(tj::ops::gemm::Params));
  const tj::Device gpu{tj::DeviceKind::cuda, 0};
  const auto matrix = [&](int place, std::int64_t rows, std::int64_t columns) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), gpu,
                                  tj::DType::f16, {rows, columns});
  };
  for (const std::int64_t m : {1, 16, 128, 4096})
    for (const std::int64_t n : {64, 4096}) {
      tj::GemmArgs args;
      args.a = matrix(0, m, 512);
      args.b = matrix(1, n, 512);
      args.d = matrix(2, m, n);
      runtime.run(args);
      machine.cuda.record(0);
      const long before = tj::testing::allocations();
      runtime.run(args);
      const long after = tj::testing::allocations();
      machine.cuda.record(1);
      CAPTURE(m);
      CAPTURE(n);
      CHECK(after == before);
    }
}

TEST_CASE("a hot matrix product allocates nothing, whatever the sizes that choose its tile") {
  for (const char* target : {"", "sm_90", "sm_90+smem=99K"}) {
    if (*target != '\0' && tj::testing::left_out()) continue;
    CAPTURE(target);
    hot_products_allocate_nothing(target);
  }
}

TEST_CASE("a hot matrix product with a measured tile allocates nothing and reads no file") {
  Machine machine;
  machine.cuda.set_param_bytes(0);  // kernels of several kinds
  machine.cuda.set_block_ms(0.001);
  const tj::Device gpu{tj::DeviceKind::cuda, 0};
  Runtime runtime(machine.options());
  const auto problem = tj::ops::gemm_tunable().problems({{"sizes", {"1024"}}, {"dtype", {"f16"}}}).front();
  CHECK(runtime.tune_op("gemm", problem, gpu, {}).chosen > 0);
  const auto matrix = [&](int place) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), gpu,
                                  tj::DType::f16, {1024, 1024});
  };
  tj::GemmArgs args;
  args.a = matrix(0);
  args.b = matrix(1);
  args.d = matrix(2);
  Runtime later(machine.options());
  later.run(args);
  std::filesystem::remove_all(machine.cache_dir());
  for (Runtime* each : {&runtime, &later}) {
    machine.cuda.record(0);
    machine.cuda.set_block_ms(0);
    const long before = tj::testing::allocations();
    each->run(args);
    const long after = tj::testing::allocations();
    machine.cuda.record(1);
    CHECK(after == before);
  }
  CHECK_FALSE(std::filesystem::exists(machine.cache_dir()));
}

TEST_CASE("a hot matrix product in parts of K allocates for its scratch memory alone, once") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.cuda.set_param_bytes(0);
  const tj::Device gpu{tj::DeviceKind::cuda, 0};
  const auto matrix = [&](int place, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
    return tj::Tensor::strided(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), gpu,
                               tj::DType::f16, {rows, columns}, {pitch, 1});
  };
  for (const std::int64_t pitch : {16384, 16385}) {  // rows that are copied first
    tj::GemmArgs args;
    args.a = matrix(0, 128, 16384, pitch);
    args.b = matrix(1, 128, 16384, 16384);
    args.d = matrix(2, 128, 128, 128);
    CHECK(has(runtime.prepare(args).name, "_parts"));
    runtime.run(args);
    machine.cuda.record(0);
    const long before = tj::testing::allocations();
    runtime.run(args);
    const long after = tj::testing::allocations();
    machine.cuda.record(1);
    CHECK(after - before == 1);  // who gives it back
  }
}

TEST_CASE(
    "hot chunk output and its list of chunks allocate nothing, whatever the lengths and heads of the same kernel") {
  Machine machine;
  Runtime runtime(machine.options());
  const tj::Device gpu{tj::DeviceKind::cuda, 0};
  const auto tensor = [&](int place, tj::DType dtype, std::initializer_list<std::int64_t> shape) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), gpu, dtype,
                                  shape);
  };
  machine.cuda.set_param_bytes(0);  // two kernels
  for (const std::int64_t tokens : {200, 5000})
    for (const std::int64_t heads : {1, 16}) {
      CAPTURE(tokens);
      CAPTURE(heads);
      const std::int64_t chunks = tokens / tj::kChunkTokens + 3;
      tj::ChunkOArgs args;
      args.q = tensor(0, tj::DType::bf16, {tokens, heads, 128});
      args.k = tensor(1, tj::DType::bf16, {tokens, heads, 128});
      args.v_new = tensor(2, tj::DType::bf16, {chunks * tj::kChunkTokens, 2 * heads, 128});
      args.h = tensor(3, tj::DType::bf16, {chunks, 2 * heads, 128, 128});
      args.o = tensor(4, tj::DType::bf16, {tokens, 2 * heads, 128});
      args.g_cu = tensor(5, tj::DType::f32, {tokens, 2 * heads});
      args.cu_seqlens = tensor(6, tj::DType::i32, {4});
      args.chunk_indices = tensor(7, tj::DType::i32, {chunks, 2});
      args.total_chunks = tensor(8, tj::DType::i32, {1});
      const tj::ChunkIndicesArgs lists{*args.cu_seqlens, *args.chunk_indices, *args.total_chunks};
      const auto call = [&] {
        runtime.run(lists);
        runtime.run(args);
      };
      if (tokens == 200 && heads == 1) call();
      machine.cuda.record(0);
      const long before = tj::testing::allocations();
      call();
      const long after = tj::testing::allocations();
      machine.cuda.record(1);
      CHECK(after == before);
    }
  CHECK(machine.nvrtc.compiles() == 2);
}

TEST_CASE("the count sees allocations: a cold call has some") {
  Machine machine;
  Runtime runtime(machine.options());
  CHECK(allocations_of(machine, runtime, attention()) > 0);
}

TEST_CASE("an insertion that runs out of memory leaves the table as it was") {
  const auto kernel_of = [](std::uint64_t i) {
    auto kernel = std::make_unique<tj::LoadedKernel>();
    kernel->shape.threads = static_cast<unsigned>(i);
    return kernel;
  };
  const auto key_of = [](std::uint64_t i) { return tj::HotKey{nullptr, i, {}}; };
  bool failed = true;
  long n = 0;
  for (; failed; ++n) {
    CAPTURE(n);
    tj::KernelTable table;
    for (std::uint64_t i = 0; i < 4; ++i) table.insert(key_of(i), kernel_of(i));  // the next one makes a larger table
    failed = false;
    auto late = kernel_of(4);
    tj::testing::fail_allocation_after(n);
    try {
      table.insert(key_of(4), std::move(late));
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    tj::testing::fail_allocation_after(-1);
    CHECK(!table.find(key_of(4)) == failed);
    table.insert(key_of(5), kernel_of(5));
    for (std::uint64_t i : {0, 1, 2, 3, 5}) {
      const auto found = table.find(key_of(i));
      REQUIRE(static_cast<bool>(found));
      CHECK(found->shape.threads == i);
    }
  }
  CHECK(n > 3);
}

TEST_CASE("a hot call makes six driver calls, four more where the context is not current") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    runtime.run(attention());
    CHECK(calls_of(machine, runtime, attention()) ==
          "cuCtxGetCurrent\ncuCtxPushCurrent\n" + kMaps +
              "cuCtxPopCurrent\ncuCtxGetCurrent\ncuCtxPushCurrent\ncuLaunchKernelEx\ncuCtxPopCurrent\n");
    void* context = nullptr;
    machine.cuda.retain(&context, 0);  // as the runtime API and PyTorch do
    machine.cuda.push(context);
    CHECK(calls_of(machine, runtime, attention()) ==
          "cuCtxGetCurrent\n" + kMaps + "cuCtxGetCurrent\ncuLaunchKernelEx\n");
    machine.cuda.pop(&context);
    machine.cuda.release(0);
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("a hot call does no file access: with the cache and the compiler gone it still runs") {
  Machine machine;
  Runtime runtime(machine.options());
  runtime.run(attention());
  std::filesystem::remove_all(machine.cache_dir());
  for (int i = 0; i < 3; ++i) runtime.run(attention());
  CHECK_FALSE(std::filesystem::exists(machine.cache_dir()));
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 4);
  CHECK(machine.warnings.empty());
}

}  // namespace
