// What keeps a loop from an initiation interval that a search has excluded, in names.
//
// Decides no schedule. Invariant: without any one of the nodes named on their unit, that interval is possible.
#pragma once

#include <string>

#include "sched/modulo/modulo.hpp"
#include "sched/modulo/problem.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

/// Of the interval that `result` says was excluded; without one, nothing.
Excluded what_binds(const Problem& problem, const ModuloResult& result);
/// In words, to follow a certificate; empty where no interval was excluded.
std::string to_words(const Excluded& excluded);

}  // namespace tj::sched
