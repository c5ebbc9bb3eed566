// Fields of an entry as lines of text, "name=value", for fuzz targets and their corpora.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "cache/cache.hpp"

namespace tj::testing {

inline cache::Fields fields_of_text(std::string_view text) {
  cache::Fields fields;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t equals = std::min(line.find('='), line.size());
    fields.emplace_back(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return fields;
}

}  // namespace tj::testing
