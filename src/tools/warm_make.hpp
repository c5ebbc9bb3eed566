// Kernels made by several threads, with progress: what tj-warm's ways of working share.
//
// Decides the order of work and what is printed meanwhile. Does not decide which kernels are wanted.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/op.hpp"

namespace tj::tools {

struct Job {
  ops::Request request;
  std::string target;
};

struct Outcome {
  bool ok = false;
  KernelReport report;
  double total_ms = 0;
  std::string error, log;
};

/// Lines and the rewritten progress line, from any thread.
class Progress {
 public:
  Progress(std::ostream& out, std::ostream& err, bool terminal, bool quiet) : out_(out), err_(err), terminal_(terminal && !quiet), quiet_(quiet) {}

  void started(std::size_t total) { total_ = total; }
  void finished(const Job& job, const Outcome& outcome);
  void log(LogLevel level, std::string_view text);
  void end();

  static const char* origin(const Outcome& outcome) { return outcome.report.origin == KernelOrigin::compiled ? "compiled" : "cached"; }

 private:
  void clear();

  std::ostream& out_;
  std::ostream& err_;
  const bool terminal_, quiet_;
  bool dirty_ = false;
  std::size_t done_ = 0, total_ = 0;
  std::mutex mutex_;
};

/// threads 0: one a core; never more than there are jobs.
int threads_for(int threads, std::size_t jobs);
std::vector<Outcome> make_all(Runtime& runtime, const std::vector<Job>& jobs, int threads, Progress& progress);

}  // namespace tj::tools
