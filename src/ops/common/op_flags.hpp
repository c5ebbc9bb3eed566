// Flags that select an op's kernels on a command line: what each allows, and every combination of the values given.
//
// Decides how a mistake is refused and what "both" means. Does not decide which flags an op has, nor what a value does.
// Invariant: combinations come in the order of the choices, the first varies slowest.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tj::ops {

using Flags = std::map<std::string, std::vector<std::string>>;

bool is_flag(const std::string& word);

struct GivenFlag {
  std::string name;                 ///< without the dashes
  std::vector<std::string> values;  ///< empty when none was given
};

/// "--dtype f16,bf16 --head-dim=64 --causal" -> {dtype, [f16, bf16]}, {head-dim, [64]}, {causal, []}. A flag is never
/// the value of the one before it. Throws tj::Error(argument) for a word that is neither, and for "--flag=" without a
/// value.
std::vector<GivenFlag> read_flags(const std::vector<std::string>& words);
/// The flags of one text with spaces between its words. A flag without a value is true; a flag that comes again adds to
/// its values.
Flags flags_of_text(std::string_view text);

/// A flag: its values in the order in which defaults are wanted; the first `defaults` are used when it is not given.
struct FlagChoice {
  const char* name;
  std::vector<std::string> allowed;
  std::size_t defaults = 1;
};

/// "a, b, c".
std::string joined(const std::vector<std::string>& words);

/// Throws tj::Error(argument) naming a flag that is none of the choices. `sizes`: flags that the op takes besides, on
/// other ways.
void check_flags(std::string_view op, const Flags& flags, const std::vector<FlagChoice>& choices,
                 const std::vector<std::string>& sizes = {});

/// The values that a flag was given, else its defaults; "both" is false, then true. Throws tj::Error(argument) naming
/// flag, value and what is allowed.
std::vector<std::string> values_of(const Flags& flags, const FlagChoice& choice);

/// Every combination: set(kernel, name, value) is called once for each choice.
template <class Kernel, class Set>
std::vector<Kernel> combinations(std::string_view op, const Flags& flags, const std::vector<FlagChoice>& choices,
                                 Set set) {
  check_flags(op, flags, choices);
  std::vector<Kernel> kernels(1);
  for (const FlagChoice& choice : choices) {
    std::vector<Kernel> longer;
    const std::vector<std::string> values = values_of(flags, choice);
    for (const Kernel& kernel : kernels)
      for (const std::string& value : values) set(longer.emplace_back(kernel), std::string_view(choice.name), value);
    kernels = std::move(longer);
  }
  return kernels;
}

}  // namespace tj::ops
