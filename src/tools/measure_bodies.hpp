// tj-bench --measure-bodies: how many cycles a kernel's node bodies take on a device, beside what the graph says of
// them.
//
// Decides which measured time stands for which member of an instruction, and what of a user's graph is written anew.
// Does not decide what is recorded or how a kernel is run (timeline.hpp). Invariant: a cost is written only where it
// was measured in cycles.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/timeline.hpp"

namespace tj::tools {

/// Runs all of it but the process. words: without the program's name and --measure-bodies. Returns an exit code; throws
/// nothing.
int measure_bodies(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

/// A node's times: medians over what was recorded of it.
struct MeasuredBody {
  int node = -1;
  std::optional<std::int64_t> call;  ///< from the call of its body to its return
  std::optional<std::int64_t> done;  ///< from the call until its role sees the end, of nodes on the matrix unit
};
/// In the graph's order, each node once.
std::vector<MeasuredBody> measured_bodies(const MeasuredTimeline& measured);

/// A member of an instruction that a measured time stands for.
struct MeasuredCost {
  std::string instruction, member;
  int given = 0, measured = 0;
};
/// The members that the document gives and that were measured: of what ends with its call `latency` and `warp_cycles`,
/// `cycles` where neither is given; of products `latency`, `issue_cycles` and `warp_cycles`; of copies and stores
/// `issue_cycles` and `warp_cycles`.
std::vector<MeasuredCost> costs_of(const graph::Graph& graph, const std::vector<MeasuredBody>& bodies,
                                   std::string_view document);
/// The document with these costs. Delays of edges that begin at a node, and are as long as its latency was, follow it.
/// These are costs of one form on one machine: of a document with candidates or targets, `form` is written, which is
/// the document of that form alone.
std::string with_costs(std::string_view document, std::string_view form, std::string_view name,
                       const std::vector<MeasuredCost>& costs);

}  // namespace tj::tools
