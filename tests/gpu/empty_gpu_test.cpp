// Protects calls with sizes of 0 on a real device. The driver takes the maps of tensors without elements, and launches
// write what they should. Calls that ask for nothing launch nothing: a launch of no blocks would be an error.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <vector>

#include <tilejit/ops.hpp>
#include <tilejit/plan.hpp>

#include "gpu/gpu_device.hpp"

using namespace tj;

namespace {

/// Tensors on the device, in memory of one byte over and over; without elements at null.
class Memory {
 public:
  explicit Memory(Device device) : device_(device) {}
  Tensor tensor(DType type, std::initializer_list<std::int64_t> sizes, unsigned char byte = 0) {
    const Tensor shape = Tensor::contiguous(nullptr, device_, type, sizes);
    const std::vector<unsigned char> bytes(bytes_of(shape), byte);
    if (bytes.empty()) return shape;
    kept_.push_back(runtime().allocate(device_, bytes.size()));
    runtime().copy(kept_.back().get(), device_, bytes.data(), kHost, bytes.size());
    return Tensor::contiguous(kept_.back().get(), device_, type, sizes);
  }
  /// Are all elements these bits?
  template <class T>
  static bool all(const Tensor& tensor, T wanted) {
    std::vector<T> found(bytes_of(tensor) / sizeof(T));
    runtime().synchronize(tensor.device);
    runtime().copy(found.data(), kHost, tensor.data, tensor.device, found.size() * sizeof(T));
    return std::all_of(found.begin(), found.end(), [&](T each) { return each == wanted; });
  }
  static Runtime& runtime() { return Runtime::instance(); }

 private:
  static constexpr Device kHost{DeviceKind::cpu, 0};
  static std::size_t bytes_of(const Tensor& tensor) {
    std::int64_t bytes = size_of(tensor.dtype);
    for (int i = 0; i < tensor.rank; ++i) bytes *= tensor.shape[static_cast<std::size_t>(i)];
    return static_cast<std::size_t>(bytes);
  }
  Device device_;
  std::vector<std::shared_ptr<void>> kept_;
};

constexpr float kNone = -std::numeric_limits<float>::infinity();

FmhaArgs attention(Memory& memory, std::int64_t queries, std::int64_t keys, std::int64_t head_dim) {
  FmhaArgs args;
  args.q = memory.tensor(DType::bf16, {2, 8, queries, head_dim}, 0x3c);
  args.k = memory.tensor(DType::bf16, {2, 2, keys, head_dim}),
  args.v = memory.tensor(DType::bf16, {2, 2, keys, head_dim});
  args.o = memory.tensor(DType::bf16, {2, 8, queries, head_dim}, 0x7f);
  args.lse = memory.tensor(DType::f32, {2, 8, queries}, 0x7f);
  return args;
}

void check_zeros(const FmhaArgs& args) {
  CHECK(Memory::all<std::uint16_t>(args.o, 0));
  CHECK(Memory::all<float>(*args.lse, kNone));
}

}  // namespace

TEST_CASE("attention without keys: full and causal, few queries and many, lists and pages") {
  Memory memory(test::gpu());
  for (const std::int64_t head_dim : {64, 128, 96})
    for (const std::int64_t queries : {1, 300, 4000})
      for (const bool causal : {false, true}) {
        CAPTURE(head_dim);
        CAPTURE(queries);
        FmhaArgs args = attention(memory, queries, 0, head_dim);
        args.causal = causal;
        Memory::runtime().run(args);
        check_zeros(args);
        const Plan plan = Memory::runtime().plan(args);
        const FmhaArgs other = attention(memory, queries, 0, head_dim);
        plan.run({other.q.data, nullptr, nullptr, other.o.data, other.lse->data});
        check_zeros(other);
      }
  for (const std::int64_t page_size : {0, 16})
    for (const std::int64_t pages : {0, 400}) {
      FmhaArgs args;
      args.q = memory.tensor(DType::bf16, {600, 8, 128}, 0x3c),
      args.o = memory.tensor(DType::bf16, {600, 8, 128}, 0x7f);
      args.lse = memory.tensor(DType::f32, {8, 600}, 0x7f);
      args.k =
          page_size > 0 ? memory.tensor(DType::bf16, {0, page_size, 2, 128}) : memory.tensor(DType::bf16, {0, 2, 128});
      args.v = args.k;
      std::vector<std::int32_t> begins(101);
      for (std::size_t i = 0; i < begins.size(); ++i) begins[i] = static_cast<std::int32_t>(6 * i);
      args.cu_seqlens_q = memory.tensor(DType::i32, {101});
      Memory::runtime().copy(args.cu_seqlens_q->data, args.q.device, begins.data(), {DeviceKind::cpu, 0}, 101 * 4);
      if (page_size == 0) args.cu_seqlens_k = memory.tensor(DType::i32, {101});
      if (page_size > 0) args.seqused_k = memory.tensor(DType::i32, {100}, 1);
      if (page_size > 0) args.block_table = memory.tensor(DType::i32, {100, pages}, 1);
      Memory::runtime().run(args);
      check_zeros(args);
    }
}

TEST_CASE("calls that ask for nothing") {
  Memory memory(test::gpu());
  const FmhaArgs args = attention(memory, 0, 40, 128);
  Memory::runtime().run(args);
  GemmArgs product;
  product.a = memory.tensor(DType::bf16, {0, 64}), product.b = memory.tensor(DType::bf16, {96, 64});
  product.d = memory.tensor(DType::bf16, {0, 96});
  Memory::runtime().run(product);
  Memory::runtime().synchronize(args.q.device);
}

TEST_CASE("products over a K of 0, and the gated delta rule without tokens") {
  const Device device = test::gpu();
  Memory memory(device);
  const bool hopper = Memory::runtime().target_of(device) == "sm_90a";
  for (const DType type : {DType::bf16, DType::e4m3}) {
    if (type == DType::e4m3 && !hopper) continue;
    for (const std::int64_t m : {1, 200, 4000}) {
      CAPTURE(m);
      GemmArgs args;
      args.a = memory.tensor(type, {m, 0}), args.b = memory.tensor(type, {512, 0});
      args.d = memory.tensor(DType::f32, {m, 512}, 0x7f), args.bias = memory.tensor(DType::f32, {512}, 0x40);
      Memory::runtime().run(args);
      CHECK(Memory::all<std::uint32_t>(args.d, 0x40404040));
    }
  }
  GatedDeltaRuleArgs rule;
  for (Tensor* const each : {&rule.q, &rule.k, &rule.v, &rule.o}) *each = memory.tensor(DType::bf16, {3, 0, 4, 128});
  rule.initial_state = memory.tensor(DType::f32, {3, 4, 128, 128}, 0x3e);
  rule.final_state = memory.tensor(DType::f32, {3, 4, 128, 128}, 0x7f);
  Memory::runtime().run(rule);
  CHECK(Memory::all<std::uint32_t>(*rule.final_state, 0x3e3e3e3e));
  if (!hopper) return;
  GroupedGemmArgs groups;
  groups.grouping = Grouping::depths;
  groups.a = memory.tensor(DType::bf16, {128, 0}), groups.b = memory.tensor(DType::bf16, {256, 0});
  groups.d = memory.tensor(DType::f32, {3, 128, 256}, 0x7f), groups.groups = memory.tensor(DType::i32, {3});
  Memory::runtime().run(groups);
  CHECK(Memory::all<std::uint32_t>(groups.d, 0));
}
