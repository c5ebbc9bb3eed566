// Numbers of a user's document, each a number itself or an expression of names.
//
// Decides which names a form of a document has, and how a number that must be whole is rounded. Does not know which
// members may be expressions (document.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "custom/expression.hpp"
#include "graph/json_tree.hpp"

namespace tj {

/// The facts of a machine: none where it is an object, or no arch.
Numbers facts_of(const graph::Json& machine);

/// fields must outlive it.
class NumberReader {
 public:
  NumberReader(const graph::Fields& fields, Numbers numbers) : fields_(fields), numbers_(std::move(numbers)) {}

  const Numbers& names() const { return numbers_; }
  /// Adds the names of an object, each with its value; a value may use those before it. place: "parameters", "sizes".
  /// `instead` has other values for some, of a candidate.
  void add(const graph::Json& given, const std::string& place, const graph::Json* instead = nullptr,
           const std::string& candidate = {});
  /// Says in messages what the names are of, beside the machine.
  void of_more(const std::string& what) { numbers_.owner += " with " + what; }
  void set(const std::string& name, double value) { numbers_.values[name] = value; }

  double number(const graph::Json& json, const std::string& place) const;
  /// Rounded up; what floating point adds to a whole number does not count.
  std::int64_t whole(const graph::Json& json, const std::string& place, bool may_be_negative) const;

 private:
  const graph::Fields& fields_;
  Numbers numbers_;
};

}  // namespace tj
