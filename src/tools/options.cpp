// See options.hpp.
#include "tools/options.hpp"

#include <algorithm>
#include <utility>

#include "ops/known_ops.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::tools {

using support::cat;

void bad_use(std::string message) { support::fail(Stage::argument, Code::invalid_argument, std::move(message)); }

bool is_flag(const std::string& word) { return word.size() > 2 && word.compare(0, 2, "--") == 0; }
std::string no_flag(const std::string& value) {
  if (value.empty()) return "needs a value, and what it is given is empty";
  return is_flag(value) ? cat("needs a value, and is followed by ", support::shown(value)) : std::string();
}

std::vector<OpFlag> read_op_flags(const std::vector<std::string>& words) {
  std::vector<OpFlag> flags;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_flag(words[i]))
      bad_use(cat("'", support::shown(words[i]),
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
    std::vector<std::string> values;
    for (std::size_t begin = 0; begin < list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      if (end > begin) values.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
    if (given && values.empty()) bad_use(cat("--", support::shown(name), " needs a value"));
    flags.push_back({std::move(name), std::move(values)});
  }
  return flags;
}

const ops::Op& find_op(const std::string& name) {
  if (const ops::Op* op = ops::find(name)) return *op;
  bad_use(cat("--op is '", support::shown(name), "'; allowed: ", ops::known_ops(name)));
}

bool serves(const ops::Op& op, const ops::Request& request, const arch::Arch& arch) {
  try {
    op.candidates(request, arch);
  } catch (const Error& e) {
    return e.code != Code::unsupported;
  }
  return true;
}

}  // namespace tj::tools
