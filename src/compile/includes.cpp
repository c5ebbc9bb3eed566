// See includes.hpp.
#include "compile/includes.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

namespace tj::compile {
namespace {

constexpr std::string_view kBlanks = " \t\r\f\v", kWord = "include", kDefine = "define";

std::string_view trimmed(std::string_view line) {
  const std::size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }
bool may_be_directive(std::string_view line) { return has(line, "#") || has(line, "%:") || has(line, "?\?="); }

/// The name of a line such as `#include "tiles.cuh"`; none for any other.
std::optional<std::string_view> simple_include(std::string_view line) {
  if (!line.starts_with("#")) return std::nullopt;
  line = trimmed(line.substr(1));
  if (!line.starts_with(kWord)) return std::nullopt;
  line = trimmed(line.substr(kWord.size()));
  if (line.size() < 2 || (line[0] != '"' && line[0] != '<')) return std::nullopt;
  const std::size_t end = line.find(line[0] == '<' ? '>' : '"', 1);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view name = line.substr(1, end - 1), rest = trimmed(line.substr(end + 1));
  const bool plain = !has(name, "..") && !has(name, "./") && !has(name, "//") && !has(name, "\\");
  return plain && (rest.empty() || rest.starts_with("//")) ? std::optional(name) : std::nullopt;
}

/// A line such as `#define NAME(x) \`.
bool is_define(std::string_view line) {
  if (!line.starts_with("#")) return false;
  line = trimmed(line.substr(1));
  return line.size() > kDefine.size() && line.starts_with(kDefine) &&
         kBlanks.find(line[kDefine.size()]) != kBlanks.npos;
}

/// Names that are included; none when a line may include something in another way.
std::optional<std::vector<std::string_view>> names_in(std::string_view text) {
  std::vector<std::string_view> names;
  bool goes_on = false;   // the line before ends with a backslash
  bool of_macro = false;  // it goes on from a macro's first line for certain: a `#` is the macro's own
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end), line = trimmed(whole);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool continued = line.ends_with('\\') || line.ends_with("?\?/");
    of_macro = (goes_on ? of_macro : continued && is_define(line)) && !has(line, "*/") &&
               (!continued || whole.ends_with('\\') || whole.ends_with("\\\r"));
    const auto name = goes_on || continued ? std::nullopt : simple_include(line);
    if (name)
      names.push_back(*name);
    else if (has(line, kWord) && (goes_on || may_be_directive(line)))
      return std::nullopt;
    else if (continued && may_be_directive(line) && !of_macro && !has(line, "define"))
      return std::nullopt;
    goes_on = continued;
  }
  return names;
}

bool is_named(std::string_view path, std::string_view name) {
  return path == name ||
         (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '/');
}

}  // namespace

std::vector<Header> included_by(std::string_view text, const std::vector<Header>& headers) {
  std::vector<bool> taken(headers.size(), false);
  std::vector<std::string_view> texts = {text};
  while (!texts.empty()) {
    const auto names = names_in(texts.back());
    texts.pop_back();
    if (!names) return headers;
    for (const std::string_view name : *names)
      for (std::size_t i = 0; i < headers.size(); ++i) {
        if (taken[i] || !is_named(headers[i].name, name)) continue;
        taken[i] = true;
        texts.push_back(headers[i].text);
      }
  }
  std::vector<Header> included;
  for (std::size_t i = 0; i < headers.size(); ++i)
    if (taken[i]) included.push_back(headers[i]);
  return included;
}

}  // namespace tj::compile
