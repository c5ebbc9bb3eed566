// Arithmetic in a user's graph: "ceil(block_m * block_n / mma_per_cycle) + 8", and formulas of a tensor's elements:
// "sum(l, k, a[i0, l] * b[i1, l])".
//
// Decides what such a text may be. Does not know which members of a graph may be one (document.hpp), nor which tensors
// there are (trials.hpp). Invariant: whatever the text is, the outcome is a finite number or a tj::Error, after work
// that the length of the text bounds; a formula's work is bounded by its caller's budget.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/json_fields.hpp"

namespace tj {

inline constexpr std::size_t kMaxExpressionBytes = 256, kMaxFormulaBytes = 2048;

/// Numbers by name, and what they are of: "target 'sm_90a'".
struct Numbers {
  std::map<std::string, double, std::less<>> values;
  std::string owner;
};

/// The value of the text. Throws by `fields` with the place, the text and what is wrong with it.
double evaluate(std::string_view text, const Numbers& numbers, const graph::Fields& fields, const std::string& place);

/// The further names of a formula.
struct FormulaScope {
  std::size_t indices = 0;  ///< i0, i1, ...: the element's place
  /// Names and ranks; a tensor without a name cannot be read.
  std::vector<std::pair<std::string, std::size_t>> tensors;
  bool random = false;  ///< `normal` and `uniform`
};

struct FormulaTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  ///< without gaps
};

/// The element that a formula is worked out for.
struct FormulaElement {
  std::span<const std::int64_t> at;
  std::span<const FormulaTensor> tensors;  ///< as in the scope
  double normal = 0, uniform = 0;
};

/// A text, read once and worked out for many elements. Thread safe.
class Formula {
 public:
  static constexpr std::size_t kMaxVariables = 16;  ///< indices and names of sums
  Formula() = default;
  /// Without a scope it is an expression: numbers and names alone. Throws as evaluate() does.
  Formula(std::string_view text, const Numbers& numbers, const graph::Fields& fields, std::string place,
          const FormulaScope* scope = nullptr);

  bool empty() const { return nodes_.empty(); }
  /// budget: steps that are left for this and further elements. Throws by the fields given.
  double value(const FormulaElement& element, std::int64_t& budget) const;

 private:
  friend class FormulaParser;
  enum class Op {
    number,
    variable,
    normal,
    uniform,
    element,
    call,
    add,
    subtract,
    times,
    divide,
    negate,
    less,
    less_equal,
    equal,
    least,
    most,
    where,
    remainder,
    sum,
    greatest,
    let
  };
  struct Node {
    Op op = Op::number;
    double number = 0;
    std::size_t slot = 0;  ///< of a variable or a tensor
    double (*function)(double) = nullptr;
    std::vector<std::size_t> arguments;
  };
  struct Work;
  double of(std::size_t node, Work& work) const;
  double element_of(const Node& node, Work& work) const;
  double over_range(const Node& node, Work& work) const;
  double of_several(const Node& node, Work& work) const;
  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const;

  std::string text_, place_;
  graph::Fields fields_{""};
  std::vector<Node> nodes_;  ///< arguments stand before who takes them: the last one is the formula
};

}  // namespace tj
