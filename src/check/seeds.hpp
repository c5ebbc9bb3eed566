// A trial at many seeds: each finding once.
//
// Decides which reports are the same finding, and how seeds are spread over threads. Invariant: the findings do not
// depend on the number of threads; seeds follow each other from the first.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check/run.hpp"

namespace tj::check {

/// Reports that differ in numbers alone, but for sites, are one.
struct Finding {
  Fault fault;  ///< text at the first seed
  std::uint64_t first_seed = 0, seeds = 0;
};

struct Seeds {
  std::uint64_t first = 1, count = 20;
  std::uint64_t data = 1;  ///< seed of the values that tensors hold
  int threads = 0;         ///< 0: one a core
};

/// The text without its numbers, but for numbers of sites and numbers that are part of a name.
std::string without_numbers(const std::string& text);

/// Several threads, each of which calls work(index) for one index after the other; the first exception is let through,
/// when all have ended.
void in_threads(int threads, std::size_t count, const std::function<void(std::size_t thread, std::size_t index)>& work);
/// threads 0: one a core; never more than there is work.
int threads_for(int threads, std::size_t count);

/// Findings in the order of their first seeds. Results that are no numbers are a finding too. So are results that
/// differ between seeds, or from the results without the changes. done: called after each run, from any thread. Throws
/// tj::Error of other stages than the model's.
std::vector<Finding> try_seeds(const Subject& subject, const Seeds& seeds, const std::vector<Change>& changes,
                               const std::function<void()>& done = {});

}  // namespace tj::check
