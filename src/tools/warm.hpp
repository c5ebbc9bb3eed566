// tj-warm: fills the disk cache ahead of time, lists and checks it, and measures what serves given sizes best.
//
// Decides the command line, the order of work and what is printed. Does not decide how a kernel is made (runtime) or
// kept (cache). Invariant: with --json nothing but one JSON document goes to `out`.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "cache/cache.hpp"
#include "support/environment.hpp"
#include "support/json.hpp"
#include "tools/graph_files.hpp"
#include "tools/options.hpp"

namespace tj::tools {

/// Runs all of tj-warm but the process. words: without the program's name. terminal: `out` may be rewritten with \r.
/// Returns an exit code; throws nothing.
int warm(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, bool terminal);

/// The table behind --list (every entry) and --verify (damaged ones only), or its JSON. Returns an exit code:
/// kExitFailures when an entry is damaged or the cache cannot be used, which is said on `err` too.
int list_cache(const support::Settings& settings, bool damaged_only, bool json, std::ostream& out, std::ostream& err);

void say_unusable(const std::string& directory, const std::string& problem, std::ostream& err);
support::Json to_json(const std::vector<cache::LayerState>& layers);
/// A line for each layer of a cache that has several: which is written, and why one is left out.
void print_layers(const std::vector<cache::LayerState>& layers, std::ostream& out);

/// --covers: is all that a manifest lists in the cache? Prints what is missing, or JSON. Returns an exit code:
/// kExitFailures when anything is missing; throws tj::Error(argument) for a bad file.
int check_covered(const std::string& path, const support::Settings& settings, bool json, std::ostream& out,
                  std::ostream& err);

/// The text behind the options of --help.
const char* warm_footer();

/// The flags of an op, each with all values that were given to it.
using Flags = std::map<std::string, std::vector<std::string>>;

struct TuneWork {
  std::vector<std::string> op_names, targets;
  Flags flags;
  std::string cache_dir;
  std::vector<std::string> only;        ///< names of kernels; empty: all
  int jobs = 0, limit = 0, rounds = 0;  ///< 0: the default
  bool json = false;
  std::string facts = {};  ///< a file; empty: TJ_FACTS, else none
  GraphFiles graph = {};   ///< of a user's own, whose candidates are timed in the place of ops' kernels
};
/// --tune: makes the kernels of each problem, times them on the first GPU, keeps what was fastest, prints all of it.
/// Looks at the end whether choices and chosen kernels are in the cache.
/// Returns an exit code; throws tj::Error.
int tune_problems(const TuneWork& work, const support::Settings& settings, std::ostream& out, std::ostream& err,
                  bool terminal);

}  // namespace tj::tools
