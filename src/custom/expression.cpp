// See expression.hpp. One pass from left to right, without a tree.
#include "custom/expression.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <vector>

#include "support/text.hpp"

namespace tj {
namespace {

using support::is_digit;
using support::is_word_letter;
using support::shown;

constexpr int kMaxDepth = 32;  ///< of parentheses and signs
constexpr std::size_t kMaxArguments = 16;

class Evaluator {
 public:
  Evaluator(std::string_view text, const Numbers& numbers, const graph::Fields& fields, const std::string& place)
      : text_(text), numbers_(numbers), fields_(fields), place_(place) {}

  double value() {
    if (text_.size() > kMaxExpressionBytes)
      fields_.reject(place_, " is an expression of ", text_.size(), " bytes; at most ", kMaxExpressionBytes,
                     " are allowed");
    const double result = sum();
    next();
    if (at_ < text_.size()) reject("'", shown(text_.substr(at_, 1)), "' is not expected there");
    return result;
  }

 private:
  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    fields_.reject(place_, " is '", shown(text_), "': ", parts...);
  }

  /// The next character behind spaces; 0 at the end.
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (next() != wanted) return false;
    ++at_;
    return true;
  }
  void need(char wanted) {
    if (!take(wanted)) reject("'", std::string_view(&wanted, 1), "' is missing at byte ", at_ + 1);
  }
  double finite(double value) const {
    if (!std::isfinite(value)) reject("a part of it is no finite number; divide by no 0");
    return value;
  }

  double sum() {
    double value = product();
    for (;;) {
      if (take('+'))
        value = finite(value + product());
      else if (take('-'))
        value = finite(value - product());
      else
        return value;
    }
  }
  double product() {
    double value = signed_value();
    for (;;) {
      if (take('*'))
        value = finite(value * signed_value());
      else if (take('/'))
        value = finite(value / signed_value());
      else
        return value;
    }
  }
  double signed_value() {
    if (++depth_ > kMaxDepth) reject("it is nested deeper than ", kMaxDepth, " levels");
    const double value = take('-') ? -signed_value() : atom();
    --depth_;
    return value;
  }
  double atom() {
    if (take('(')) {
      const double value = sum();
      need(')');
      return value;
    }
    const char first = next();
    if (is_digit(first) || first == '.') return number();
    if (is_word_letter(first)) return named();
    if (at_ == text_.size()) reject("it ends where a number or a name is expected");
    reject("a number or a name is expected at byte ", at_ + 1);
  }
  double number() {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value, std::chars_format::fixed);
    if (error != std::errc()) reject("a number is expected at byte ", at_ + 1);
    at_ += static_cast<std::size_t>(end - begin);
    return finite(value);
  }
  double named() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word_letter(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (take('(')) return call(name);
    const auto found = numbers_.values.find(name);
    if (found != numbers_.values.end()) return found->second;
    std::vector<std::string> names;
    std::string known;
    for (const auto& [each, value] : numbers_.values) {
      names.push_back(each);
      known += (known.empty() ? "" : ", ") + each;
    }
    reject("there is no '", shown(name), "'; ", numbers_.owner, " has ",
           known.empty() ? "no facts and no parameters" : shown(known, 1500), support::meant(name, names));
  }
  double call(std::string_view name) {
    std::vector<double> values = {sum()};
    while (take(',')) {
      values.push_back(sum());
      if (values.size() > kMaxArguments) reject("'", name, "' has more than ", kMaxArguments, " arguments");
    }
    need(')');
    if (name == "min") return *std::min_element(values.begin(), values.end());
    if (name == "max") return *std::max_element(values.begin(), values.end());
    const bool rounds = name == "ceil" || name == "floor";
    if (!rounds) reject("there is no function '", shown(name), "'; allowed are min, max, ceil, floor");
    if (values.size() != 1) reject("'", name, "' has ", values.size(), " arguments; allowed is one");
    return name == "ceil" ? std::ceil(values[0]) : std::floor(values[0]);
  }

  const std::string_view text_;
  const Numbers& numbers_;
  const graph::Fields& fields_;
  const std::string& place_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

double evaluate(std::string_view text, const Numbers& numbers, const graph::Fields& fields, const std::string& place) {
  return Evaluator(text, numbers, fields, place).value();
}

}  // namespace tj
