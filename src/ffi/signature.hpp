// The arguments of each op as frameworks pass them: by position, or by name.
//
// Decides the order of arguments, which of them may be left out, and the shape of a result that nobody gave. Decides
// nothing about legal values. Invariant: each row is a member of the op's structure in tilejit.h.
#pragma once

#include <tilejit/tilejit.h>

#include <cstddef>
#include <span>
#include <string_view>

/// The ops that have functions for frameworks: one line each here, and a table of the same name in signature.cpp.
#define TJ_FFI_OPS(OP) \
  OP(fmha)             \
  OP(gemm)             \
  OP(chunk_indices)    \
  OP(chunk_o)

namespace tj::ffi {

class Arguments;

/// text: of device code, as it is; word: a name of a number; whole: 64 bits of it; count: 32 bits.
enum class Kind { read, written, flag, real, whole, count, word, text };

struct Parameter {
  const char* name = "";
  Kind kind = Kind::read;
  bool optional = false;
  std::size_t offset = 0;                   ///< of the member
  std::size_t has = 0;                      ///< of the member that says whether this one counts; 0: there is none
  std::span<const char* const> words = {};  ///< names of the numbers from 0 on, for Kind::word
};

struct Signature {
  const char* op = "";
  std::span<const Parameter> parameters;  ///< those that may be left out stand last, but for `made`
  const void* defaults = nullptr;         ///< the structure without arguments
  std::size_t bytes = 0;                  ///< of the structure
  /// The result that is allocated where the caller gives none; null: there is no such result.
  const Parameter* made = nullptr;
  /// Sets dtype, rank and shape of that result. Throws tj::Error(argument) where the arguments do not tell.
  void (*make)(const Arguments& arguments, tj_tensor& result) = nullptr;

  const Parameter* find(std::string_view name) const noexcept;
};

#define TJ_DECLARE(name) const Signature& name##_signature() noexcept;
TJ_FFI_OPS(TJ_DECLARE)
#undef TJ_DECLARE

/// Null for an op that frameworks cannot call.
const Signature* signature_of(std::string_view op) noexcept;

}  // namespace tj::ffi
