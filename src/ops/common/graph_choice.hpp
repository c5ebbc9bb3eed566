// The op under whose name choices among the candidates of users' graphs are measured and kept.
//
// Decides how such a choice is named and found: its problem has the fields of the kernel's request, and the names of
// the candidates. Makes and launches nothing (graph_op.hpp). Invariant: equal graphs, bodies and options have equal
// keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/common/tunable.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// The op in requests of users' own kernels.
inline constexpr const char* kGraphOpName = "custom";

/// A choice is the place of a candidate, counted from 1; 0: the one that is predicted to do most.
const Op& graph_choice();
/// Op of this name, also of records of users' graphs; null when unknown.
const Op* find_tuned(std::string_view name);

/// The problem of a request's kernel.
Problem graph_problem(const Request& request, const std::vector<std::string>& candidates);
ProblemKey graph_problem_key(const Problem& problem);
/// The candidates that a problem names, without predictions.
std::vector<Variant> graph_variants(const Problem& problem);

}  // namespace tj::ops
