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

namespace {

[[noreturn]] void refuse(std::string message) { fail(Stage::argument, Code::invalid_argument, std::move(message)); }

}  // namespace

bool is_flag(const std::string& word) { return word.size() > 2 && word.compare(0, 2, "--") == 0; }

std::vector<GivenFlag> read_flags(const std::vector<std::string>& words) {
  std::vector<GivenFlag> flags;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_flag(words[i]))
      refuse(cat("'", support::shown(words[i]),
                 "' is not understood; allowed: --<flag> <value>[,<value>...]; see --help"));
    std::string name = words[i].substr(2), list;
    const std::size_t equals = name.find('=');
    const bool given = equals != std::string::npos || (i + 1 < words.size() && !is_flag(words[i + 1]));
    if (equals != std::string::npos) {
      list = name.substr(equals + 1);
      name.resize(equals);
    } else if (given) {
      list = words[++i];
    }
    if (given && list.empty()) refuse(cat("--", support::shown(name), " needs a value"));
    std::vector<std::string> values;
    for (std::size_t begin = 0; given && begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      if (end == begin)
        refuse(cat("--", support::shown(name), " is '", support::shown(list), "', in which item ", values.size() + 1,
                   " is empty; allowed: <value>[,<value>...]"));
      values.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
    flags.push_back({std::move(name), std::move(values)});
  }
  return flags;
}

Flags flags_of_text(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\r";
  std::vector<std::string> words;
  for (std::size_t begin = text.find_first_not_of(kSpaces); begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpaces, end);
  }
  Flags flags;
  for (GivenFlag& flag : read_flags(words)) {
    std::vector<std::string>& values = flags[flag.name];
    if (flag.values.empty()) values.emplace_back("true");
    values.insert(values.end(), flag.values.begin(), flag.values.end());
  }
  return flags;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void check_flags(std::string_view op, const Flags& flags, const std::vector<FlagChoice>& choices,
                 const std::vector<std::string>& sizes) {
  std::vector<std::string> names, bare = sizes, of_sizes;
  for (const std::string& size : sizes) of_sizes.push_back("--" + size);
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
           cat("--", shown(flag.first), " means nothing to ", op, "; allowed are ", joined(names),
               of_sizes.empty() ? "" : ", and where sizes are asked for: ", joined(of_sizes), near(flag.first)));
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
           cat("--", choice.name, " is '", shown(word), word == "true" ? "', as without a value" : "'",
               "; allowed are ", joined(choice.allowed), meant(word, choice.allowed)));
    if (word == "both")
      values.insert(values.end(), {"false", "true"});
    else
      values.push_back(word);
  }
  return values;
}

}  // namespace tj::ops
