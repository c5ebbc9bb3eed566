// Calls of node bodies as text; see event_text.hpp.
//
// Decides a call's arguments, and which variant of the body it names. Does not decide what waits before it or is
// signalled behind it. Invariant: a call stands twice only where the step says which of two variants runs.
#include <set>

#include "codegen/event_text.hpp"
#include "codegen/merge_text.hpp"
#include "codegen/variants.hpp"

namespace tj::codegen {

using graph::Async;
using graph::Edge;
using graph::Scope;
using support::cat;

std::string EventWriter::call_of(const Event& event, const Section& section, Runs runs) const {
  const graph::Node& n = family_.node(event.node);
  std::string text = cat(n.async == Async::store || n.async == Async::unit ? for_one() : "", n.body, "(",
                         family_.variable(n), ", tile");
  if (n.scope == Scope::iteration) text += ", " + section.iteration(event.iteration);
  std::set<int> seen;
  for (const Edge& edge : family_.graph.edges) {
    if (edge.value < 0 || (edge.dst != event.node && edge.src != event.node) || !seen.insert(edge.value).second)
      continue;
    const int ring = family_.ring_of(edge.value);
    if (ring < 0) continue;
    Event filling = event;
    filling.ring = ring;
    filling.iteration -= edge.dst == event.node && n.scope == Scope::iteration ? edge.distance : 0;
    const auto place = [&](const char* what) {
      return cat(family_.ring_type(ring), ">(", family_.shared_for(what, ring), ", ", sequence(ring, filling, section),
                 ")");
    };
    text +=
        in_tensor(ring) ? cat(", dev::slot_columns<", place("columns")) : cat(", dev::slot_address<", place("slots"));
    if (edge.src == event.node && n.async == Async::copy) text += cat(", dev::full_barrier<", place("barriers"));
    if (edge.src == event.node && family_.value_of_ring(ring).shared_by > 1) text += cat(", ", family_.share(ring));
  }
  if (n.range) text += cat(", ", tag_of(runs == Runs::variant ? n.range.variant : graph::kGeneralVariant), "{}");
  if (n.cache_hint != graph::CacheHint::none)
    text += n.cache_hint == graph::CacheHint::evict_first ? ", dev::EvictFirst{}" : ", dev::EvictLast{}";
  text += ");";
  if (n.scope == Scope::iteration) text += cat("  // ", family_.placed(event.node), ", ", section.name);
  return text;
}

void EventWriter::write_call(const Event& event, const Section& section) {
  const char* tiles = family_.node(event.node).scope == Scope::iteration ? nullptr : "tiles";
  w_.line("dev::at_node<", number_call(event, section), ">(", tiles ? tiles : section.iteration(event.iteration), ");");
  const auto site_of = [&](SiteKind kind, const std::string& what) { return site(kind, section, what, event); };
  const MergeText merge(w_, family_, event.node, site_of);
  merge.begin();
  if (section.runs == Runs::by_step && family_.node(event.node).range) {
    w_.open("if (", kInRange, ")");
    w_.line(call_of(event, section, Runs::variant));
    w_.next("else");
    w_.line(call_of(event, section, Runs::general));
    w_.close();
  } else {
    w_.line(call_of(event, section, section.runs));
  }
  merge.end();
  if (leader_only_) {
    w_.close();
    w_.line("dev::reconverge();");  // the next lines are for the whole warp
    w_.close();
  }
  leader_only_ = false;
}

}  // namespace tj::codegen
