// Protects what stays of a long text: its start, its end and the number of bytes between them.
#include "support/bounded_log.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using tj::support::BoundedLog;

TEST_CASE("a text that fits stays as it is, in whatever pieces it comes") {
  BoundedLog log(4);
  CHECK(log.text().empty());
  for (const char* piece : {"ab", "", "cdef", "gh"}) log.append(piece);
  CHECK(log.text() == "abcdefgh");
}

TEST_CASE("a longer one has its start, its end, and between them how much is left out") {
  for (const std::size_t piece : {1, 3, 100}) {
    BoundedLog log(4);
    std::string text = "abc\n";
    for (int i = 0; i < 500; ++i) text += static_cast<char>('a' + i % 26);
    for (std::size_t at = 0; at < text.size(); at += piece) log.append(std::string_view(text).substr(at, piece));
    CHECK(log.text() == "abc\n[496 bytes are left out here]\n" + text.substr(text.size() - 4));
  }
  BoundedLog unbroken(2);
  unbroken.append("abcdef");
  CHECK(unbroken.text() == "ab\n[2 bytes are left out here]\nef");
}

}  // namespace
