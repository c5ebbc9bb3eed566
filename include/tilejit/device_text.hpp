// A few lines of device code that a call brings along, such as the body of a score modification.
//
// Decides how such a text is held: once in a process, so that descriptors copy an address. Does not decide where a text
// may stand, nor what it is told (fmha.hpp).
#pragma once

#include <string>
#include <string_view>

#include <tilejit/export.hpp>

namespace tj {

/// The body of a function in C++, without its braces: "return k <= q;". Equal texts are one. A text is kept until the
/// process ends, so put into a buffer what changes from call to call. Construction may throw std::bad_alloc; what is
/// wrong with a text is said by the call that has it. Thread safe.
class DeviceText {
 public:
  /// A text as the library keeps it.
  struct Kept;

  DeviceText() = default;  ///< no text
  TJ_API DeviceText(std::string_view text);
  DeviceText(const char* text) : DeviceText(std::string_view(text)) {}
  DeviceText(const std::string& text) : DeviceText(std::string_view(text)) {}

  bool given() const { return kept_ != nullptr; }
  TJ_API std::string_view text() const;  ///< empty without one
  const Kept* kept() const { return kept_; }
  friend bool operator==(const DeviceText&, const DeviceText&) = default;

 private:
  const Kept* kept_ = nullptr;
};

}  // namespace tj
