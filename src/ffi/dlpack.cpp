// See dlpack.hpp.
#include "ffi/dlpack.hpp"

#include <algorithm>

#include "support/fail.hpp"

namespace tj::ffi {
namespace {

using support::cat;

struct Known {
  std::int32_t dtype;
  std::uint8_t code, bits;
};
constexpr Known kTypes[] = {
    {TJ_F16, kDLFloat, 16}, {TJ_BF16, kDLBfloat, 16},       {TJ_F32, kDLFloat, 32},
    {TJ_I32, kDLInt, 32},   {TJ_E4M3, kDLFloat8_e4m3fn, 8},
};

[[noreturn]] void refuse(const char* op, const char* name, const std::string& message) {
  support::fail(Stage::argument, Code::invalid_argument, cat(op, ": ", name, message));
}

tj_device device_of(const DLTensor& tensor, const char* op, const char* name) {
  switch (tensor.device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
    case kDLROCMHost:
      return {TJ_CPU, 0};
    case kDLCUDA:
    case kDLCUDAManaged:
      return {TJ_CUDA, tensor.device.device_id};
    case kDLROCM:
      return {TJ_HIP, tensor.device.device_id};
    default:
      refuse(op, name,
             cat(" is on a device of DLPack's type ", static_cast<int>(tensor.device.device_type),
                 "; allowed: CPU (1), CUDA (2), ROCm (10)"));
  }
}

std::int32_t dtype_of(const DLTensor& tensor, const char* op, const char* name) {
  const auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Known& row) {
    return row.code == tensor.dtype.code && row.bits == tensor.dtype.bits && tensor.dtype.lanes == 1;
  });
  if (known == std::end(kTypes))
    refuse(op, name,
           cat(" has DLPack's type code ", int{tensor.dtype.code}, " with ", int{tensor.dtype.bits}, " bits and ",
               tensor.dtype.lanes, " lanes; allowed: float16, bfloat16, float32, int32 or float8_e4m3fn"));
  return known->dtype;
}

}  // namespace

tj_tensor from_dlpack(const DLTensor& tensor, const char* op, const char* name) {
  if (tensor.ndim < 0 || tensor.ndim > TJ_MAX_RANK)
    refuse(op, name, cat(" has ", tensor.ndim, " dimensions; allowed: 0 to ", TJ_MAX_RANK));
  if (tensor.ndim > 0 && tensor.shape == nullptr) refuse(op, name, " has no shape; allowed: a size for each dimension");
  tj_tensor result{};
  result.size = sizeof result;
  result.device = device_of(tensor, op, name);
  result.dtype = dtype_of(tensor, op, name);
  result.rank = tensor.ndim;
  if (tensor.data != nullptr) result.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  std::uint64_t step = 1;  // without a sign: a shape that makes no sense is the op's to refuse
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    result.shape[i] = tensor.shape[i];
    result.strides[i] = tensor.strides != nullptr ? tensor.strides[i] : static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(tensor.shape[i]);
  }
  return result;
}

DLDataType to_dlpack(std::int32_t dtype) {
  for (const Known& row : kTypes)
    if (row.dtype == dtype) return {row.code, row.bits, 1};
  support::fail(Stage::argument, Code::internal, cat("dtype is ", dtype, ", which DLPack has no name for here"));
}

}  // namespace tj::ffi
