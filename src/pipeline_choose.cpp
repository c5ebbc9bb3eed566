// The choice among a request's candidates (see pipeline.hpp).
//
// Decides how candidates are rated, and when the search for a candidate's schedule may end. Invariant: the choice is
// the one that full searches of all candidates would give.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline.hpp"
#include "sched/bounds.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using support::cat;

// A graph may be schedulable for an arch that nobody wrote node bodies for.
void require_bodies(const ops::Maker& op, const graph::Graph& graph, const arch::Arch& arch) {
  const auto headers = headers_for({&arch, false}, &op);
  for (const std::string& include : graph.includes)
    if (!has_header(headers, include))
      support::fail(Stage::target, Code::unsupported,
                    cat("op '", op.name(), "' has no kernel for the arch family '", arch.family, "' of '", arch.name,
                        "': there is no kernel_templates/", include));
}

/// A candidate, and what is known of its schedule.
struct Considered {
  ops::Candidate candidate;
  sched::Options options;
  std::optional<sched::Schedule> schedule;
  std::optional<Error> refused;
  int most_ii = 0;  ///< a larger II is of no use; 0: any may be
  int open_ii = 0;  ///< the smallest II that the search could not decide; 0: none
};

/// Predicted useful flops a cycle of an SM.
double rate_of(const ops::Candidate& candidate, int ii, int length) {
  const double cycles = candidate.graph.overhead_cycles + candidate.typical_iterations * ii + (length - ii);
  return candidate.useful_flops * candidate.graph.blocks_per_sm / cycles;
}
double rate_of(const Considered& of) { return rate_of(of.candidate, of.schedule->ii, of.schedule->length); }

/// Looks for a schedule at the first II that bounds allow. One that takes few nodes is what the whole search would
/// find. A question may take half of what a budget has left: below a third of it, none was cut short. The budget is
/// small beside the whole search's, which has 7000 nodes for a graph of 40.
void look_first(Considered& of) {
  constexpr std::uint64_t kFewNodes = 256;
  constexpr std::uint64_t kShare = 3;
  sched::Options few = of.options;
  few.node_budget = std::min(of.options.node_budget, kFewNodes);
  try {
    sched::Schedule found = sched::schedule_within(of.candidate.graph, few, sched::kFirstIi);
    if (kShare * found.search_nodes < few.node_budget) of.schedule = std::move(found);
  } catch (const Error&) {  // the whole search says why
  }
}

/// Ends the candidate's search where it cannot come to the rate any more. `more`: only a higher rate counts. False
/// where no II gives it.
bool bound(Considered& of, double rate, bool more) {
  const int length = sched::least_length(of.candidate.graph, of.options);
  const auto counts = [&](int ii) {
    const double most = rate_of(of.candidate, ii, std::max(length, 1));
    return more ? most > rate : most >= rate;
  };
  if (!counts(1)) return false;
  if (of.candidate.typical_iterations <= 1 || counts(sched::kMaxMinIi)) return true;  // any may do
  int low = 1, high = sched::kMaxMinIi;
  while (low + 1 < high) {
    const int middle = low + (high - low) / 2;
    (counts(middle) ? low : high) = middle;
  }
  of.most_ii = low;
  return true;
}

/// The best of them, which the first of equals is; null where none has a schedule. Schedules of the first look bound
/// the other searches.
Considered* best_of(std::vector<Considered>& list) {
  if (list.size() > 1)
    for (Considered& each : list) look_first(each);
  Considered* best = nullptr;
  const auto take = [&](Considered& each) {
    if (best == nullptr || rate_of(each) > rate_of(*best) || (rate_of(each) == rate_of(*best) && &each < best))
      best = &each;
  };
  for (Considered& each : list)
    if (each.schedule) take(each);
  for (Considered& each : list) {
    if (each.schedule) continue;
    try {
      if (best != nullptr && !bound(each, rate_of(*best), &each > best)) continue;
      each.schedule = sched::schedule_within(each.candidate.graph, each.options, each.most_ii, &each.open_ii);
      take(each);
    } catch (const Error& e) {
      each.refused = e;  // another shape may fit
    }
  }
  return best;
}

/// Two candidates of one graph may differ in the blocks on an SM alone: then their reasons differ in numbers alone.
bool says_the_same(const std::string& reason, const std::string& other) {
  const auto words = [](const std::string& text) {
    const std::size_t subject = std::min(text.find("': "), text.size());  // the graph's name has numbers of its own
    std::string kept = text.substr(0, subject);
    for (const char c : text.substr(subject))
      if (c < '0' || c > '9') kept += c;
    return kept;
  };
  return words(reason) == words(other);
}

/// The shape that is taken, where the usual search did not settle its interval: once more, for longer.
void settle(Choice& choice, const sched::Options& options, int open_ii) {
  if (choice.schedule.proven_ii || choice.candidate.node_budget == 0 || options.node_budget != sched::kBudgetBySize)
    return;
  sched::Options longer = options_for(choice.candidate, options);
  longer.node_budget = choice.candidate.node_budget;
  sched::Schedule again = sched::schedule_within(choice.candidate.graph, longer, 0, &open_ii);
  if (again.ii <= choice.schedule.ii) choice.schedule = std::move(again);
}

}  // namespace

sched::Options options_for(const ops::Candidate& candidate, const sched::Options& options) {
  sched::Options own = options;
  own.order_barriers = options.order_barriers && candidate.turns;
  if (own.max_stages == 0) own.max_stages = candidate.max_stages;
  if (own.max_slots == 0) own.max_slots = candidate.max_slots;
  own.copies_apart = options.copies_apart || candidate.copies_apart;
  if (candidate.one_role) {
    own.mixed_roles = true;
    own.max_roles = 1;
  }
  return own;
}

Choice choose(const ops::Maker& op, const ops::Request& request, const arch::Arch& arch, const sched::Options& options,
              double below_flops) {
  std::vector<Considered> list;
  std::optional<Error> refused;  // the first, with the reasons of all
  std::vector<std::string> reasons;
  const auto refuse = [&](const Error& e) {
    const auto said = [&](const std::string& reason) { return says_the_same(reason, e.message); };
    if (std::any_of(reasons.begin(), reasons.end(), said)) return;
    reasons.push_back(e.message);
    refused = refused ? Error(refused->stage, refused->code, refused->message + "; " + e.message, refused->log) : e;
  };
  for (ops::Candidate& candidate : op.candidates(request, arch)) {
    if (below_flops > 0 && candidate.graph.flops_per_iteration >= below_flops) continue;
    try {
      require_bodies(op, candidate.graph, arch);
      const sched::Options own = options_for(candidate, options);
      list.push_back({std::move(candidate), own, {}, {}, 0, 0});
    } catch (const Error& e) {
      refuse(e);
    }
  }
  if (Considered* const best = best_of(list)) {
    Choice choice{std::move(best->candidate), std::move(*best->schedule)};
    settle(choice, options, best->open_ii);
    return choice;
  }
  for (const Considered& each : list)
    if (each.refused) refuse(*each.refused);
  if (refused) throw *refused;
  support::fail(Stage::schedule, Code::unsupported, cat("'", request.name, "' has no tile shape for ", arch.name));
}

}  // namespace tj
