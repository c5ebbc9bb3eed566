// Helpers that reports share: printf's formats as text, and lists of JSON that may be missing.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace tj::samples {

/// At most 239 bytes.
template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[240];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

/// root[key], or nothing where that is no list.
inline const nlohmann::ordered_json& list(const nlohmann::ordered_json& root, const char* key) {
  static const nlohmann::ordered_json empty = nlohmann::ordered_json::array();
  return root.is_object() && root.contains(key) && root[key].is_array() ? root[key] : empty;
}

}  // namespace tj::samples
