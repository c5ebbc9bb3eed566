// See warm_make.hpp.
#include "tools/warm_make.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ostream>
#include <sstream>
#include <thread>

namespace tj::tools {
namespace {

using Clock = std::chrono::steady_clock;

std::string what(const Outcome& outcome) {
  if (outcome.report.origin != KernelOrigin::compiled) return "already in the cache";
  std::ostringstream text;
  text.precision(0);
  text << std::fixed << "compiled in " << outcome.total_ms << " ms (compiler " << outcome.report.compile_ms << ")";
  return text.str();
}

Outcome make(Runtime& runtime, const Job& job) {
  Outcome outcome;
  const Clock::time_point start = Clock::now();
  try {
    outcome.report = runtime.warm_op(job.request, job.target);
    outcome.ok = true;
  } catch (const Error& error) {
    outcome.error = error.what();
    outcome.log = error.log.empty() || error.log.back() == '\n' ? error.log : error.log + "\n";
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  outcome.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return outcome;
}

}  // namespace

void Progress::finished(const Job& job, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (!outcome.ok) {
    clear();
    err_ << "failed: " << job.request.name << " for " << job.target << ": " << outcome.error << '\n' << outcome.log << std::flush;
  }
  if (quiet_) return;
  if (terminal_) {
    out_ << "\r\x1b[K[" << done_ << '/' << total_ << "] " << job.request.name << ' ' << job.target << std::flush;
    dirty_ = true;
  } else if (outcome.ok) {
    out_ << '[' << done_ << '/' << total_ << "] " << job.request.name << ' ' << job.target << ": " << what(outcome) << std::endl;
  }
}

void Progress::log(LogLevel, std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear();
  err_ << "tj-warm: " << text << std::endl;
}

void Progress::end() {
  const std::lock_guard lock(mutex_);
  clear();
}

void Progress::clear() {
  if (dirty_) out_ << "\r\x1b[K" << std::flush;
  dirty_ = false;
}

int threads_for(int threads, std::size_t jobs) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return static_cast<int>(std::min(jobs, static_cast<std::size_t>(threads > 0 ? threads : cores)));
}

std::vector<Outcome> make_all(Runtime& runtime, const std::vector<Job>& jobs, int threads, Progress& progress) {
  std::vector<Outcome> outcomes(jobs.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < jobs.size();) {
      outcomes[i] = make(runtime, jobs[i]);
      progress.finished(jobs[i], outcomes[i]);
    }
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads; ++t) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return outcomes;
}

}  // namespace tj::tools
