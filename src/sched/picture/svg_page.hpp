// Marks on an SVG page: shapes, text whose width is known, names made safe.
//
// Decides how text is escaped, shortened and wrapped. Knows no schedules. Invariant: the result is well-formed XML, the
// same on every machine; text is monospaced, so that its width is a count of columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tj::sched {

/// Tenths of a pixel.
using Tenths = std::int64_t;

constexpr Tenths kColumn = 67;       ///< of 11 px text
constexpr Tenths kSmallColumn = 61;  ///< of 10 px text

/// Columns that a text takes; wide letters count double, broken UTF-8 one a byte.
int columns(std::string_view text);
/// At most `limit` columns: the middle gives way to one ellipsis. Empty below two columns.
std::string shortened(std::string_view text, int limit);
/// Lines of at most `limit` columns, broken at blanks where there are any.
std::vector<std::string> wrapped(std::string_view text, int limit);
/// Fit for text and attributes; what XML 1.0 does not allow becomes a question mark.
std::string escaped(std::string_view text);

/// The classes of all marks.
extern const char* const kPageStyle;

class Page {
 public:
  void open(std::string_view title);  ///< a group with a tooltip
  void close() { body_ += "</g>\n"; }
  void rect(Tenths x, int y, Tenths width, int height, std::string_view css);
  void line(Tenths x1, int y1, Tenths x2, int y2, std::string_view css);
  void text(Tenths x, int y, std::string_view content, std::string_view css = {});
  void append(const Page& other) { body_ += other.body_; }
  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

}  // namespace tj::sched
