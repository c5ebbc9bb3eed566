// See warm_make.hpp.
#include "tools/warm_make.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ostream>
#include <system_error>
#include <thread>

#include "cache/cache.hpp"
#include "support/text.hpp"
#include "support/text_stream.hpp"
#include "tools/interrupts.hpp"

namespace tj::tools {
namespace {

using Clock = std::chrono::steady_clock;

std::string what(const Outcome& outcome) {
  if (outcome.report.origin != KernelOrigin::compiled) return "already in the cache";
  support::TextStream text;
  text.precision(0);
  text << std::fixed << "compiled in " << outcome.total_ms << " ms (compiler " << outcome.report.compile_ms << ")";
  return text.str();
}

/// A text with "..." in the place of a name, where it stands as a word.
std::string without(const std::string& text, const std::string& name) {
  const auto in_word = [&](std::size_t at) { return at < text.size() && support::is_word_letter(text[at]); };
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = 0; !name.empty() && (at = text.find(name, at)) != std::string::npos; ++at) {
    if ((at > 0 && in_word(at - 1)) || in_word(at + name.size())) continue;
    out += text.substr(done, at - done) + "...";
    done = at + name.size();
  }
  return out + text.substr(std::min(done, text.size()));
}

/// The outcome that this thread makes: the thread that makes a kernel writes its log.
thread_local constinit Outcome* making = nullptr;

Outcome make(Runtime& runtime, const Job& job) {
  Outcome outcome;
  making = &outcome;
  const Clock::time_point start = Clock::now();
  try {
    outcome.report = job.device ? runtime.warm_op(job.request, *job.device) : runtime.warm_op(job.request, job.target);
    outcome.ok = true;
  } catch (const Error& error) {
    outcome.error = error.what();
    outcome.log = error.log.empty() || error.log.back() == '\n' ? error.log : error.log + "\n";
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  making = nullptr;
  outcome.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return outcome;
}

}  // namespace

void print_names(std::ostream& out, const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  for (std::size_t i = 0; i < names.size() && i < kMost; ++i) out << (i == 0 ? "" : ", ") << names[i];
  out << (names.size() > kMost ? ", ...\n" : "\n");
}

void Progress::follow(Options& options) {
  options.log_level =
      std::min(level_, LogLevel::debug);  // the first kernel that is not kept is a warning, the others are not
  options.log_sink = [this](LogLevel level, std::string_view text) { log(level, text); };
}

void Progress::failed(const Job& job, const Outcome& outcome) {
  std::string reason = outcome.log.empty() ? outcome.error : outcome.error + " " + outcome.log;
  if (reason.ends_with('\n')) reason.pop_back();
  failed(true, job.request.name + " for " + job.target, outcome.error + '\n' + outcome.log,
         without(without(reason, job.request.name), job.target));
}

void Progress::failed(const std::string& problem, const std::string& error) {
  failed(false, problem, error + '\n', without(error, problem));
}

void Progress::failed(bool kernel, const std::string& what, const std::string& told, const std::string& reason) {
  stop_if_ending();  // it may be for a compiler that was ended
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = failures_.try_emplace(reason, Alike{kernel, {}});
  if (!is_new) {
    place->second.names.push_back(what);
    return;
  }
  clear();
  err_ << "failed: " << what << ": " << told << std::flush;
}

void Progress::finished(const Job& job, const Outcome& outcome) {
  if (!outcome.ok) failed(job, outcome);
  const std::lock_guard lock(mutex_);
  ++done_;
  if (quiet_) return;
  if (terminal_) {
    out_ << "\r\x1b[K[" << done_ << '/' << total_ << "] " << job.request.name << ' ' << job.target << std::flush;
    dirty_ = true;
  } else if (outcome.ok) {
    out_ << '[' << done_ << '/' << total_ << "] " << job.request.name << ' ' << job.target << ": " << what(outcome)
         << std::endl;
  }
}

void Progress::log(LogLevel level, std::string_view text) {
  if (making != nullptr && text.find(cache::kNotKept) != std::string_view::npos) making->not_kept = text;
  if (level < level_) return;
  const std::lock_guard lock(mutex_);
  if (const auto [place, is_new] = logged_.try_emplace(std::string(text), 0); !is_new) {
    ++place->second;
    return;
  }
  clear();
  err_ << "tj-warm: " << text << std::endl;
}

void Progress::end() {
  const std::lock_guard lock(mutex_);
  clear();
  for (auto& [said, alike] : failures_) {
    const std::size_t more = alike.names.size();
    if (more == 0) continue;
    err_ << "failed for the same reason" << (failures_.size() > 1 ? " (" + support::shown(said, 60) + ")" : "") << ": "
         << more << (alike.kernels ? " kernel" : " problem") << (more == 1 ? " more: " : "s more: ");
    print_names(err_, alike.names);
  }
  for (auto& [text, times] : logged_) {
    if (times > 0) err_ << "tj-warm: said " << times << " times more: " << support::shown(text, 60) << '\n';
    times = 0;
  }
  err_ << std::flush;
  failures_.clear();
}

void Progress::clear() {
  if (dirty_) out_ << "\r\x1b[K" << std::flush;
  dirty_ = false;
}

int threads_for(int threads, std::size_t jobs) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return static_cast<int>(std::min(jobs, static_cast<std::size_t>(threads > 0 ? threads : cores)));
}

void make_all(Runtime& runtime, const std::vector<Job>& jobs, const std::vector<std::size_t>& chosen, int threads,
              Progress& progress, std::vector<Outcome>& outcomes) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t at; (at = next.fetch_add(1)) < chosen.size();) {
      const std::size_t i = chosen[at];
      outcomes[i] = make(runtime, jobs[i]);
      progress.finished(jobs[i], outcomes[i]);
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (int t = 1; t < threads; ++t) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // fewer threads then
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace tj::tools
