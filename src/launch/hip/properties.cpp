// The two layouts; see the header.
#include "launch/hip/properties.hpp"

#include <array>
#include <cstddef>
#include <cstring>

#include "support/fail.hpp"

namespace tj::launch {
namespace {

/// Bytes from the start of hipDeviceProp_t, as `offsetof` gives them for hip_runtime_api.h of ROCm 5.2.3 and of 6
/// and 7.
struct Layout {
  std::size_t shared_bytes, major, minor, multiprocessors, processor;
};
constexpr Layout kBefore6{264, 328, 332, 336, 396};
constexpr Layout kSince6{296, 360, 364, 388, 1160};

constexpr std::size_t kNameBytes = 256;
/// More than any release writes (1472 in ROCm 6): newer ones have only ever replaced reserved words.
constexpr std::size_t kAnswerBytes = 8192;
/// hipDeviceAttributePhysicalMultiProcessorCount, the same since ROCm 5.2. From gfx10 on the properties count pairs of
/// compute units; kernels here run on one.
constexpr int kPhysicalComputeUnits = 10015;

template <class T>
T value_at(const std::array<char, kAnswerBytes>& answer, std::size_t offset) {
  T value;
  std::memcpy(&value, answer.data() + offset, sizeof value);
  return value;
}

std::string text_at(const std::array<char, kAnswerBytes>& answer, std::size_t offset) {
  return {answer.data() + offset, ::strnlen(answer.data() + offset, kNameBytes)};
}

}  // namespace

HipProperties read_hip_properties(const HipApi& api, int device) {
  alignas(16) std::array<char, kAnswerBytes> answer{};
  const bool since6 = api.get_properties_r0600 != nullptr;
  const char* call = since6 ? "hipGetDevicePropertiesR0600" : "hipGetDeviceProperties";
  api.check((since6 ? api.get_properties_r0600 : api.get_properties)(answer.data(), device), call, Stage::load);
  const Layout& layout = since6 ? kSince6 : kBefore6;
  HipProperties found;
  found.name = text_at(answer, 0);
  found.processor = text_at(answer, layout.processor);
  found.major = value_at<int>(answer, layout.major);
  found.minor = value_at<int>(answer, layout.minor);
  found.shared_bytes_per_block = static_cast<std::int64_t>(value_at<std::size_t>(answer, layout.shared_bytes));
  if (api.device_get_attribute(&found.compute_units, kPhysicalComputeUnits, device) != kHipSuccess ||
      found.compute_units <= 0) {
    api.forget_failure();
    found.compute_units = value_at<int>(answer, layout.multiprocessors);
  }
  if (!found.processor.starts_with("gfx") || found.compute_units <= 0 || found.shared_bytes_per_block <= 0)
    support::fail(Stage::load, Code::driver_error,
                  support::cat(call, " of ", api.path, " answers in a layout that is not known: processor \"",
                               found.processor, "\", ", found.compute_units, " compute units, ",
                               found.shared_bytes_per_block, " bytes of shared memory; install ROCm 5, 6 or 7"));
  return found;
}

}  // namespace tj::launch
