// See mutants.hpp.
#include "check/mutants.hpp"

#include <algorithm>
#include <utility>

#include "check/rings_text.hpp"
#include "support/fail.hpp"

namespace tj::check {
namespace {

using support::cat;

Change change_of(const Mutant& mutant, Kernels& kernels) {
  Change change;
  change.kernel = mutant.kernel;
  if (mutant.disabled != 0) change.disabled = {mutant.disabled};
  if (mutant.weakened != 0) change.weakened = {mutant.weakened};
  if (!mutant.text.empty()) change.instead = kernels.compile(*mutant.kernel, mutant.text);
  return change;
}

constexpr std::uint64_t kSeedsOfEquivalent = 10;  // no seed of these catches it, if its argument holds

/// A problem, and its results when nothing is wrong.
struct Problem {
  const Subject* subject;
  std::string wanted;
};
/// The runs of one thread; made when first needed.
using Runs = std::vector<std::unique_ptr<Run>>;

Judged judge_one(const std::vector<Problem>& problems, Runs& runs, Mutant mutant, Kernels& kernels,
                 const Seeds& seeds) {
  Judged judged;
  const std::vector<Change> changes = {change_of(mutant, kernels)};
  const Equivalent* known = equivalent_of(mutant.kernel->name, mutant.what);
  const std::uint64_t count = known == nullptr ? seeds.count : std::min(seeds.count, kSeedsOfEquivalent);
  for (std::uint64_t i = 0; i < count && judged.verdict != Verdict::caught; ++i)
    for (std::size_t p = 0; p < problems.size() && judged.verdict != Verdict::caught; ++p) {
      if (!runs[p]) runs[p] = std::make_unique<Run>(*problems[p].subject, seeds.data);
      const Outcome outcome = (*runs[p])(seeds.first + i, changes);
      if (outcome.fault) {
        judged.verdict = Verdict::caught;
        judged.seed = seeds.first + i;
        judged.message = outcome.fault->message;
      } else if (outcome.results != problems[p].wanted) {
        judged.results_differ = true;
      }
    }
  if (known != nullptr && judged.verdict != Verdict::caught && !judged.results_differ) {
    judged.verdict = Verdict::equivalent;
    judged.equivalent = known;
  }
  mutant.text.clear();
  judged.mutant = std::move(mutant);
  return judged;
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::caught:
      return "caught";
    case Verdict::equivalent:
      return "equivalent";
    case Verdict::survived:
      return "survived";
  }
  return "?";
}

std::string mutant_text(const Site& site, bool weakened) {
  return cat("site ", site.id, weakened ? " weakened: " : " off: ", site.text);
}

std::vector<Mutant> mutants_of(const Subject& subject, Kernels& kernels) {
  std::vector<Mutant> mutants;
  for (const Kernel* kernel : subject.kernels) {
    for (const Site& site : kernel->sites) {
      mutants.push_back({kernel, mutant_text(site, false), site.id, 0, {}});
      if (can_be_weakened(site)) mutants.push_back({kernel, mutant_text(site, true), 0, site.id, {}});
    }
    for (RingText& ring :
         ring_mutants(kernels.text_of(*kernel), rings_filled_once(kernel->loaded->kernel->notes_text())))
      mutants.push_back({kernel, std::move(ring.what), 0, 0, std::move(ring.text)});
  }
  return mutants;
}

std::vector<Judged> judge(const std::vector<const Subject*>& subjects, Kernels& kernels, std::vector<Mutant> mutants,
                          const Seeds& seeds, const std::function<void()>& done) {
  std::vector<Problem> problems;
  for (const Subject* subject : subjects) {
    Outcome whole = Run(*subject, seeds.data)(seeds.first, {});
    if (!whole.fault && !whole.wrong.empty())
      whole.fault = Fault{subject->own().name, Code::model_fault, whole.wrong, {}};
    if (whole.fault)
      support::fail(Stage::model, whole.fault->code,
                    cat(whole.fault->kernel, " is not clean itself, at seed ", seeds.first, ": ", whole.fault->message,
                        "; check it without --mutate first"),
                    whole.fault->log);
    problems.push_back({subject, whole.results});
  }
  const int threads = threads_for(seeds.threads, mutants.size());
  std::vector<Runs> runs(static_cast<std::size_t>(threads));
  std::vector<Judged> judged(mutants.size());
  in_threads(threads, mutants.size(), [&](std::size_t thread, std::size_t index) {
    runs[thread].resize(problems.size());
    judged[index] = judge_one(problems, runs[thread], std::move(mutants[index]), kernels, seeds);
    if (done) done();
  });
  return judged;
}

}  // namespace tj::check
