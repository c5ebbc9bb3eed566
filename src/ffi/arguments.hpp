// A call's arguments on their way into the op's structure of tilejit.h.
//
// Decides how a value becomes a member, and names the argument where it cannot. Decides nothing about legal values: the
// op's own reader and its checks do. Invariant: the structure points at this object's tensors and texts alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tilejit/runtime.hpp>

#include "ffi/signature.hpp"

namespace tj::ffi {

class Arguments {
 public:
  explicit Arguments(const Signature& signature);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Each sets one argument, and throws tj::Error(argument) where the parameter is of another kind.
  void tensor(const Parameter& parameter, const tj_tensor& value);
  void flag(const Parameter& parameter, bool value);
  void whole(const Parameter& parameter, std::int64_t value);
  void real(const Parameter& parameter, double value);
  /// A name of a number, or a text of device code, which is copied.
  void word(const Parameter& parameter, std::string_view value);

  const Signature& signature() const noexcept { return *signature_; }
  /// Was an argument refused for its kind, such as a number in a tensor's place?
  bool wrong_kind() const noexcept { return wrong_kind_; }
  /// Null for a tensor that is not there.
  const tj_tensor* tensor(std::string_view name) const;
  /// The number of a word or a flag that is an argument; 0 where it is not given.
  std::int32_t number(std::string_view name) const;
  /// The same tensor, whose rank shapes of results are made of. Throws tj::Error(argument).
  const tj_tensor& with_rank(std::string_view name, int least, int most) const;
  /// The first tensor. Throws tj::Error(argument) for a call without any.
  const tj_tensor& first() const;

  void run(Stream stream) const;
  /// Gets the call's kernels ready; nothing is launched, and no memory is looked at.
  void prepare() const;
  /// A hash of all that decides the call's kernels: everything but addresses, of which 8 bits count.
  std::uint64_t kind() const noexcept;

 private:
  static constexpr std::size_t kMostParameters = 24, kMostBytes = 256;

  [[noreturn]] void refuse_kind(const Parameter& parameter, const std::string& given);
  template <class Value>
  void put(std::size_t offset, const Value& value);
  std::size_t place_of(const Parameter& parameter) const noexcept;
  void check_complete() const;
  void text(const Parameter& parameter, std::string_view value);

  const Signature* signature_;
  alignas(8) std::array<std::byte, kMostBytes> structure_{};
  std::array<tj_tensor, kMostParameters> tensors_{};
  std::array<bool, kMostParameters> given_{};
  std::array<std::string, kMostParameters> texts_{};  ///< that the structure points at
  bool wrong_kind_ = false;
};

/// For messages: "a tensor, or None".
std::string allowed_for(const Parameter& parameter);
/// The op's arguments in order, for messages: "q, k, v, o, lse, causal, scale".
std::string names_of(const Signature& signature);
/// [least, most] arguments by position: those behind the last needed one may be left out.
std::pair<std::size_t, std::size_t> counts_of(const Signature& signature) noexcept;

}  // namespace tj::ffi
