// Files that runs wrote under TJ_RECORD: read, made in the cache, looked for there.
//
// Decides what is refused of a file, which choice is kept where two lines differ, and what is printed. Does not decide
// what a line says (manifest.hpp).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "manifest.hpp"
#include "support/environment.hpp"
#include "support/json.hpp"
#include "tools/warm_make.hpp"

namespace tj::tools {

/// The manifest in a file that a flag names. Throws tj::Error(argument) that names each bad line, and where nothing is
/// listed. err: told of a pipe that is waited for.
Manifest read_wanted(const char* flag, const std::string& path, std::ostream& err);
/// The kernels that can be made from their lines, each once.
std::vector<Job> jobs_of(const Manifest& wanted);

/// What --manifest does beside kernels.
struct KeptChoices {
  std::size_t written = 0, there = 0, failed = 0;
  std::vector<std::string> left_out;  ///< users' own kernels that are not in the cache
  support::Json to_json() const;
};
/// Writes the measured choices that the cache lacks. Of lines that differ in the choice alone the first counts, unless
/// the cache has another of them. What fails, and what is left out, is said on `err`.
KeptChoices keep_choices(const Manifest& wanted, const support::Settings& settings, std::ostream& err);

}  // namespace tj::tools
