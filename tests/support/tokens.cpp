// See tokens.hpp.
#include "support/tokens.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace tj::testing {
namespace {

// Longest first. Tokens that begin with '>' are left out: a single '>' is one token.
constexpr std::array<std::string_view, 24> kPunctuators = {
    "<<=", "<=>", "...", "->*", "<<", "<=", "->", "::", "++", "--", "&&", "||",
    "==",  "!=",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "##", ".*"};

std::string without_continuations(std::string_view text) {
  std::string joined;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\n')
      ++i;
    else
      joined += text[i];
  }
  return joined;
}

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(without_continuations(text)) {}

  Tokens read() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\n')
        end_line();
      else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
        ++at_;
      else if (begins("//"))
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (begins("/*"))
        at_ = found("*/", at_ + 2) + 2;
      else
        take();
    }
    end_line();
    std::sort(includes_.begin(), includes_.end());
    return {std::move(tokens_), std::move(includes_)};
  }

 private:
  bool begins(std::string_view mark) const { return std::string_view(text_).substr(at_, mark.size()) == mark; }
  std::size_t found(std::string_view mark, std::size_t from) const {
    const std::size_t place = text_.find(mark, from);
    if (place == text_.npos) throw std::invalid_argument("no '" + std::string(mark) + "' up to the end of the text");
    return place;
  }

  void end_line() {
    ++at_;
    if (directive_ == kNone) return;
    if (tokens_.size() == directive_ + 3 && tokens_[directive_ + 1] == "include" && tokens_.back().front() == '"') {
      includes_.push_back(tokens_.back().substr(1, tokens_.back().size() - 2));
      tokens_.resize(directive_);
    } else {
      tokens_.emplace_back("\n");
    }
    directive_ = kNone;
  }

  void take() {
    const char c = text_[at_];
    if (c == '#' && directive_ == kNone && (at_ == 0 || first_of_line())) directive_ = tokens_.size();
    if (c == '"' || c == '\'')
      take_literal(c);
    else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])))
      take_number();
    else if (in_word(c))
      take_word();
    else
      take_punctuator();
  }

  bool first_of_line() const {
    std::size_t before = at_;
    while (before > 0 && (text_[before - 1] == ' ' || text_[before - 1] == '\t')) --before;
    return before == 0 || text_[before - 1] == '\n';
  }

  void take_literal(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size() || text_[end] != quote) throw std::invalid_argument("a literal has no end");
    const std::string literal = text_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    if (quote == '"' && !tokens_.empty() && tokens_.back().front() == '"')
      tokens_.back() = tokens_.back().substr(0, tokens_.back().size() - 1) + literal.substr(1);
    else
      tokens_.push_back(literal);
  }

  void take_number() {
    const std::size_t begin = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_], before = at_ > begin ? text_[at_ - 1] : ' ';
      const bool sign = (c == '+' || c == '-') && (before == 'e' || before == 'E' || before == 'p' || before == 'P') &&
                        !hexadecimal(begin, before);
      if (!in_word(c) && c != '.' && c != '\'' && !sign) break;
      ++at_;
    }
    tokens_.push_back(text_.substr(begin, at_ - begin));
  }
  /// In 0x1e+2 the sign is an operator.
  bool hexadecimal(std::size_t begin, char exponent) const {
    return text_[begin] == '0' && (text_[begin + 1] == 'x' || text_[begin + 1] == 'X') && exponent != 'p' &&
           exponent != 'P';
  }

  void take_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (at_ < text_.size() && text_[at_] == '"' && word.back() == 'R')
      throw std::invalid_argument("raw string literals are not read here");
    const bool defined = directive_ != kNone && tokens_.size() == directive_ + 2 && tokens_.back() == "define";
    tokens_.push_back(word);
    if (defined && at_ < text_.size() && text_[at_] == '(') tokens_.back() += text_[at_++];
  }

  void take_punctuator() {
    for (const std::string_view mark : kPunctuators)
      if (begins(mark)) {
        tokens_.emplace_back(mark);
        at_ += mark.size();
        return;
      }
    tokens_.emplace_back(1, text_[at_++]);
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::string text_;
  std::size_t at_ = 0;
  std::size_t directive_ = kNone;  ///< the index of its '#' among the tokens, while its line lasts
  std::vector<std::string> tokens_, includes_;
};

}  // namespace

Tokens tokens_of(std::string_view text) { return Reader(text).read(); }

}  // namespace tj::testing
