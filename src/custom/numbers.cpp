// See numbers.hpp.
#include "custom/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/common/machine.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using graph::Json;
using support::cat;
using support::shown;

constexpr double kMostNumber = 9e15;  ///< up to which every whole number is one

}  // namespace

Numbers facts_of(const Json& machine) {
  if (!machine.is_string()) return {{}, "the machine, an object,"};
  const std::string& name = machine.get_ref<const std::string&>();
  Numbers numbers{{}, cat("machine '", shown(name), "'")};
  const arch::Arch* arch = ops::arch_named(name);
  if (arch == nullptr) return numbers;
  for (const auto& [fact, value] : arch->facts) numbers.values.emplace(fact, value.value);
  const std::pair<const char*, double> more[] = {
      {"sm_count", arch->sm_count},
      {"clock_ghz", arch->clock_ghz},
      {"warp_size", arch->warp_size},
      {"max_cluster", arch->max_cluster},
      {"max_registers_per_thread", arch->max_registers_per_thread},
      {"registers_per_sm", static_cast<double>(arch->registers_per_sm)},
      {"smem_per_block_bytes", static_cast<double>(arch->smem_per_block_bytes)},
      {"smem_per_sm_bytes", static_cast<double>(arch->smem_per_sm_bytes)}};
  for (const auto& [fact, value] : more) numbers.values.emplace(fact, value);
  return numbers;
}

void NumberReader::add(const Json& given, const std::string& place, const Json* instead, const std::string& candidate) {
  for (const auto& [name, usual] : given.items()) {
    if (numbers_.values.count(name) != 0)
      fields_.reject(place, ".", shown(name), " has the name of a fact of ", numbers_.owner, "; take another");
    const bool own = instead != nullptr && instead->contains(name);
    const std::string at =
        own ? cat("candidates '", candidate, "', ", place, ".", shown(name)) : cat(place, ".", shown(name));
    numbers_.values.emplace(name, number(own ? instead->at(name) : usual, at));
  }
}

double NumberReader::number(const Json& json, const std::string& place) const {
  if (json.is_string()) return evaluate(json.get_ref<const std::string&>(), numbers_, fields_, place);
  if (json.is_number() && std::isfinite(json.get<double>())) return json.get<double>();
  fields_.reject(place, " is ", graph::value_text(json), "; allowed are a number and an expression");
}

std::int64_t NumberReader::whole(const Json& json, const std::string& place, bool may_be_negative) const {
  constexpr double kTiny = 1e-9, kMostTiny = 1e-6;
  const double value = number(json, place);
  const auto refuse = [&](const auto&... allowed) {
    const std::string text =
        json.is_string() ? cat("'", shown(json.get_ref<const std::string&>()), "', which is ") : "";
    fields_.reject(place, " is ", text, value, "; allowed are ", allowed...);
  };
  if (std::abs(value) > kMostNumber) refuse("numbers up to ", kMostNumber);
  if (value < 0 && !may_be_negative) refuse("0 and more");  // a fraction would be rounded up to 0
  const double nearest = std::round(value);
  const bool is_whole = std::abs(value - nearest) <= std::min(kTiny * std::abs(value), kMostTiny);
  return static_cast<std::int64_t>(is_whole ? nearest : std::ceil(value));
}

}  // namespace tj
