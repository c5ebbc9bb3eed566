// See expression.hpp. The text becomes a list of nodes, each behind its arguments.
#include "custom/expression.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "support/text.hpp"

namespace tj {
namespace {

using support::is_digit;
using support::is_word_letter;
using support::shown;

constexpr int kMaxDepth = 32;  ///< of parentheses and signs
constexpr std::size_t kMaxArguments = 16;

struct NamedFunction {
  const char* name;
  double (*function)(double);
};
constexpr NamedFunction kFunctions[] = {
    {"ceil", [](double x) { return std::ceil(x); }}, {"floor", [](double x) { return std::floor(x); }},
    {"abs", [](double x) { return std::abs(x); }},   {"exp", [](double x) { return std::exp(x); }},
    {"log", [](double x) { return std::log(x); }},   {"sqrt", [](double x) { return std::sqrt(x); }},
    {"tanh", [](double x) { return std::tanh(x); }}, {"erf", [](double x) { return std::erf(x); }},
    {"sin", [](double x) { return std::sin(x); }},   {"cos", [](double x) { return std::cos(x); }}};
constexpr std::size_t kPlainFunctions = 2;  // ceil and floor: those of expressions

}  // namespace

class FormulaParser {
 public:
  FormulaParser(Formula& to, const Numbers& numbers, const FormulaScope* scope)
      : to_(to), text_(to.text_), numbers_(numbers), scope_(scope) {}

  void parse() {
    const std::size_t most = scope_ != nullptr ? kMaxFormulaBytes : kMaxExpressionBytes;
    if (text_.size() > most)
      to_.fields_.reject(to_.place_, " is an expression of ", text_.size(), " bytes; at most ", most, " are allowed");
    for (std::size_t i = 0; scope_ != nullptr && i < scope_->indices; ++i)
      variables_.push_back("i" + std::to_string(i));
    whole();
    next();
    if (at_ < text_.size()) to_.reject("'", shown(text_.substr(at_, 1)), "' is not expected there");
  }

 private:
  using Op = Formula::Op;
  using Node = Formula::Node;

  std::size_t add(Node node) {
    to_.nodes_.push_back(std::move(node));
    return to_.nodes_.size() - 1;
  }
  std::size_t number(double value) { return add({Op::number, finite(value), 0, nullptr, {}}); }
  double finite(double value) const {
    if (!std::isfinite(value)) to_.reject("a part of it is no finite number; divide by no 0");
    return value;
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
  bool take(std::string_view wanted) {
    next();
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }
  void need(char wanted) {
    if (!take(wanted)) to_.reject("'", std::string_view(&wanted, 1), "' is missing at byte ", at_ + 1);
  }

  /// A sum, in formulas also two of them compared: 1 where that is so, else 0.
  std::size_t whole() {
    const std::size_t left = sum();
    if (scope_ == nullptr) return left;
    if (take("<=")) return add({Op::less_equal, 0, 0, nullptr, {left, sum()}});
    if (take(">=")) return reversed(Op::less_equal, left);
    if (take("==")) return add({Op::equal, 0, 0, nullptr, {left, sum()}});
    if (take('<')) return add({Op::less, 0, 0, nullptr, {left, sum()}});
    if (take('>')) return reversed(Op::less, left);
    return left;
  }
  std::size_t reversed(Op op, std::size_t left) {
    const std::size_t right = sum();
    return add({op, 0, 0, nullptr, {right, left}});
  }
  std::size_t sum() {
    std::size_t value = product();
    for (;;) {
      const Op op = take('+') ? Op::add : take('-') ? Op::subtract : Op::number;
      if (op == Op::number) return value;
      const std::size_t right = product();
      value = add({op, 0, 0, nullptr, {value, right}});
    }
  }
  std::size_t product() {
    std::size_t value = signed_value();
    for (;;) {
      const Op op = take('*') ? Op::times : take('/') ? Op::divide : Op::number;
      if (op == Op::number) return value;
      const std::size_t right = signed_value();
      value = add({op, 0, 0, nullptr, {value, right}});
    }
  }
  std::size_t signed_value() {
    if (++depth_ > kMaxDepth) to_.reject("it is nested deeper than ", kMaxDepth, " levels");
    const bool negative = take('-');
    std::size_t value = negative ? signed_value() : atom();
    if (negative) value = add({Op::negate, 0, 0, nullptr, {value}});
    --depth_;
    return value;
  }
  std::size_t atom() {
    if (take('(')) {
      const std::size_t value = whole();
      need(')');
      return value;
    }
    const char first = next();
    if (is_digit(first) || first == '.') return literal();
    if (is_word_letter(first)) return named();
    if (at_ == text_.size()) to_.reject("it ends where a number or a name is expected");
    to_.reject("a number or a name is expected at byte ", at_ + 1);
  }
  std::size_t literal() {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value, std::chars_format::fixed);
    if (error != std::errc()) to_.reject("a number is expected at byte ", at_ + 1);
    at_ += static_cast<std::size_t>(end - begin);
    return number(value);
  }
  std::string_view word() {
    next();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word_letter(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::size_t named() {
    const std::string_view name = word();
    if (take('(')) return call(name);
    if (scope_ != nullptr && take('[')) return element(name);
    // The innermost name first, as in programs.
    for (std::size_t v = variables_.size(); v-- > 0;)
      if (variables_[v] == name) return add({Op::variable, 0, v, nullptr, {}});
    if (const auto found = numbers_.values.find(name); found != numbers_.values.end()) return number(found->second);
    if (scope_ != nullptr && scope_->random && name == "normal") return add({Op::normal, 0, 0, nullptr, {}});
    if (scope_ != nullptr && scope_->random && name == "uniform") return add({Op::uniform, 0, 0, nullptr, {}});
    unknown(name);
  }
  [[noreturn]] void unknown(std::string_view name) {
    std::vector<std::string> names = variables_;
    for (const auto& [each, value] : numbers_.values) names.push_back(each);
    if (scope_ != nullptr && scope_->random) names.insert(names.end(), {"normal", "uniform"});
    std::string known;
    for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
    to_.reject("there is no '", shown(name), "'; ", numbers_.owner, " has ",
               known.empty() ? "no facts and no parameters" : shown(known, 1500), support::meant(name, names));
  }

  std::size_t element(std::string_view name) {
    std::string known;
    for (std::size_t t = 0; t < scope_->tensors.size(); ++t) {
      const auto& [each, rank] = scope_->tensors[t];
      if (!each.empty()) known += (known.empty() ? "" : ", ") + each;
      if (each != name) continue;
      std::vector<std::size_t> places = list();
      need(']');
      if (places.size() != rank)
        to_.reject("'", name, "' has ", places.size(), " indices there; its shape has ", rank, " dimensions");
      return add({Op::element, 0, t, nullptr, std::move(places)});
    }
    to_.reject("there is no tensor '", shown(name), "'; ", known.empty() ? "none is read there" : known);
  }
  std::vector<std::size_t> list() {
    std::vector<std::size_t> values = {whole()};
    while (take(',')) {
      values.push_back(whole());
      if (values.size() > kMaxArguments) to_.reject("a list has more than ", kMaxArguments, " members");
    }
    return values;
  }

  std::size_t call(std::string_view name) {
    if (scope_ != nullptr && (name == "sum" || name == "greatest" || name == "let")) return bound(name);
    std::vector<std::size_t> values = {whole()};
    while (take(',')) {
      values.push_back(whole());
      if (values.size() > kMaxArguments) to_.reject("'", name, "' has more than ", kMaxArguments, " arguments");
    }
    need(')');
    const auto needs = [&](std::size_t count, const char* text) {
      if (values.size() != count) to_.reject("'", name, "' has ", values.size(), " arguments; allowed is ", text);
    };
    if (name == "min") return add({Op::least, 0, 0, nullptr, std::move(values)});
    if (name == "max") return add({Op::most, 0, 0, nullptr, std::move(values)});
    if (scope_ != nullptr && name == "where") {
      needs(3, "three: where(condition, then, else)");
      return add({Op::where, 0, 0, nullptr, std::move(values)});
    }
    if (scope_ != nullptr && name == "mod") {
      needs(2, "two: mod(number, divisor)");
      return add({Op::remainder, 0, 0, nullptr, std::move(values)});
    }
    const std::span<const NamedFunction> known(kFunctions, scope_ != nullptr ? std::size(kFunctions) : kPlainFunctions);
    for (const NamedFunction& each : known) {
      if (each.name != name) continue;
      needs(1, "one");
      return add({Op::call, 0, 0, each.function, std::move(values)});
    }
    std::string names = "min, max";
    for (const NamedFunction& each : known) names += std::string(", ") + each.name;
    if (scope_ != nullptr) names += ", where, mod, sum, greatest, let";
    to_.reject("there is no function '", shown(name), "'; allowed are ", names);
  }

  /// sum(l, count, formula): l from 0 to count - 1. let(x, value, formula).
  std::size_t bound(std::string_view name) {
    const std::string variable(word());
    if (variable.empty() || is_digit(variable[0]))
      to_.reject("'", name, "' begins with a name: ", name,
                 name == "let" ? "(x, value, formula)" : "(l, count, formula)");
    if (variables_.size() == Formula::kMaxVariables)
      to_.reject("it has more than ", Formula::kMaxVariables, " indices and names of sums");
    need(',');
    const std::size_t count = whole();
    need(',');
    variables_.push_back(variable);
    const std::size_t inner = whole();
    variables_.pop_back();
    need(')');
    const Op op = name == "sum" ? Op::sum : name == "let" ? Op::let : Op::greatest;
    return add({op, 0, variables_.size(), nullptr, {count, inner}});
  }

  Formula& to_;
  const std::string_view text_;
  const Numbers& numbers_;
  const FormulaScope* const scope_;
  std::vector<std::string> variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

template <class... Parts>
[[noreturn]] void Formula::reject(const Parts&... parts) const {
  fields_.reject(place_, " is '", shown(text_), "': ", parts...);
}

struct Formula::Work {
  const FormulaElement& element;
  std::int64_t& budget;
  std::array<double, kMaxVariables> variables{};
};

Formula::Formula(std::string_view text, const Numbers& numbers, const graph::Fields& fields, std::string place,
                 const FormulaScope* scope)
    : text_(text), place_(std::move(place)), fields_(fields) {
  FormulaParser(*this, numbers, scope).parse();
}

double Formula::value(const FormulaElement& element, std::int64_t& budget) const {
  Work work{element, budget, {}};
  for (std::size_t i = 0; i < element.at.size(); ++i) work.variables[i] = static_cast<double>(element.at[i]);
  return of(nodes_.size() - 1, work);
}

double Formula::element_of(const Node& node, Work& work) const {
  const FormulaTensor& tensor = work.element.tensors[node.slot];
  std::int64_t place = 0;
  for (std::size_t d = 0; d < node.arguments.size(); ++d) {
    const double index = of(node.arguments[d], work);
    if (!(index >= 0 && index < static_cast<double>(tensor.shape[d])) || index != std::floor(index))
      reject("index ", d, " of a tensor is ", index, "; allowed are whole numbers from 0 to ", tensor.shape[d] - 1);
    place = place * tensor.shape[d] + static_cast<std::int64_t>(index);
  }
  return tensor.values[static_cast<std::size_t>(place)];
}

double Formula::over_range(const Node& node, Work& work) const {
  const auto count = static_cast<std::int64_t>(of(node.arguments[0], work));
  if (node.op == Op::greatest && count < 1) reject("'greatest' is of ", count, " values; allowed are 1 and more");
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    work.variables[node.slot] = static_cast<double>(i);
    const double each = of(node.arguments[1], work);
    total = node.op == Op::sum ? total + each : i == 0 ? each : std::max(total, each);
  }
  return total;
}

double Formula::of_several(const Node& node, Work& work) const {
  double value = of(node.arguments[0], work);
  for (std::size_t i = 1; i < node.arguments.size(); ++i) {
    const double each = of(node.arguments[i], work);
    value = node.op == Op::least ? std::min(value, each) : std::max(value, each);
  }
  return value;
}

double Formula::of(std::size_t place, Work& work) const {
  const Node& node = nodes_[place];
  if (--work.budget < 0) reject("it takes too many steps over its tensor's elements; make the trial smaller");
  const auto argument = [&](std::size_t i) { return of(node.arguments[i], work); };
  const auto finite = [&](double value) {
    if (!std::isfinite(value)) reject("a part of it is no finite number; divide by no 0");
    return value;
  };
  switch (node.op) {
    case Op::number:
      return node.number;
    case Op::variable:
      return work.variables[node.slot];
    case Op::normal:
      return work.element.normal;
    case Op::uniform:
      return work.element.uniform;
    case Op::element:
      return element_of(node, work);
    case Op::call:
      return finite(node.function(argument(0)));
    case Op::add:
      return finite(argument(0) + argument(1));
    case Op::subtract:
      return finite(argument(0) - argument(1));
    case Op::times:
      return finite(argument(0) * argument(1));
    case Op::divide:
      return finite(argument(0) / argument(1));
    case Op::negate:
      return -argument(0);
    case Op::less:
      return argument(0) < argument(1);
    case Op::less_equal:
      return argument(0) <= argument(1);
    case Op::equal:
      return argument(0) == argument(1);
    case Op::least:
    case Op::most:
      return of_several(node, work);
    case Op::where:
      return argument(0) != 0 ? argument(1) : argument(2);
    case Op::remainder:
      return finite(std::fmod(argument(0), argument(1)));
    case Op::let:
      work.variables[node.slot] = argument(0);
      return argument(1);
    case Op::sum:
    case Op::greatest:
      return finite(over_range(node, work));
  }
  return 0;
}

double evaluate(std::string_view text, const Numbers& numbers, const graph::Fields& fields, const std::string& place) {
  std::int64_t budget = INT64_MAX;
  return Formula(text, numbers, fields, place).value({}, budget);
}

}  // namespace tj
