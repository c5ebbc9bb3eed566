// The question whether kernels that tj-warm makes are kept: asked before the first is made, and of each afterwards.
//
// Decides what is a failure. Does not decide where kernels are kept, nor what is evicted (cache).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/environment.hpp"
#include "tools/warm_make.hpp"

namespace tj::tools {

/// Before anything is made. Where nothing can be kept, jobs whose kernels do not lie there already get a failure as
/// outcome, and are left out of what is made. Returns the indices of the others: all of them where the cache can be
/// written.
std::vector<std::size_t> jobs_worth_making(const support::Settings& settings, const std::vector<Job>& jobs,
                                           std::vector<Outcome>& outcomes, Progress& progress);

/// Why a measured choice could not be written, in words that end no line.
std::string why_not_kept(const std::string& cache_dir);

/// Why an entry that was in the cache is not there at the end. done: "made".
std::string why_gone(const support::Settings& settings, const char* done, std::uint64_t evictions);

/// A kernel that was made but is not on disk was made in vain: that is a failure here, while a Runtime only warns. So
/// is one that was written, and is gone since, and a measured choice, whose job names its problem. evictions: entries
/// that this process removed to stay within a bound.
void check_kept(const support::Settings& settings, const std::vector<Job>& jobs, std::vector<Outcome>& outcomes,
                std::uint64_t evictions, Progress& progress);

}  // namespace tj::tools
