// Texts of device code that users bring (tilejit/device_text.hpp): what is known of each.
//
// Decides which texts may be compiled at all: not empty, not too long, plain characters, brackets that match, no way
// out of the function that they are put into. Does not decide what a compiler says of them. Invariant: an entry never
// moves and never ends.
#pragma once

#include <cstddef>
#include <string>

#include <tilejit/device_text.hpp>

namespace tj {

struct DeviceText::Kept {
  std::string text;
  std::string problem;        ///< why it cannot be compiled, with what is allowed; empty: it may be tried
  bool empty = false;         ///< it has no code; `problem` says so
  bool returns = false;       ///< it has the word `return`
  bool reads_params = false;  ///< it has the word `params`
  int operations = 0;         ///< operators and calls, for predictions
};

namespace support {

inline constexpr std::size_t kMostDeviceText = 2048;  ///< characters

}  // namespace support
}  // namespace tj
