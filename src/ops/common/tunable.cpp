// See tunable.hpp.
#include "ops/common/tunable.hpp"

#include <algorithm>

#include <tilejit/error.hpp>

#include "support/strided_tensor.hpp"

namespace tj::ops {

Tensor Operand::view(Device device, void* data) const {
  return support::strided_tensor(data, device, dtype, shape, strides);
}

std::map<std::string, std::vector<std::string>> size_flags_of(const Problem& problem,
                                                              std::span<const char* const> names) {
  std::map<std::string, std::vector<std::string>> flags;
  for (const auto& [name, value] : problem.fields)
    if (std::find(names.begin(), names.end(), name) != names.end()) flags[name] = {value};
  return flags;
}

std::optional<Problem> problem_of_fields(const std::vector<std::pair<std::string, std::string>>& fields,
                                         const std::function<std::optional<Problem>(const Problem& given)>& make) {
  Problem given;
  given.fields = fields;
  try {
    if (std::optional<Problem> problem = make(given); problem && problem->fields == fields) return problem;
  } catch (const Error&) {  // a field that no problem of the op has
  }
  return std::nullopt;
}

}  // namespace tj::ops
