// See options.hpp.
#include "tools/options.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/common/op_flags.hpp"
#include "ops/common/tunable.hpp"
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

std::vector<ops::Request> requests_named(const ops::Op& op, const ops::Flags& flags, const arch::Arch& arch) {
  const ops::Tunable* tunable = op.tunable();  // of an op whose sizes decide its kernels
  const auto given = [&](const char* name) { return flags.count(name) > 0; };
  if (tunable == nullptr || std::ranges::none_of(tunable->size_flags(), given)) return op.requests_for(flags, arch);
  std::vector<ops::Request> requests;
  const ops::ChooseKernel choose{[&](const ops::ProblemKey& problem) { return op.choose(problem, arch); },
                                 [&]() -> const arch::Arch& { return arch; }};
  for (const ops::NeededKernel& needed : op.needed_kernels(flags, arch, choose))
    if (needed.op == &op) requests.push_back(op.request_of(needed.kernel));
  return requests;
}

}  // namespace tj::tools
