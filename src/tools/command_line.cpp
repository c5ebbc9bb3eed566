// See command_line.hpp.
#include "tools/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include <tilejit/runtime.hpp>

#include "ops/common/op_flags.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"
#include "tools/options.hpp"

namespace tj::tools {

using support::cat;

namespace {

/// The first flag of a complaint from a place on; empty without one.
std::string flag_in(const std::string& said, std::size_t from = 0) {
  const std::size_t begin = said.find("--", from);
  if (begin == std::string::npos) return {};
  return said.substr(begin, said.find_first_of(": ", begin) - begin);
}

/// A complaint of CLI11 in words that do not change from release to release: which flag, what of it, what is allowed.
std::string in_own_words(const CLI::App& app, const CLI::Error& error) {
  const std::string said = error.what(), kind = error.get_name(), flag = flag_in(said);
  if (flag.empty()) return said;
  const std::string other = flag_in(said, said.find(flag) + flag.size());
  if (kind == "ArgumentMismatch")
    return said.find(" missing") != std::string::npos ? cat(flag, " needs a value; give it behind the flag")
                                                      : cat(flag, " is given more than once; give it once");
  if (kind == "ConversionError") {
    const CLI::Option* option = app.get_option_no_throw(flag);
    const std::size_t value = said.find(" = ");
    const bool takes_one = option != nullptr && option->get_items_expected_max() > 0;
    return cat(flag, value == std::string::npos ? " has a value" : cat(" is '", said.substr(value + 3), "'"),
               takes_one ? "; allowed: a whole number" : "; allowed: the flag alone, without a value");
  }
  if (kind == "RequiredError") return cat(flag, " is missing; give it");
  if (other.empty()) return said;
  if (kind == "RequiresError") return cat(flag, " is given without ", other, "; give both, or neither");
  if (kind == "ExcludesError") return cat(flag, " and ", other, " are given; give one of them");
  return said;
}

}  // namespace

std::optional<int> parse_words(CLI::App& app, const std::vector<std::string>& words, std::ostream& out,
                               std::ostream& err) {
  if (app.get_version_ptr() == nullptr)
    app.set_version_flag("--version", cat(app.get_name(), " ", version()), "print the version and exit");
  app.failure_message([](const CLI::App* parsed, const CLI::Error& error) {
    return support::shown(in_own_words(*parsed, error), 1000) + "\nRun with --help for more information.\n";
  });
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? kExitOk : kExitBadUse;
  }
  return std::nullopt;
}

CLI::Option* bounded(CLI::Option* option, std::uint64_t low, std::uint64_t high) {
  const std::string allowed = low == high ? cat(low) : cat(low, " to ", high);
  return option->check(
      [=](const std::string& text) {
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool number = error == std::errc() && end == text.data() + text.size();
        return number && value >= low && value <= high ? std::string()
                                                       : cat("is '", support::shown(text), "'; allowed: ", allowed);
      },
      allowed);
}

std::vector<std::string> own_flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

std::string meant_flag(const std::string& flag, const std::vector<std::string>& own) {
  const std::string near = support::nearest(ops::is_flag(flag) ? flag.substr(2, flag.find('=') - 2) : flag, own);
  return near.empty() ? std::string() : cat("; did you mean --", near, "?");
}

void refuse_without_op(const std::string& tool, const ops::Flags& flags, const std::vector<std::string>& own) {
  const auto misspelt =
      std::find_if(flags.begin(), flags.end(), [&](const auto& flag) { return !meant_flag(flag.first, own).empty(); });
  const std::string& flag = (misspelt != flags.end() ? misspelt : flags.begin())->first;
  bad_use(cat("--", support::shown(flag), " belongs to no op, and is no flag of ", tool,
              "'s own; give --op, or leave it out (--help lists the flags)", meant_flag(flag, own)));
}

void rethrow_with_own_flag(const std::string& complaint, const std::vector<std::string>& own) {
  const std::size_t end = complaint.find(" means nothing to ");
  if (end == std::string::npos || !ops::is_flag(complaint) || complaint.find("; did you mean ") != std::string::npos)
    return;
  const std::string meant = meant_flag(complaint.substr(0, end), own);
  if (!meant.empty()) bad_use(complaint + meant);
}

}  // namespace tj::tools
