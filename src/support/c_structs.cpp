// See c_structs.hpp.
#include "support/c_structs.hpp"

#include <iterator>

#include <tilejit/runtime.hpp>

#include "support/fail.hpp"

namespace tj::support::c_structs {

// No structure comes near it in any version: a larger size was never set.
constexpr std::uint64_t kMostBytes = 4096;

void refuse(const std::string& message, Code code) { fail(Stage::argument, code, message); }

void check_size(std::uint64_t size, const char* name, std::size_t known) {
  if (size < known || size > kMostBytes)
    refuse(cat(name, ".size is ", size, "; allowed: sizeof of the structure, at least ", known, " in version ",
               version(), " and at most ", kMostBytes));
}

void check_unknown(const void* given, const char* name, std::size_t known, std::uint64_t size) {
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (std::size_t i = known; i < size; ++i)
    if (bytes[i] != 0)
      refuse(cat(name, " sets a field at byte ", i, " that version ", version(), " does not know; use a newer library"),
             Code::unsupported);
}

void check_reserved(std::int32_t reserved, const char* name) {
  if (reserved != 0) refuse(cat(name, " is ", reserved, "; allowed: 0"), Code::unsupported);
}

void refuse_number(const char* name, std::int64_t value, const char* allowed) {
  refuse(cat(name, " is ", value, "; allowed: ", allowed));
}

Device to_device(const tj_device& device, const char* name, const char* member) {
  // The name is put together only when it is needed: tensors pass here on every call.
  if (device.kind < 0 || device.kind > TJ_HIP)
    refuse(cat(name, member, ".kind is ", device.kind, "; allowed: 0 (cpu), 1 (cuda), 2 (hip)"));
  if (device.index < 0) refuse(cat(name, member, ".index is ", device.index, "; allowed: 0 and up"));
  return {static_cast<DeviceKind>(device.kind), device.index};
}

Tensor to_tensor(const tj_tensor* given, const char* name) {
  const tj_tensor t = read(given, name);
  if (t.dtype < 0 || t.dtype > TJ_E4M3)
    refuse(cat(name, ".dtype is ", t.dtype, "; allowed: ", "0 (f16), 1 (bf16), 2 (f32), 3 (i32), 4 (e4m3)"));
  if (t.rank < 0 || t.rank > TJ_MAX_RANK) refuse(cat(name, ".rank is ", t.rank, "; allowed: 0 to ", TJ_MAX_RANK));
  Tensor result;
  result.data = t.data;
  result.device = to_device(t.device, name, ".device");
  result.dtype = static_cast<DType>(t.dtype);
  result.rank = t.rank;
  std::copy(std::begin(t.shape), std::end(t.shape), result.shape.begin());
  std::copy(std::begin(t.strides), std::end(t.strides), result.strides.begin());
  return result;
}

}  // namespace tj::support::c_structs
