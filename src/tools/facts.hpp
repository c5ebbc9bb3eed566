// The file of facts that a tool was given, and what tools say of facts.
//
// Decides precedence (--facts, else TJ_FACTS) and how origins are printed. Does not decide what a file may say
// (arch/fact_file.hpp).
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "arch/arch.hpp"
#include "support/json.hpp"

namespace CLI {
class App;
}

namespace tj::tools {

/// Adds --facts to a tool's options.
void add_facts_option(CLI::App& app, std::string& path);
/// The facts that --facts names, else TJ_FACTS; null where neither does. Throws tj::Error(argument).
const arch::FactFile* given_facts(const std::string& flag);
/// parse_target(text, from), with these facts. Throws tj::Error(target), also where they are of another arch.
arch::Target parse_target(std::string_view text, std::string_view from, const arch::FactFile* facts);
/// The target when nobody names one and there is no GPU: of the facts' arch, else the first known one. No model.
arch::Target usual_target(const arch::FactFile* facts);
/// The path for Options::facts_file: what --facts says, and nothing where TJ_FACTS is left to say it.
void set_facts(std::optional<std::string>& option, const std::string& flag);

/// Lines for a listing: how many facts come from where, and those of a file; `all`: every fact with its source.
void print_facts(const arch::Arch& arch, bool all, std::ostream& out);
/// [{"name", "value", "from", "source"}, ...]; from: "file", "measured", "document", "estimate" or "guess".
support::Json facts_json(const arch::Arch& arch);

}  // namespace tj::tools
