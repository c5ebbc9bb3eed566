// Kernels made by several threads, with progress: what tj-warm's ways of working share.
//
// Decides the order of work and what is printed meanwhile. Does not decide which kernels are wanted.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/op.hpp"

namespace tj::tools {

struct Job {
  ops::Request request;
  std::string target;
  std::optional<Device> device = {};  ///< whose calls take it; what these really take may be PTX of the target
};

struct Outcome {
  bool ok = false;
  KernelReport report;
  double total_ms = 0;
  std::string error, log;
  std::string not_kept;  ///< of a kernel that was made: why it is not on disk, in the cache's words; empty when it was
                         ///< written there
};

/// The first names, "..." for more than a screen's line, and the end of the line.
void print_names(std::ostream& out, const std::vector<std::string>& names);

/// Lines and the rewritten progress line, from any thread. A failure is told once, with the number of kernels that have
/// it: failures that differ in the names of kernel and target alone are one. So is a line of the log.
class Progress {
 public:
  /// level: what is shown of the log.
  Progress(std::ostream& out, std::ostream& err, bool terminal, bool quiet, LogLevel level)
      : out_(out), err_(err), terminal_(terminal && !quiet), quiet_(quiet), level_(level) {}
  /// Takes the log of a Runtime whose kernels make_all() makes, with what the cache says of each kernel.
  void follow(Options& options);

  void started(std::size_t total) { total_ = total; }
  void finished(const Job& job, const Outcome& outcome);
  void failed(const Job& job, const Outcome& outcome);
  /// For a problem, which is no kernel.
  void failed(const std::string& problem, const std::string& error);
  void end();

  static const char* origin(const Outcome& outcome) {
    return outcome.report.origin == KernelOrigin::compiled ? "compiled" : "cached";
  }

 private:
  void log(LogLevel level, std::string_view text);
  void failed(bool kernel, const std::string& what, const std::string& told, const std::string& reason);
  void clear();

  std::ostream& out_;
  std::ostream& err_;
  const bool terminal_, quiet_;
  const LogLevel level_;
  struct Alike {
    bool kernels;
    std::vector<std::string> names;  ///< but the first, which was told
  };
  std::map<std::string, Alike> failures_;      ///< by their reason
  std::map<std::string, std::size_t> logged_;  ///< lines of the log, and how often they came again
  bool dirty_ = false;
  std::size_t done_ = 0, total_ = 0;
  std::mutex mutex_;
};

/// threads 0: one a core; never more than there are jobs.
int threads_for(int threads, std::size_t jobs);
/// Makes the jobs whose indices are `chosen`; fills their outcomes.
void make_all(Runtime& runtime, const std::vector<Job>& jobs, const std::vector<std::size_t>& chosen, int threads,
              Progress& progress, std::vector<Outcome>& outcomes);

}  // namespace tj::tools
