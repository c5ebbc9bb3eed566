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
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]),
               next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    if (c < 0x20 || c == 0x7F) {
      line += escaped(c);
    } else if (c == 0xC2 && next >= 0x80 && next < 0xA0) {  // terminals obey these as well
      line += escaped(next);
      ++i;
    } else {
      line += text[i];
    }
  }
  return line;
}

std::string shown(std::string_view text, std::size_t most) {
  if (text.size() <= most) return one_line(text);
  std::size_t end = most;
  while (end > 0 && continues(text[end])) --end;
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
