// tj-check: runs kernels on the CPU model until something is found, and kernels with a barrier less until all of them
// are.
//
// Decides the command line, the order of work and what is printed. What is run and judged is src/check/'s.
// Invariant: with --json nothing but one JSON document goes to `out`, else a line for each kernel or problem when it is
// done. Progress goes to `err`, and only to a terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "check/full_set.hpp"
#include "check/kernels.hpp"
#include "check/mutants.hpp"
#include "check/seeds.hpp"
#include "support/sites.hpp"
#include "tools/graph_files.hpp"
#include "tools/process.hpp"

namespace tj::tools {

/// Runs all of tj-check but the process. words: without the program's name. terminal: `err` may be rewritten with \r.
/// Returns an exit code: kExitFailures for findings; throws nothing.
int check(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, bool terminal);

struct CheckSettings {
  std::string op, target, cache_dir;
  GraphFiles graph;
  std::shared_ptr<const GraphOp> graph_op;  ///< of these files; null: there are none
  ops::Flags op_flags;
  std::vector<std::string> own_flags;  ///< that tj-check has itself
  check::Seeds seeds;
  bool all = false, mutate = false, list_sites = false, json = false;
  std::vector<support::SiteName> disabled, weakened;
  std::vector<std::string> program;  ///< with its arguments, behind "--"
};

/// A line that is rewritten; nothing where it is no terminal. Thread safe.
class CheckProgress {
 public:
  CheckProgress(std::ostream& err, bool terminal);
  ~CheckProgress();
  void begin(const std::string& what, std::size_t total);
  void step();
  /// Says that a run has not ended for so long. Nothing bounds it.
  void waits(double waited_s);
  void end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Kernels as one target or another make them, each made once.
class CheckKernels {
 public:
  explicit CheckKernels(const CheckSettings& settings);
  ~CheckKernels();
  check::Kernels& of(const std::string& target);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The trials of settings or of the full set, with their kernels. A case that its target does not serve is refused.
struct CheckCase {
  check::Subject subject;
  check::Kernels* kernels = nullptr;
  std::string command;         ///< that makes this case alone, less seeds and sites
  std::string kernel_command;  ///< that makes all of the kernel's cases
};
std::vector<CheckCase> check_cases(const CheckSettings& settings, CheckKernels& kernels, CheckProgress& progress);

int list_sites(const std::vector<CheckCase>& cases, bool json, std::ostream& out);
int check_seeds(const CheckSettings& settings, const std::vector<CheckCase>& cases, CheckProgress& progress,
                std::ostream& out);
int check_mutants(const CheckSettings& settings, const std::vector<CheckCase>& cases, CheckProgress& progress,
                  std::ostream& out);
/// A user's own program, by environment variables.
int check_program(const CheckSettings& settings, CheckProgress& progress, std::ostream& out);

/// The findings of one check.
struct CheckFound {
  std::string subject, command;
  std::vector<check::Finding> findings;
  /// Sites off or weakened that are known to change nothing.
  struct Excused {
    std::string kernel, mutant;
    const check::Equivalent* equivalent = nullptr;
  };
  std::vector<Excused> excused = {};
  bool all_excused = false;  ///< every site that was asked for is one of them
  bool equivalent() const { return findings.empty() && all_excused; }
};
/// A line of one that is done.
void print_ended(const CheckFound& found, std::ostream& out);
/// Prints all findings, each with the command that shows it again: one screen. Returns an exit code.
int print_findings(const CheckSettings& settings, const std::vector<CheckFound>& found, std::ostream& out);

}  // namespace tj::tools
