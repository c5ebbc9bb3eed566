// Looking up and refusing; see op_flags.hpp.
#include "ops/common/op_flags.hpp"

#include <algorithm>

#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::ops {

using support::cat;
using support::fail;
using support::meant;
using support::shown;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void check_flags(std::string_view op, const Flags& flags, const std::vector<FlagChoice>& choices) {
  std::vector<std::string> names, bare;
  for (const FlagChoice& choice : choices) {
    bare.emplace_back(choice.name);
    names.push_back("--" + bare.back());
  }
  const auto near = [&](const std::string& flag) {
    const std::string name = support::nearest(flag, bare);
    return name.empty() ? name : cat("; did you mean --", name, "?");
  };
  for (const auto& flag : flags)
    if (std::none_of(choices.begin(), choices.end(),
                     [&](const FlagChoice& choice) { return flag.first == choice.name; }))
      fail(Stage::argument, Code::invalid_argument,
           cat("--", shown(flag.first), " means nothing to ", op, "; allowed are ", joined(names), near(flag.first)));
}

std::vector<std::string> values_of(const Flags& flags, const FlagChoice& choice) {
  const auto found = flags.find(choice.name);
  const bool given = found != flags.end() && !found->second.empty();
  const std::vector<std::string> usual(choice.allowed.begin(),
                                       choice.allowed.begin() + static_cast<std::ptrdiff_t>(choice.defaults));
  std::vector<std::string> values;
  for (const std::string& word : given ? found->second : usual) {
    if (std::find(choice.allowed.begin(), choice.allowed.end(), word) == choice.allowed.end())
      fail(Stage::argument, Code::invalid_argument,
           cat("--", choice.name, " is '", shown(word), "'; allowed are ", joined(choice.allowed),
               meant(word, choice.allowed)));
    if (word == "both")
      values.insert(values.end(), {"false", "true"});
    else
      values.push_back(word);
  }
  return values;
}

}  // namespace tj::ops
