// Checks and encodes tensor maps.
//
// The driver answers every broken rule with the same "invalid argument", so the rules are checked here by name first.
// They are those of cuTensorMapEncodeTiled in the CUDA driver API manual, for no interleaving and element strides of 1.
#include "launch/cuda/tensor_map.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#include "support/fail.hpp"

namespace tj::launch {
namespace {

using support::cat;

constexpr std::uint64_t kMaxDim = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxStrideBytes = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxBox = 256;

void require(bool holds, const char* member, std::uint64_t value, const char* rule) {
  if (holds) [[likely]]
    return;
  support::fail(Stage::launch, Code::invalid_argument,
                cat("tensor map: ", member, " is ", value, ", but ", rule, "; choose another layout of the tensor"));
}

void require_dim(bool holds, const char* member, int dim, std::uint64_t value, const char* rule) {
  if (holds) [[likely]]
    return;
  require(false, cat(member, "[", dim, "]").c_str(), value, rule);
}

CUtensorMapDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::i32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::e4m3:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;  // copies move bytes; zeros outside are zeros of e4m3
  }
  support::fail(Stage::launch, Code::internal, cat("tensor map: dtype ", static_cast<int>(dtype), " is unknown"));
}

CUtensorMapSwizzle swizzle(int bytes) {
  switch (bytes) {
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

}  // namespace

void check_tensor_map(const TensorMapDesc& desc, const void* out) {
  const auto address = [](const void* p) { return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(p)); };
  const auto element_bytes = static_cast<std::uint64_t>(size_of(desc.dtype));
  require(out != nullptr && address(out) % 64 == 0, "the address of the map", address(out),
          "it must be a multiple of 64");
  require(desc.rank >= 1 && desc.rank <= 5, "rank", static_cast<std::uint64_t>(desc.rank), "it must be 1 to 5");
  require(desc.base != nullptr && address(desc.base) % 16 == 0, "base", address(desc.base),
          "it must be an address that is a multiple of 16");
  require(desc.swizzle_bytes == 0 || desc.swizzle_bytes == 32 || desc.swizzle_bytes == 64 || desc.swizzle_bytes == 128,
          "swizzle_bytes", static_cast<std::uint64_t>(desc.swizzle_bytes), "it must be 0, 32, 64 or 128");
  require(desc.stride_bytes[0] == element_bytes, "stride_bytes[0]", desc.stride_bytes[0],
          "it must be the size of an element: the innermost dimension is contiguous");
  for (int d = 0; d < desc.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    require_dim(desc.dims[i] >= 1 && desc.dims[i] <= kMaxDim, "dims", d, desc.dims[i], "it must be 1 to 2^32");
    require_dim(desc.box[i] >= 1 && desc.box[i] <= kMaxBox, "box", d, desc.box[i], "it must be 1 to 256");
    require_dim(d == 0 || (desc.stride_bytes[i] % 16 == 0 && desc.stride_bytes[i] < kMaxStrideBytes), "stride_bytes", d,
                desc.stride_bytes[i], "it must be a multiple of 16 bytes and less than 2^40");
  }
  const std::uint64_t inner_bytes = desc.box[0] * element_bytes;
  require(inner_bytes % 16 == 0, "box[0] in bytes", inner_bytes, "it must be a multiple of 16");
  require(desc.swizzle_bytes == 0 || inner_bytes <= static_cast<std::uint64_t>(desc.swizzle_bytes), "box[0] in bytes",
          inner_bytes, "it must not exceed swizzle_bytes");
}

/// How much of memory comes to L2 with what a box asks for. Rows that begin anywhere in a line of 128 bytes ask twice
/// for each 128 bytes. With 256 bytes at a time L2 then brings too much: 3000 x 2112 x 7160 took 180 us, 154 with 128,
/// and 27 x 8960 x 1480 11.2 and 9.9 (H100, 2026-11-27). Rows on lines that are read once come faster with 128 on an
/// H200 (2026-11-29). Keys of 16 sequences of 8192 took 125 us, 134 with 256; 1 x 32000 x 4096 63 and 67. An H100 took
/// 93.3 us for that product with 128, 88.5 with 256; it was not looked at again. Rows that many tiles read come faster
/// with 256: 16384 x 4096 x 1024 took 189 us, 208 with 128 (H200).
CUtensorMapL2promotion promotion(const TensorMapDesc& desc) {
  constexpr std::uint64_t kLine = 128;
  bool on_lines = !desc.read_once && reinterpret_cast<std::uintptr_t>(desc.base) % kLine == 0;
  for (std::size_t i = 1; i < static_cast<std::size_t>(desc.rank); ++i)
    on_lines = on_lines && (desc.dims[i] == 1 || desc.stride_bytes[i] % kLine == 0);
  return on_lines ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
}

void encode_tensor_map(const CudaApi& api, const TensorMapDesc& desc, void* out) {
  if (api.tensor_map_encode_tiled == nullptr)
    support::fail(
        Stage::launch, Code::unsupported,
        cat("the NVIDIA driver at ", api.path, " has no cuTensorMapEncodeTiled; install driver 525 or newer"));
  static constexpr std::array<cuuint32_t, 5> kElementStrides{1, 1, 1, 1, 1};
  static_assert(sizeof(CUtensorMap) == kTensorMapBytes);
  static_assert(sizeof(desc.dims[0]) == sizeof(cuuint64_t) && sizeof(desc.box[0]) == sizeof(cuuint32_t));
  const CUresult result = api.tensor_map_encode_tiled(
      static_cast<CUtensorMap*>(out), data_type(desc.dtype), static_cast<cuuint32_t>(desc.rank), desc.base,
      desc.dims.data(), desc.stride_bytes.data() + 1, desc.box.data(), kElementStrides.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(desc.swizzle_bytes), promotion(desc), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  api.check(result, "cuTensorMapEncodeTiled", Stage::launch);
}

void move_tensor_map(const CudaApi& api, void* map, void* address) {
  if (api.tensor_map_replace_address == nullptr) [[unlikely]]
    support::fail(
        Stage::launch, Code::unsupported,
        cat("the NVIDIA driver at ", api.path, " has no cuTensorMapReplaceAddress; install driver 525 or newer"));
  api.check(api.tensor_map_replace_address(static_cast<CUtensorMap*>(map), address), "cuTensorMapReplaceAddress",
            Stage::launch);
}

}  // namespace tj::launch
