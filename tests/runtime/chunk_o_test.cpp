// Protects kernels of chunk output that are asked for without memory. prepare() and warm() make the kernel that a call
// of that kind takes, once for all numbers of heads of one ratio, and say which it is. A kernel that cannot be is
// refused before anything is made.
#include <doctest/doctest.h>

#include <initializer_list>
#include <string>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::ChunkOArgs;
using tj::ChunkOConfig;
using tj::DType;
using tj::KernelOrigin;
using tj::Runtime;

constexpr tj::Device kGpu{tj::DeviceKind::cuda, 0};

tj::Tensor tensor(int place, DType dtype, std::initializer_list<std::int64_t> shape) {
  return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), kGpu, dtype,
                                shape);
}

/// 300 tokens, of two sequences where `variable`.
ChunkOArgs arguments(const ChunkOConfig& config, std::int64_t heads) {
  const std::int64_t v_heads = heads * config.v_heads_per_head;
  ChunkOArgs args;
  args.q = tensor(0, DType::bf16, {300, heads, 128});
  args.k = tensor(1, DType::bf16, {300, heads, 128});
  args.v_new = tensor(2, DType::bf16, {6 * tj::kChunkTokens, v_heads, 128});
  args.h = tensor(3, DType::bf16, {6, v_heads, 128, 128});
  args.o = tensor(4, DType::bf16, {300, v_heads, 128});
  args.h_transposed = config.h_transposed;
  if (config.gated) args.g_cu = tensor(5, DType::f32, {300, v_heads});
  if (!config.variable_length) {
    args.seq_length = 150;
    return args;
  }
  args.cu_seqlens = tensor(6, DType::i32, {3});
  args.chunk_indices = tensor(7, DType::i32, {6, 2});
  args.total_chunks = tensor(8, DType::i32, {1});
  return args;
}

TEST_CASE("a prepared kernel is the one that calls of the same kind take") {
  struct Kind {
    ChunkOConfig config;
    const char* name;
  };
  const Kind kinds[] = {{{}, "chunk_o_r2"},
                        {{1, true, true, false}, "chunk_o_r1"},
                        {{9, false, false, true}, "chunk_o_r3_ungated_equal_kv"}};
  Machine machine;
  Runtime runtime(machine.options());
  machine.cuda.set_param_bytes(0);
  int made = 0;
  for (const Kind& kind : kinds) {
    CAPTURE(std::string(kind.name));
    const tj::KernelReport report = runtime.prepare(kind.config, kGpu);
    CHECK(report.origin == KernelOrigin::compiled);
    CHECK(report.name == kind.name);
    CHECK(report.target == "sm_90a");
    CHECK(machine.nvrtc.compiles() == ++made);
    for (const std::int64_t heads : {1, 4}) {
      const ChunkOArgs args = arguments(kind.config, heads);
      CHECK(runtime.prepare(args).origin == KernelOrigin::memory);
      runtime.run(args);
    }
    CHECK(machine.nvrtc.compiles() == made);
  }
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 6);
  CHECK(runtime.prepare(ChunkOConfig{4, true, true, false}, kGpu).origin == KernelOrigin::memory);  // 4 is 2 items of 2
  CHECK(runtime.prepare(ChunkOConfig{}).origin == KernelOrigin::memory);  // on the default device
  CHECK(machine.warnings.empty());
}

TEST_CASE("warm() needs no device; the entry serves calls") {
  Machine machine;
  machine.cuda.set_devices(0);
  {
    Runtime warmer(machine.options());
    const tj::KernelReport report = warmer.warm(ChunkOConfig{}, "sm_90a");
    CHECK(report.origin == KernelOrigin::compiled);
    CHECK(report.name == "chunk_o_r2");
    CHECK(warmer.warm(tj::ChunkIndicesConfig{}, "sm_90a").name == "chunk_indices");
  }
  CHECK(std::string(machine.cuda.log()) == "");
  machine.cuda.set_devices(1);
  machine.cuda.set_param_bytes(0);
  Runtime runtime(machine.options());
  CHECK(runtime.prepare(arguments({}, 2)).origin == KernelOrigin::disk);
  runtime.run(arguments({}, 2));
  CHECK(runtime.prepare(tj::ChunkIndicesConfig{}, kGpu).origin == KernelOrigin::disk);
  CHECK(machine.nvrtc.compiles() == 2);
}

TEST_CASE("no heads, and archs without what the kernel needs, are refused before anything is made") {
  Machine machine;
  Runtime runtime(machine.options());
  for (const int heads : {0, -1}) {
    const tj::Error error =
        tj::testing::error_of([&] { runtime.prepare(ChunkOConfig{heads, true, true, false}, kGpu); });
    CHECK(error.code == tj::Code::invalid_argument);
    CHECK(error.message.find("v_heads_per_head is " + std::to_string(heads)) != std::string::npos);
    CHECK_THROWS_AS(runtime.warm(ChunkOConfig{heads, true, true, false}, "sm_90a"), tj::Error);
  }
  ChunkOConfig hinted;
  hinted.evict_first = true;
  const tj::Error error = tj::testing::error_of([&] { runtime.warm(hinted, "sm_80"); });
  CHECK(error.code == tj::Code::unsupported);
  CHECK(error.message.find("evict_first is true; allowed on sm_80") != std::string::npos);
  CHECK(machine.nvrtc.compiles() == 0);
}

}  // namespace
