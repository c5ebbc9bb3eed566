// Bounded logs: the part that is kept of a text that others write, however long it is.
//
// Decides that its start and its end stay: the first errors and the reason to stop stand there. Invariant: memory has a
// bound that does not depend on the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tj::support {

class BoundedLog {
 public:
  static constexpr std::size_t kKept = std::size_t{1} << 20;  ///< bytes of the start, and as many of the end
  explicit BoundedLog(std::size_t kept = kKept) : kept_(kept) {}

  void append(std::string_view bytes);
  /// The whole text, or its start and end with a line between them that says how many bytes are left out.
  std::string text() const;

 private:
  std::size_t kept_;
  std::string head_, tail_;
  std::uint64_t dropped_ = 0;  ///< between the two
};

}  // namespace tj::support
