// See text.hpp.
#include "support/text.hpp"

#include <algorithm>
#include <cstdio>

#include "support/fail.hpp"

namespace tj::support {
namespace {

constexpr std::size_t kMostOfPath = 400;
// Longer texts are no misspelt names; comparing takes the product of both lengths.
constexpr std::size_t kMostCompared = 64;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string escaped(unsigned char c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  char text[8];
  std::snprintf(text, sizeof text, "\\x%02x", c);
  return text;
}

/// Bytes of the character that begins here, as the Unicode Standard's table 3-7 has them; 0 where no UTF-8 begins.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  const unsigned low = first == 0xE0   ? 0xA0
                       : first == 0xF0 ? 0x90
                                       : 0x80,
                 high = first == 0xED   ? 0x9F
                        : first == 0xF4 ? 0x8F
                                        : 0xBF;
  if (bytes == 0 || byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < bytes; ++i)
    if (i >= text.size() || !continues(text[i])) return 0;
  return bytes;
}

/// Letters to change until one is the other, where two exchanged neighbours count once.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before, last(to.size() + 1), now(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const bool same = lower(from[i - 1]) == lower(to[j - 1]);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool exchanged =
          i > 1 && j > 1 && lower(from[i - 1]) == lower(to[j - 2]) && lower(from[i - 2]) == lower(to[j - 1]);
      if (exchanged) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, now);
  }
  return last[to.size()];
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const std::size_t bytes = character_bytes(text), taken = std::max<std::size_t>(bytes, 1);
    const bool control = c == 0xC2 && bytes == 2 && static_cast<unsigned char>(text[1]) < 0xA0;  // terminals obey these
    if (control)
      line += escaped(static_cast<unsigned char>(text[1]));
    else if (bytes == 0 || c < 0x20 || c == 0x7F)
      line += escaped(c);
    else
      line += text.substr(0, taken);
    text.remove_prefix(taken);
  }
  return line;
}

std::string shown(std::string_view text, std::size_t most) {
  if (text.size() <= most) return one_line(text);
  std::size_t end = most;
  while (end > 0 && most - end < 3 && continues(text[end])) --end;  // no character has more bytes after its first
  return cat(one_line(text.substr(0, end)), "... (", text.size(), " bytes)");
}

std::string shown_path(std::string_view path) { return shown(path, kMostOfPath); }

std::string nearest(std::string_view given, const std::vector<std::string>& names) {
  if (given.size() > kMostCompared) return {};
  std::string best;
  std::size_t least = kMostCompared;
  for (const std::string& name : names) {
    const std::size_t shorter = std::min(given.size(), name.size());
    const std::size_t allowed = shorter < 2 ? 0 : std::max<std::size_t>(1, shorter / 4);
    if (name.size() > kMostCompared || name.size() > given.size() + allowed || given.size() > name.size() + allowed)
      continue;
    const std::size_t errors = distance(given, name);
    if (errors > allowed || errors >= least) continue;
    least = errors;
    best = name;
  }
  return best;
}

std::string meant(std::string_view given, const std::vector<std::string>& names) {
  const std::string name = nearest(given, names);
  return name.empty() ? std::string() : cat("; did you mean '", name, "'?");
}

}  // namespace tj::support
