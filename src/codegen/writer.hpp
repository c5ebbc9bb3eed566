// Indented text, and nothing else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "support/fail.hpp"

namespace tj::codegen {

class Writer {
 public:
  template <class... Parts>
  void line(const Parts&... parts) {
    text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
    text_ += support::cat(parts...);
    text_ += '\n';
  }
  /// A line without indentation, or several.
  template <class... Parts>
  void bare(const Parts&... parts) {
    text_ += support::cat(parts...);
    text_ += '\n';
  }
  /// Number of lines that are there.
  std::ptrdiff_t lines() const { return std::count(text_.begin(), text_.end(), '\n'); }
  void blank() { text_ += '\n'; }
  template <class... Parts>
  void open(const Parts&... parts) {
    line(parts..., parts_end(), "{");
    ++depth_;
  }
  void close(const char* tail = "") {
    --depth_;
    line("}", tail);
  }
  /// "} else if (...) {"
  template <class... Parts>
  void next(const Parts&... parts) {
    --depth_;
    line("} ", parts..., " {");
    ++depth_;
  }
  const std::string& text() const { return text_; }

 private:
  static const char* parts_end() { return " "; }
  std::string text_;
  int depth_ = 0;
};

}  // namespace tj::codegen
