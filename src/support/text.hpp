// Users' texts in messages: on one line and of bounded length; and which name of a list was probably meant.
//
// Decides how control characters are written, how much of a long text is shown, and how near a name must be. Knows no
// list of names. Invariant: what comes back has no control character, so no value can pass for a second line of a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tj::support {

// Characters of ASCII, whatever the program's locale says of others (and of the Turkish i).
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
/// A letter, a digit or an underscore.
constexpr bool is_word_letter(char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '_'; }

/// Control characters, and bytes that are no UTF-8, as "\n", "\t", "\x1b", "\xff"; all else as it is.
std::string one_line(std::string_view text);

/// A line of at most `most` bytes of the text, cut between characters: "aaaa... (100000 bytes)".
std::string shown(std::string_view text, std::size_t most = 100);
/// A path as one line, which is cut much later than a text.
std::string shown_path(std::string_view path);

/// "sm_90a" for "sm90a": the name that fewest typing errors lead from, when so few that it was probably meant; else
/// empty. An error is a letter too many, too few, another one, or two exchanged; upper and lower case are the same.
std::string nearest(std::string_view given, const std::vector<std::string>& names);
/// "; did you mean 'sm_90a'?" or nothing.
std::string meant(std::string_view given, const std::vector<std::string>& names);

}  // namespace tj::support
