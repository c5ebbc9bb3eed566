// See options.hpp.
#include "tools/options.hpp"

#include <algorithm>
#include <utility>

#include "ops/common/op_flags.hpp"
#include "ops/known_ops.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::tools {

using support::cat;

void bad_use(std::string message) { support::fail(Stage::argument, Code::invalid_argument, std::move(message)); }

std::string no_flag(const std::string& value) {
  if (value.empty()) return "needs a value, and what it is given is empty";
  return ops::is_flag(value) ? cat("needs a value, and is followed by ", support::shown(value)) : std::string();
}

std::string some_folder(const std::string& value) {
  if (const std::string problem = no_flag(value); !problem.empty()) return problem;
  if (value.find_first_not_of(':') != std::string::npos) return {};
  return cat("is '", value, "'; allowed: a folder, or several with ':' between them");
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
