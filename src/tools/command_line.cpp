// See command_line.hpp.
#include "tools/command_line.hpp"

#include <CLI/CLI.hpp>
#include <charconv>

#include <tilejit/runtime.hpp>

#include "support/fail.hpp"
#include "support/text.hpp"
#include "tools/options.hpp"

namespace tj::tools {

using support::cat;

std::optional<int> parse_words(CLI::App& app, const std::vector<std::string>& words, std::ostream& out,
                               std::ostream& err) {
  if (app.get_version_ptr() == nullptr)
    app.set_version_flag("--version", cat(app.get_name(), " ", version()), "print the version and exit");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return support::shown(error.what(), 1000) + "\nRun with --help for more information.\n";
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
  const std::string near = support::nearest(is_flag(flag) ? flag.substr(2, flag.find('=') - 2) : flag, own);
  return near.empty() ? std::string() : cat("; did you mean --", near, "?");
}

void rethrow_with_own_flag(const std::string& complaint, const std::vector<std::string>& own) {
  const std::size_t end = complaint.find(" means nothing to ");
  if (end == std::string::npos || !is_flag(complaint) || complaint.find("; did you mean ") != std::string::npos) return;
  const std::string meant = meant_flag(complaint.substr(0, end), own);
  if (!meant.empty()) bad_use(complaint + meant);
}

}  // namespace tj::tools
