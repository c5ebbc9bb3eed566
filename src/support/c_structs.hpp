// Structures of tilejit.h, and how they are read: those of other versions, and fields that C++ types could not hold.
//
// Decides what an older or newer caller's structure means. Values that C++ could not even hold (an unknown enum number,
// a rank above the maximum) are refused here, all else by the C++ call. Decides nothing about ops. Invariant: nothing
// of the caller's is kept.
#pragma once

#include <tilejit/tilejit.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include <tilejit/error.hpp>
#include <tilejit/tensor.hpp>

namespace tj::support::c_structs {

/// Throws tj::Error(argument).
[[noreturn]] void refuse(const std::string& message, Code code = Code::invalid_argument);
/// name: of the structure, as errors call it; known: bytes of its first version.
void check_size(std::uint64_t size, const char* name, std::size_t known);
/// Bytes behind the structure that this version knows must be zero.
void check_unknown(const void* given, const char* name, std::size_t known, std::uint64_t size);
void check_reserved(std::int32_t reserved, const char* name = "args.reserved");

/// The caller's structure as this version knows it: what an older caller lacks stays as in `defaults`; what a newer one
/// adds must be zero. first: bytes of the structure in its first version.
template <class Struct>
Struct read(const Struct* given, const char* name, const Struct& defaults = {}, std::size_t first = sizeof(Struct)) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (given == nullptr) refuse(std::string(name) + " is null; allowed: the address of a structure");
  std::uint64_t size = 0;
  std::memcpy(&size, given, sizeof size);
  check_size(size, name, first);
  Struct result = defaults;
  std::memcpy(&result, given, std::min<std::size_t>(size, sizeof(Struct)));
  check_unknown(given, name, sizeof(Struct), size);
  return result;
}

[[noreturn]] void refuse_number(const char* name, std::int64_t value, const char* allowed);
template <class Enum>
Enum to_enum(std::int32_t value, std::int32_t last, const char* name, const char* allowed) {
  if (value < 0 || value > last) refuse_number(name, value, allowed);
  return static_cast<Enum>(value);
}

Device to_device(const tj_device& device, const char* name, const char* member = "");
Tensor to_tensor(const tj_tensor* given, const char* name);

}  // namespace tj::support::c_structs
