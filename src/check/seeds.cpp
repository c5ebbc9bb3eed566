// See seeds.hpp.
#include "check/seeds.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::check {
namespace {

using support::cat;

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

std::string without_numbers(const std::string& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins =
        support::is_digit(text[at]) && (at == 0 || (!support::is_word_letter(text[at - 1]) && text[at - 1] != '.'));
    std::size_t end = at + 1;
    if (begins)
      while (end < text.size() && support::is_word_letter(text[end])) ++end;
    if (begins && !ends_with(plain, "site "))
      plain += '#';
    else
      plain.append(text, at, end - at);
    at = end;
  }
  return plain;
}

int threads_for(int threads, std::size_t count) {
  const int wanted = threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return static_cast<int>(std::max<std::size_t>(1, std::min(count, static_cast<std::size_t>(wanted))));
}

void in_threads(int threads, std::size_t count,
                const std::function<void(std::size_t thread, std::size_t index)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto loop = [&](std::size_t thread) {
    try {
      for (std::size_t i; (i = next.fetch_add(1)) < count;) work(thread, i);
    } catch (...) {
      next.store(count);
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (int t = 1; t < threads_for(threads, count); ++t) others.emplace_back(loop, static_cast<std::size_t>(t));
  } catch (const std::system_error&) {  // fewer threads then
  }
  loop(0);
  for (std::thread& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

std::vector<Finding> try_seeds(const Subject& subject, const Seeds& seeds, const std::vector<Change>& changes,
                               const std::function<void()>& done) {
  const int threads = threads_for(seeds.threads, seeds.count);
  std::vector<std::unique_ptr<Run>> runs(static_cast<std::size_t>(threads));
  std::vector<Outcome> outcomes(seeds.count);
  in_threads(threads, seeds.count, [&](std::size_t thread, std::size_t index) {
    if (!runs[thread]) runs[thread] = std::make_unique<Run>(subject, seeds.data);
    outcomes[index] = (*runs[thread])(seeds.first + index, changes);
    if (done) done();
  });
  std::string wanted;  // sites of the kernel as it is
  const bool changed =
      std::any_of(changes.begin(), changes.end(), [](const Change& change) { return change.kernel != nullptr; });
  if (changed) wanted = Run(subject, seeds.data)(seeds.first, {}).results;
  std::vector<Finding> findings;
  std::vector<std::string> known;
  for (std::uint64_t i = 0; i < seeds.count; ++i) {
    Outcome& outcome = outcomes[i];
    if (!outcome.fault && wanted.empty()) wanted = outcome.results;
    if (!outcome.fault && !outcome.no_number.empty())
      outcome.fault = Fault{subject.own().name,
                            Code::model_fault,
                            cat(outcome.no_number,
                                ", of values that are all finite, and nothing was reported: a node may read or change "
                                "the sums of a product before its wait"),
                            {}};
    if (!outcome.fault && !outcome.wrong.empty())
      outcome.fault = Fault{subject.own().name, Code::model_fault, outcome.wrong, {}};
    if (!outcome.fault && outcome.results != wanted)
      outcome.fault = Fault{subject.own().name,
                            Code::model_fault,
                            changed ? "the results differ from those with all sites on, and nothing was reported"
                                    : "the results differ from those of an earlier seed, and nothing was reported",
                            {}};
    if (!outcome.fault) continue;
    const std::string plain = cat(outcome.fault->kernel, ": ", without_numbers(outcome.fault->message));
    const auto found = std::find(known.begin(), known.end(), plain);
    if (found != known.end()) {
      ++findings[static_cast<std::size_t>(found - known.begin())].seeds;
      continue;
    }
    known.push_back(plain);
    findings.push_back({std::move(*outcome.fault), seeds.first + i, 1});
  }
  return findings;
}

}  // namespace tj::check
