// See facts.hpp.
#include "tools/facts.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>
#include <string_view>

#include "arch/fact_file.hpp"
#include "arch/named_target.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"
#include "tools/options.hpp"

namespace tj::tools {

using support::cat;

void add_facts_option(CLI::App& app, std::string& path) {
  app.add_option("--facts", path,
                 "a file with facts of one arch, as tj-bench --calibrate writes it, in the place of those shipped "
                 "(default: TJ_FACTS, else none)")
      ->check(no_flag);
}

const arch::FactFile* given_facts(const std::string& flag) {
  const std::string path = flag.empty() ? support::environment_variable("TJ_FACTS").value_or("") : flag;
  return path.empty() ? nullptr : &arch::load_facts(path, flag.empty() ? "TJ_FACTS" : "--facts");
}

arch::Target parse_target(std::string_view text, std::string_view from, const arch::FactFile* facts) {
  arch::Target target = arch::parse_target(text, from);
  target.arch = &arch::with_facts(*target.arch, facts);
  return target;
}

arch::Target usual_target(const arch::FactFile* facts) {
  return facts != nullptr ? parse_target(facts->arch, "--facts", facts) : arch::Target{arch::all().front(), false};
}

void set_facts(std::optional<std::string>& option, const std::string& flag) {
  if (!flag.empty()) option = flag;
}

void print_facts(const arch::Arch& arch, bool all, std::ostream& out) {
  const std::vector<arch::FactOrigin> origins = arch::fact_origins(arch);
  std::map<std::string, int> counts;
  std::size_t width = 0;
  for (const arch::FactOrigin& each : origins) {
    ++counts[each.kind];
    width = std::max(width, each.name.size());
  }
  out << "facts of " << arch::shipped_name(arch) << ":";
  if (arch.facts_file != nullptr)
    out << ' ' << counts["file"] << " of " << support::shown_path(arch.facts_file->path) << ',';
  out << " shipped " << counts["measured"] << " measured, " << counts["document"] << " of documents, "
      << counts["estimate"] << " estimates, " << counts["guess"] << " guesses"
      << (all ? "" : " (--show-facts lists them)") << '\n';
  for (const arch::FactOrigin& each : origins) {
    if (!all && each.kind != "file") continue;
    std::string_view source = each.source;
    constexpr std::string_view kKind = "estimate: ";  // the kind says it
    if (source.starts_with(kKind)) source.remove_prefix(kKind.size());
    out << "  " << each.name << std::string(width - each.name.size(), ' ') << "  " << cat(each.value) << "  "
        << (each.kind == "file" ? "" : "shipped, ") << each.kind << ": " << source << '\n';
  }
}

support::Json facts_json(const arch::Arch& arch) {
  support::Json list = support::Json::array();
  for (const arch::FactOrigin& each : arch::fact_origins(arch))
    list.push_back({{"name", each.name}, {"value", each.value}, {"from", each.kind}, {"source", each.source}});
  return list;
}

}  // namespace tj::tools
