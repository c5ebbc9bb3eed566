// Protects how users' texts stand in messages: on one line, of bounded length, whole characters; and which names are
// taken for misspelt.
#include "support/text.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "support/log.hpp"

using namespace tj;
using support::meant;
using support::nearest;
using support::one_line;
using support::shown;

TEST_CASE("control characters are written out, all else stays") {
  CHECK(one_line("sm_90a\n[info] fake") == "sm_90a\\n[info] fake");
  CHECK(one_line("\x1b[2J\r\t\x7f") == "\\x1b[2J\\r\\t\\x7f");
  CHECK(one_line("a\xc2\x9b"
                 "31m") == "a\\x9b31m");  // CSI of the C1 set, as UTF-8
  CHECK(one_line(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(one_line("Grüße, \"x\" 'y' \\n") == "Grüße, \"x\" 'y' \\n");
  CHECK(one_line("") == "");
  CHECK(one_line("\x1f ~") == "\\x1f ~");
  CHECK(one_line("\xc2\x80.\xc2\x9f.\xc2\xa0.\xc3\x9f.\xc3\x80") ==
        "\\x80.\\x9f.\xc2\xa0.\xc3\x9f.\xc3\x80");  // the second set ends there, and other letters share its last bytes
}

TEST_CASE("bytes that are no UTF-8 are written out, each by itself") {
  CHECK(one_line("a\xff"
                 "b") == "a\\xffb");
  CHECK(one_line("a\xc2") == "a\\xc2");  // cut off
  CHECK(one_line("\xe2\x82.\xe2\x82\xac") == "\\xe2\\x82.\xe2\x82\xac");
  CHECK(one_line("\xf0\x9f\x98\x80\xf0\x9f\x98") == "\xf0\x9f\x98\x80\\xf0\\x9f\\x98");
  CHECK(one_line("\x80\xbf\xc0\xaf\xc1\xbf") == "\\x80\\xbf\\xc0\\xaf\\xc1\\xbf");  // two bytes for what one says
  CHECK(one_line("\xe0\x9f\xbf.\xe0\xa0\x80") == "\\xe0\\x9f\\xbf.\xe0\xa0\x80");
  CHECK(one_line("\xed\xa0\x80.\xed\x9f\xbf") == "\\xed\\xa0\\x80.\xed\x9f\xbf");  // half a pair of UTF-16
  CHECK(one_line("\xf0\x8f\xbf\xbf.\xf4\x90\x80\x80.\xf4\x8f\xbf\xbf") ==
        "\\xf0\\x8f\\xbf\\xbf.\\xf4\\x90\\x80\\x80.\xf4\x8f\xbf\xbf");  // beyond the last character
  CHECK(one_line("\xf5\x80\x80\x80") == "\\xf5\\x80\\x80\\x80");
  CHECK(shown(std::string(200, '\x80'), 4) == "\\x80... (200 bytes)");  // no character is longer than four bytes
}

TEST_CASE("a long text is cut between characters, and its length said") {
  CHECK(shown(std::string(100, 'x')) == std::string(100, 'x'));
  CHECK(shown(std::string(100000, 'x')) == std::string(100, 'x') + "... (100000 bytes)");
  CHECK(shown("aüü", 2) == "a... (5 bytes)");
  CHECK(shown("aüü", 3) == "aü... (5 bytes)");
  CHECK(shown(std::string(101, 'x')) == std::string(100, 'x') + "... (101 bytes)");
  CHECK(support::shown_path("/" + std::string(300, 'p')).size() == 301);
  CHECK(support::shown_path(std::string(400, 'p')) == std::string(400, 'p'));
  CHECK(support::shown_path(std::string(401, 'p')) == std::string(400, 'p') + "... (401 bytes)");
}

TEST_CASE("names with a few typing errors are found, others are not") {
  const std::vector<std::string> names = {"sm_90a",        "sm_90", "gfx1100", "graph",
                                          "graph-example", "op",    "k",       "chunk_indices"};
  CHECK(nearest("sm90a", names) == "sm_90a");
  CHECK(nearest("GFX1100", names) == "gfx1100");
  CHECK(nearest("grpah", names) == "graph");
  CHECK(nearest("ops", names) == "op");
  CHECK(nearest("po", names) == "op");
  CHECK(nearest("chunk_indeces", names) == "chunk_indices");
  CHECK(nearest("chunkindxs", names).empty());
  CHECK(nearest("conv", names).empty());
  CHECK(nearest("gfx1030", names).empty());
  CHECK(nearest("m", names).empty());
  CHECK(nearest("", names).empty());
  CHECK(nearest(std::string(100000, 'g'), names).empty());
  CHECK(nearest("rgaph", names) == "graph");
  CHECK(nearest("grahp", names) == "graph");
  CHECK(nearest("rgahp", names).empty());  // two mistakes in five letters
  CHECK(nearest("j", names).empty());
  CHECK(nearest("kk", names).empty());
  // One mistake for four letters, the shorter name's, and of names alike the first.
  CHECK(nearest("abcdxxgh", {"abcdefgh"}) == "abcdefgh");
  CHECK(nearest("abcxxxgh", {"abcdefgh"}).empty());
  CHECK(nearest("abcdxxg", {"abcdefg"}).empty());
  CHECK(nearest("abcdef", {"abcdefgh"}).empty());
  CHECK(nearest("abcdefgh", {"abcdef"}).empty());
  CHECK(nearest("abcdefghij", {"abcdefgh"}) == "abcdefgh");
  CHECK(nearest("abcf", {"abcd", "abce"}) == "abcd");
  CHECK(nearest("abcdefgx", {"abcdexxx", "abcdefgh"}) == "abcdefgh");
  const std::string longest(64, 'n'), longer(65, 'n');
  CHECK(nearest(longest.substr(1) + "m", {longest}) == longest);
  CHECK(nearest(longest, {longer}).empty());
  CHECK(nearest(longer, {longest}).empty());
  CHECK(meant("grpah", names) == "; did you mean 'graph'?");
  CHECK(meant("colour", names).empty());
}

TEST_CASE("an error's message and a line of the log are one line each") {
  const Error error(Stage::argument, Code::invalid_argument, "TJ_TARGET is 'a\n[info] b'", "line 1\nline 2\n");
  CHECK(error.message == "TJ_TARGET is 'a\\n[info] b'");
  CHECK(std::string(error.what()).find('\n') == std::string::npos);
  CHECK(error.log == "line 1\nline 2\n");
  std::string said;
  support::Log(LogLevel::warn, [&](LogLevel, std::string_view text) { said = text; })(LogLevel::warn, "folder 'a\nb'");
  CHECK(said == "folder 'a\\nb'");
}
