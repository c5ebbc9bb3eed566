// Protects kernels of users' own in C: made, prepared, described and launched through tilejit.h alone, they are right;
// what is wrong is a status with a text.
#include <doctest/doctest.h>

#include <tilejit/tilejit.h>

#include <algorithm>
#include <string>

#include "custom/sample_kernel.hpp"
#include "custom/sample_problem.hpp"

namespace {

using namespace tj;
using test::SampleKernel;
using test::SampleProblem;
using testing::has;

constexpr tj_device kHostInC{TJ_CPU, 0};

/// The calls of custom::Kernel that a problem makes, through the C interface.
struct KernelInC {
  tj_custom* kernel = nullptr;

  TensorMap tensor_map(const Tensor& tensor, const custom::Box& box) const {
    tj_tensor view{sizeof(tj_tensor), tensor.data, kHostInC, static_cast<std::int32_t>(tensor.dtype),
                   tensor.rank,       {},          {}};
    std::copy(tensor.shape.begin(), tensor.shape.end(), view.shape);
    std::copy(tensor.strides.begin(), tensor.strides.end(), view.strides);
    tj_box cut{sizeof(tj_box), {}, box.swizzle_bytes, 0};
    std::copy(box.shape.begin(), box.shape.end(), cut.shape);
    TensorMap map;
    CHECK_MESSAGE(tj_custom_tensor_map(kernel, &view, &cut, &map) == TJ_OK, tj_last_error());
    return map;
  }
  template <class Params>
  void launch(Device, const Params& params, unsigned blocks) const {
    CHECK_MESSAGE(tj_custom_launch(kernel, kHostInC, &params, sizeof params, blocks, nullptr) == TJ_OK,
                  tj_last_error());
  }
};

TEST_CASE("a kernel of a user's own is right through the C interface") {
  const testing::Scratch scratch;
  const std::string cache = scratch / "cache";
  tj_options options;
  tj_options_init(&options);
  options.cache_dir = cache.c_str();
  options.target = "model:sm_90a";
  tj_runtime* runtime = nullptr;
  REQUIRE(tj_runtime_create(&options, &runtime) == TJ_OK);

  const SampleKernel sample;
  tj_custom_description description{};
  description.size = sizeof description;
  description.name = sample.description.name.c_str();
  description.graph = sample.description.graph.c_str();
  const std::string folder = sample.description.folder;
  description.folder = folder.c_str();
  KernelInC kernel;
  REQUIRE_MESSAGE(tj_custom_create(runtime, &description, &kernel.kernel) == TJ_OK, tj_last_error());
  tj_kernel_report report{};
  report.size = sizeof report;
  REQUIRE(tj_custom_prepare(kernel.kernel, kHostInC, &report) == TJ_OK);
  CHECK(report.origin == TJ_COMPILED);
  CHECK(tj_custom_warm(kernel.kernel, "model:sm_90a", &report) == TJ_OK);
  CHECK(report.origin == TJ_FROM_DISK);
  std::uint32_t sm_count = 0;
  CHECK(tj_custom_sm_count(kernel.kernel, kHostInC, &sm_count) == TJ_OK);
  CHECK(sm_count > 0);

  Options same;
  same.cache_dir = cache;
  same.target = "model:sm_90a";
  Runtime memory(same);
  SampleProblem problem(memory, {DeviceKind::cpu, 0}, 70, 41, 200, 11);
  problem.run(kernel, 1);
  CHECK(problem.error() < test::kMaxSampleError);

  CHECK(tj_custom_launch(kernel.kernel, kHostInC, nullptr, 0, 1, nullptr) == TJ_INVALID_ARGUMENT);
  CHECK(has(tj_last_error(), "params of 'gemm_gelu' is null"));
  tj_custom* none = nullptr;
  description.folder = "/nonexistent";
  CHECK(tj_custom_create(runtime, &description, &none) == TJ_NOT_FOUND);
  CHECK(has(tj_last_error(), "/nonexistent"));
  CHECK(none == nullptr);
  description.reserved = 3;
  CHECK(tj_custom_create(runtime, &description, &none) == TJ_UNSUPPORTED);
  CHECK(has(tj_last_error(), "description.reserved is 3"));
  tj_runtime_destroy(runtime);
  problem.run(kernel, 2);  // after its runtime
  CHECK(problem.error() < test::kMaxSampleError);
  tj_custom_destroy(kernel.kernel);
}

}  // namespace
