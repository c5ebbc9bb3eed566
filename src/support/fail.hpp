// The one way to raise tj::Error, and to build messages.
#pragma once

#include <string>
#include <tilejit/error.hpp>

#include "support/text_stream.hpp"

namespace tj::support {

/// Joins anything streamable into one string.
template <class... Parts>
std::string cat(const Parts&... parts) {
  TextStream out;
  (out << ... << parts);
  return out.str();
}

[[noreturn]] void fail(Stage stage, Code code, std::string message, std::string log = {}, std::string source_path = {});

}  // namespace tj::support
