// Protects tensors of DLPack as those of tilejit.h: types, devices, sizes and strides, and the whole text of each
// refusal.
#include <doctest/doctest.h>

#if __has_include(<dlpack/dlpack.h>)
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "ffi/dlpack.hpp"

namespace {

using namespace tj;

/// A tensor whose sizes and strides lie here.
struct Given {
  DLTensor tensor{};
  std::vector<std::int64_t> shape = {2, 3, 4}, strides;

  tj_tensor read() {
    tensor.shape = shape.empty() ? nullptr : shape.data();
    tensor.strides = strides.empty() ? nullptr : strides.data();
    return ffi::from_dlpack(tensor, "op", "x");
  }
};
Given good() {
  Given given;
  given.tensor.data = reinterpret_cast<void*>(std::uintptr_t{4096});
  given.tensor.ndim = 3;
  given.tensor.device = {kDLCUDA, 5};
  given.tensor.dtype = {kDLFloat, 16, 1};
  return given;
}

std::string said(Given given) {
  try {
    given.read();
  } catch (const Error& error) {
    CHECK(error.stage == Stage::argument);
    CHECK(error.code == Code::invalid_argument);
    return error.message;
  }
  return "";
}

std::vector<std::int64_t> numbers(const std::int64_t* first, int count) { return {first, first + count}; }

}  // namespace

TEST_CASE("types go both ways, with one lane") {
  const std::pair<DLDataType, std::int32_t> types[] = {{{kDLFloat, 16, 1}, TJ_F16},
                                                       {{kDLBfloat, 16, 1}, TJ_BF16},
                                                       {{kDLFloat, 32, 1}, TJ_F32},
                                                       {{kDLInt, 32, 1}, TJ_I32},
                                                       {{kDLFloat8_e4m3fn, 8, 1}, TJ_E4M3}};
  for (const auto& each : types) {
    const DLDataType type = each.first, back = ffi::to_dlpack(each.second);
    CHECK(back.code == type.code);
    CHECK(back.bits == type.bits);
    CHECK(back.lanes == 1);
    Given given = good();
    given.tensor.dtype = type;
    CHECK(given.read().dtype == each.second);
    given.tensor.dtype.lanes = 2;
    CHECK(said(given) == "op: x has DLPack's type code " + std::to_string(type.code) + " with " +
                             std::to_string(type.bits) +
                             " bits and 2 lanes; allowed: float16, bfloat16, float32, int32 or float8_e4m3fn");
  }
  for (const DLDataType wrong : {DLDataType{kDLFloat, 64, 1}, {kDLInt, 16, 1}, {kDLUInt, 32, 1}, {kDLBfloat, 32, 1}}) {
    Given given = good();
    given.tensor.dtype = wrong;
    CHECK(said(given).starts_with("op: x has DLPack's type code " + std::to_string(wrong.code) + " with "));
  }
  CHECK_THROWS_AS(ffi::to_dlpack(99), Error);
}

TEST_CASE("devices: memory of the host is the CPU's, and of a GPU that of its number") {
  const std::pair<DLDeviceType, tj_device> devices[] = {{kDLCPU, {TJ_CPU, 0}},          {kDLCUDAHost, {TJ_CPU, 0}},
                                                        {kDLROCMHost, {TJ_CPU, 0}},     {kDLCUDA, {TJ_CUDA, 5}},
                                                        {kDLCUDAManaged, {TJ_CUDA, 5}}, {kDLROCM, {TJ_HIP, 5}}};
  for (const auto& each : devices) {
    Given given = good();
    given.tensor.device.device_type = each.first;
    const tj_tensor read = given.read();
    CHECK(read.device.kind == each.second.kind);
    CHECK(read.device.index == each.second.index);
  }
  Given given = good();
  given.tensor.device.device_type = kDLMetal;
  CHECK(said(given) == "op: x is on a device of DLPack's type 8; allowed: CPU (1), CUDA (2), ROCm (10)");
}

TEST_CASE("sizes and strides are taken as they are; strides that are left out are those without gaps") {
  Given given = good();
  tj_tensor read = given.read();
  CHECK(read.size == sizeof read);
  CHECK(read.rank == 3);
  CHECK(read.data == reinterpret_cast<void*>(std::uintptr_t{4096}));
  CHECK(numbers(read.shape, 3) == std::vector<std::int64_t>{2, 3, 4});
  CHECK(numbers(read.strides, 3) == std::vector<std::int64_t>{12, 4, 1});
  given.strides = {-7, 0, 9};
  given.tensor.byte_offset = 48;
  read = given.read();
  CHECK(numbers(read.strides, 3) == std::vector<std::int64_t>{-7, 0, 9});
  CHECK(read.data == reinterpret_cast<void*>(std::uintptr_t{4144}));
  given.tensor.data = nullptr;
  CHECK(given.read().data == nullptr);
}

TEST_CASE("ranks from none to the most that tilejit.h has; a shape must be there") {
  Given given = good();
  given.shape.assign(TJ_MAX_RANK + 1, 2);
  given.tensor.ndim = TJ_MAX_RANK;
  CHECK(given.read().rank == TJ_MAX_RANK);
  const std::string allowed = " dimensions; allowed: 0 to " + std::to_string(TJ_MAX_RANK);
  given.tensor.ndim = TJ_MAX_RANK + 1;
  CHECK(said(given) == "op: x has " + std::to_string(TJ_MAX_RANK + 1) + allowed);
  given.tensor.ndim = -1;
  CHECK(said(given) == "op: x has -1" + allowed);
  given.shape.clear();
  given.tensor.ndim = 0;
  CHECK(given.read().rank == 0);
  given.tensor.ndim = 1;
  CHECK(said(given) == "op: x has no shape; allowed: a size for each dimension");
}
#endif
