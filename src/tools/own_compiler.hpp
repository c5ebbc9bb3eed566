// Entries of a cache whose binaries another compiler made than the one at hand.
//
// Decides which those are. Does not decide where they serve all the same (cache/README.md). Opens no compiler.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "backends.hpp"
#include "cache/cache.hpp"
#include "support/environment.hpp"
#include "support/log.hpp"

namespace tj::tools {

class OwnCompilers {
 public:
  explicit OwnCompilers(support::Settings settings) : settings_(without_facts(std::move(settings))) {}

  /// Did another compiler make a kernel for this target? compiler_hex: the second half of its key. False where there is
  /// no compiler, as any binary serves then, and for a target that this version does not know.
  bool is_others(const std::string& target, const std::string& compiler_hex);
  /// The same of an entry. False for one that is no kernel.
  bool is_others(const cache::Entry& entry);

 private:
  /// No compiler depends on facts, so that their file need not be there.
  static support::Settings without_facts(support::Settings settings) {
    settings.facts_file.clear();
    return settings;
  }

  const support::Settings settings_;
  const support::Log log_{LogLevel::off, {}};
  Backends backends_{settings_, log_};
  std::map<std::string, std::string> own_;  ///< by target; empty: none
};

}  // namespace tj::tools
