// See warm_keep.hpp.
#include "tools/warm_keep.hpp"

#include <set>
#include <utility>

#include "cache/cache.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"
#include "tools/own_compiler.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::shown_path;

struct Kept {
  std::set<std::pair<std::string, std::string>> names;  ///< and targets of all sound entries that serve here
  std::string problem;                                  ///< for which others may be there; empty when there is none
  bool has(const Job& job) const { return names.count({job.request.name, job.target}) != 0; }
};

Kept kept_in(const support::Settings& settings) {
  Kept kept;
  const cache::Store store(settings.cache_dir, 0, {}, settings.pack_keys);
  const std::vector<cache::LayerState> layers = store.layers();
  const bool packs_serve = settings.pack_compiler == PackCompiler::any;
  OwnCompilers own(settings);
  for (const cache::ListedEntry& listed : store.list(&kept.problem)) {
    if (listed.alias) continue;
    if (!listed.entry) {
      if (kept.problem.empty()) kept.problem = cat("'", shown_path(listed.path), "': ", listed.problem);
      continue;
    }
    const bool in_pack = listed.layer < layers.size() && layers[listed.layer].pack;
    if (!(in_pack && packs_serve) && own.is_others(*listed.entry)) continue;
    const std::string *name = listed.entry->find("name"), *target = listed.entry->find("target");
    if (name && target) kept.names.emplace(*name, *target);
  }
  return kept;
}

void fail_job(const Job& job, Outcome& outcome, std::string error, Progress& progress) {
  outcome.ok = false;
  outcome.error = std::move(error);
  progress.failed(job, outcome);
}

}  // namespace

std::vector<std::size_t> jobs_worth_making(const support::Settings& settings, const std::vector<Job>& jobs,
                                           std::vector<Outcome>& outcomes, Progress& progress) {
  std::vector<std::size_t> worth;
  const std::string& cache_dir = settings.cache_dir;
  const std::string reason = cache::Store(cache_dir, 0, {}).cannot_keep();
  const Kept kept = reason.empty() ? Kept{} : kept_in(settings);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (reason.empty() || kept.has(jobs[i]))
      worth.push_back(i);
    else
      fail_job(jobs[i], outcomes[i],
               cat("nothing can be kept in the cache at '", shown_path(cache_dir), "', so it was not made: ", reason,
                   ". Give --cache-dir, or TJ_CACHE_DIR, a folder of your own with room"),
               progress);
  }
  return worth;
}

std::string why_not_kept(const std::string& cache_dir) {
  const std::string reason = cache::Store(cache_dir, 0, {}).cannot_keep();
  return reason.empty() ? "it can be written; is TJ_CACHE_MAX_SIZE large enough?" : support::one_line(reason);
}

std::string why_gone(const support::Settings& settings, const char* done, std::uint64_t evictions) {
  const std::string at = cat("the cache at '", shown_path(settings.cache_dir), "'");
  if (settings.cache_max_size_bytes == 0 || evictions == 0)
    return cat("was in ", at, ", and is not there any more; does something else remove files there?");
  return cat("was ", done, " and then removed from ", at, ", to stay within its bound of ",
             settings.cache_max_size_bytes,
             " bytes; raise TJ_CACHE_MAX_SIZE (0: no bound), or keep fewer kernels there");
}

void check_kept(const support::Settings& settings, const std::vector<Job>& jobs, std::vector<Outcome>& outcomes,
                std::uint64_t evictions, Progress& progress) {
  const std::string& cache_dir = settings.cache_dir;
  const Kept kept = kept_in(settings);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!outcomes[i].ok) continue;
    const bool there = kept.has(jobs[i]), made = outcomes[i].report.origin == KernelOrigin::compiled;
    if (made && !outcomes[i].not_kept.empty())
      fail_job(jobs[i], outcomes[i], cat("was made and is not in the cache: ", outcomes[i].not_kept), progress);
    else if (!there && !kept.problem.empty())
      fail_job(jobs[i], outcomes[i],
               cat("may be in the cache at '", shown_path(cache_dir), "', which cannot all be read: ", kept.problem),
               progress);
    else if (!there)
      fail_job(jobs[i], outcomes[i], why_gone(settings, "made", evictions), progress);
  }
}

}  // namespace tj::tools
