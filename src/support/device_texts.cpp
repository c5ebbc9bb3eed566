// See device_texts.hpp.
#include "support/device_texts.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using support::cat;

struct Compare {
  using is_transparent = void;
  static std::string_view view(const DeviceText::Kept& kept) { return kept.text; }
  static std::string_view view(std::string_view text) { return text; }
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return view(a) < view(b);
  }
};
struct Texts {
  support::Mutex mutex;
  std::set<DeviceText::Kept, Compare> kept;
};
Texts& texts() {
  static constinit support::Lasting<Texts> all;
  return all.get();
}

/// Does the quote at this place part the digits of a number? Example: 0xFF'FF.
bool parts_digits(std::string_view code, std::size_t quote) {
  std::size_t begin = quote;
  while (begin > 0 && (support::is_word_letter(code[begin - 1]) || code[begin - 1] == '.' || code[begin - 1] == '\''))
    --begin;
  while (begin < quote && code[begin] == '.') ++begin;
  return begin < quote && support::is_digit(code[begin]);
}

/// The code of a text: comments, and what stands in quotes, are blanks; line ends stay. A comment that does not end
/// stays as it is.
std::string code_of(std::string_view text) {
  std::string code(text);
  for (std::size_t i = 0; i < code.size();) {
    std::size_t end = i + 1;
    if (code.compare(i, 2, "//") == 0) {
      end = std::min(code.find('\n', i), code.size());
    } else if (code.compare(i, 2, "/*") == 0) {
      const std::size_t close = code.find("*/", i + 2);
      if (close == std::string::npos) return code;
      end = close + 2;
    } else if (code[i] == '"' || (code[i] == '\'' && !parts_digits(code, i))) {
      while (end < code.size() && code[end] != code[i]) end += code[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, code.size());
    } else {
      i = end;
      continue;
    }
    for (; i < end; ++i)
      if (code[i] != '\n') code[i] = ' ';
  }
  return code;
}

bool has_word(const std::string& code, std::string_view word) {
  for (std::size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !support::is_word_letter(code[at - 1])) &&
        (end == code.size() || !support::is_word_letter(code[end])))
      return true;
  }
  return false;
}

/// The first bracket without its other half, by its line; or nothing.
std::string unmatched(const std::string& code) {
  constexpr std::string_view kOpen = "({[", kClose = ")}]";
  std::vector<std::pair<char, int>> open;
  int line = 1;
  for (const char c : code) {
    line += c == '\n' ? 1 : 0;
    if (kOpen.find(c) != std::string_view::npos) open.emplace_back(c, line);
    const std::size_t close = kClose.find(c);
    if (close == std::string_view::npos) continue;
    if (open.empty() || open.back().first != kOpen[close]) return cat("'", c, "' in line ", line);
    open.pop_back();
  }
  return open.empty() ? std::string() : cat("'", open.back().first, "' in line ", open.back().second);
}

/// A line that the preprocessor joins with the next one, which may be the library's.
bool joins_lines(std::string_view text) {
  for (std::size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at + 1)) {
    const std::size_t next = text.find_first_not_of(" \t", at + 1);
    if (next == std::string_view::npos || text[next] == '\n') return true;
  }
  return false;
}

/// A raw string may have quotes inside that do not end it.
bool has_raw_string(std::string_view text, const std::string& code) {
  for (std::size_t at = text.find("R\""); at != std::string_view::npos; at = text.find("R\"", at + 1))
    if (code[at] == 'R') return true;
  return false;
}

/// Another spelling of a bracket or of a directive, if the code has one.
std::string_view digraph_in(const std::string& code) {
  for (const std::string_view each : {"%:", "<%", "%>", "<:", ":>"})
    if (code.find(each) != std::string::npos) return each;
  return {};
}

bool is_empty(const std::string& code) {
  return std::all_of(code.begin(), code.end(), [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
}

std::string problem_of(std::string_view text, const std::string& code) {
  if (text.size() > support::kMostDeviceText)
    return cat("has ", text.size(), " characters; allowed: at most ", support::kMostDeviceText);
  const auto plain = [](char c) { return c == '\n' || c == '\t' || (c >= ' ' && c <= '~'); };
  if (!std::all_of(text.begin(), text.end(), plain))
    return "has a character that is not printable ASCII; allowed: such characters, blanks and line ends";
  if (is_empty(code)) return "is empty; allowed: the body of a function";
  if (code.find("/*") != std::string::npos) return "has a comment that does not end; allowed: comments that do";
  if (has_raw_string(text, code)) return "has a raw string; allowed: other strings";
  if (const std::string_view digraph = digraph_in(code); !digraph.empty())
    return cat("has '", digraph,
               "', another spelling of a bracket or a directive; allowed: brackets, or a blank in between");
  if (const std::string bracket = unmatched(code); !bracket.empty())
    return cat("has ", bracket, " without its other half; allowed: brackets that match");
  if (code.find('#') != std::string::npos || joins_lines(text))
    return "has a directive of the preprocessor or a line that goes on; allowed: statements";
  return {};
}

DeviceText::Kept known(std::string_view text) {
  DeviceText::Kept kept;
  kept.text = text.substr(0, support::kMostDeviceText + 1);
  const std::string code = code_of(kept.text);
  kept.problem = problem_of(text, code);
  kept.empty = is_empty(code);
  kept.returns = has_word(code, "return");
  kept.reads_params = has_word(code, "params");
  for (const char c : code)
    kept.operations += std::string_view("+-*/<>?&|%(").find(c) != std::string_view::npos ? 1 : 0;
  return kept;
}

}  // namespace

DeviceText::DeviceText(std::string_view text) {
  Texts& all = texts();
  const std::lock_guard lock(all.mutex);
  auto found = all.kept.find(text);
  if (found == all.kept.end()) found = all.kept.insert(known(text)).first;
  kept_ = &*found;
}

std::string_view DeviceText::text() const { return kept_ == nullptr ? std::string_view() : kept_->text; }

}  // namespace tj
