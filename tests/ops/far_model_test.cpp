// Protects offsets of more than 2^31 elements on the CPU model: batches of attention and of products, matrices of
// groups and a bias that lie so far apart give the bits that they give side by side. Memory between them is never
// touched.
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <vector>

#include "ops/fmha/problem.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/grouped_gemm/problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr std::int64_t kApart = std::int64_t{3} << 30;  // elements

/// Tensors whose first dimension has strides of kApart.
class FarApart {
 public:
  FarApart() = default;
  FarApart(const FarApart&) = delete;
  FarApart& operator=(const FarApart&) = delete;
  ~FarApart() {
    for (const Memory& each : memory_) munmap(each.begin, each.bytes);
  }
  /// A copy of a tensor whose other dimensions are contiguous.
  Tensor of(const Tensor& near) {
    const auto element = static_cast<std::size_t>(size_of(near.dtype));
    const std::size_t each = static_cast<std::size_t>(near.strides[0]) * element;
    const Memory memory = {nullptr, static_cast<std::size_t>(near.shape[0] - 1) * kApart * element + each};
    void* const begin =
        mmap(nullptr, memory.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(begin != MAP_FAILED);
    memory_.push_back({begin, memory.bytes});
    Tensor far = near;
    far.data = begin;
    far.strides[0] = kApart;
    for (std::int64_t i = 0; i < near.shape[0]; ++i) std::memcpy(at(far, i), at(near, i), each);
    return far;
  }
  static bool same(const Tensor& far, const Tensor& near) {
    const std::size_t each = static_cast<std::size_t>(near.strides[0]) * static_cast<std::size_t>(size_of(near.dtype));
    for (std::int64_t i = 0; i < near.shape[0]; ++i)
      if (std::memcmp(at(far, i), at(near, i), each) != 0) return false;
    return true;
  }

 private:
  struct Memory {
    void* begin;
    std::size_t bytes;
  };
  static char* at(const Tensor& tensor, std::int64_t i) {
    return static_cast<char*>(tensor.data) + i * tensor.strides[0] * size_of(tensor.dtype);
  }
  std::list<Memory> memory_;
};

}  // namespace

TEST_CASE("attention: batches of q, k, v, o and a bias far apart") {
  for (const char* target : {"model:sm_90a", "model:sm_80", "model:gfx942"}) {
    CAPTURE(target);
    test::FmhaShape shape{2, 2, 1, 70, 150, 64, DType::f16};
    shape.causal = true;
    test::FmhaProblem near(shape, 310);
    std::vector<float> bias(2 * 150);
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 7) / 4;
    near.args.bias = Tensor::contiguous(bias.data(), kCpu, DType::f32, {2, 1, 1, 150});
    FmhaArgs args = near.args;
    FarApart memory;
    for (Tensor* const tensor : {&args.q, &args.k, &args.v, &args.o}) *tensor = memory.of(*tensor);
    args.bias = memory.of(*args.bias);
    Runtime& runtime = testing::model_runtime(target);
    near.run(runtime, kCpu);
    runtime.run(args);
    CHECK(FarApart::same(args.o, near.args.o));
  }
}

TEST_CASE("products: batches far apart") {
  for (const char* target : {"model:sm_90a", "model:sm_80", "model:gfx942"}) {
    CAPTURE(target);
    test::GemmShape shape = test::gemm_shape(70, 72, 96);
    shape.batch = 2;
    test::GemmProblem near(shape, 320);
    GemmArgs args = near.args;
    FarApart memory;
    for (Tensor* const tensor : {&args.a, &args.b, &args.d}) *tensor = memory.of(*tensor);
    Runtime& runtime = testing::model_runtime(target);
    near.run(runtime, kCpu);
    runtime.run(args);
    CHECK(FarApart::same(args.d, near.args.d));
  }
}

TEST_CASE("groups: their matrices far apart") {
  test::GroupedShape shape;
  shape.counts = {70, 0, 3};
  test::GroupedProblem near(shape, 330);
  FarApart memory;
  Runtime& runtime = testing::model_runtime("model:sm_90a");
  near.run(runtime);
  CHECK(near.problem() == "");
  const std::vector<unsigned char> first = near.result();
  near.args.b = memory.of(near.args.b);
  near.run(runtime);
  CHECK(near.result() == first);
}
