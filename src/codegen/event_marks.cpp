// Marks around the events of a unit that records; see event_text.hpp and record.hpp.
//
// Decides which events are marked and what a mark says. Invariant: the begin of a node or wait is followed by its end
// with no other mark of the role between them. No event's text differs from its text in a unit without marks.
#include "codegen/event_text.hpp"

#include <algorithm>
#include <utility>

#include "support/fail.hpp"

namespace tj::codegen {

using graph::Async;
using graph::Scope;
using support::cat;

/// For each member; empty where the event is no wait, or waits for nothing here.
std::vector<std::string> EventWriter::waited_for(const Event& event, const Section& section) const {
  const auto all = [&](const std::string& what) { return std::vector<std::string>(family_.family.size(), what); };
  const auto of_ring = [&](const char* state) {
    const bool own =
        own_ring(family_.graph, family_.schedule, family_.family, event.ring);  // such rings lie one behind the other
    std::vector<std::string> what;
    for (int member = 0; member < static_cast<int>(family_.family.size()); ++member)
      what.push_back(family_.value_of_ring(event.ring + (own ? member : 0)).name + state);
    return what;
  };
  switch (event.kind) {
    case EventKind::wait_full:
      return of_ring(" full");
    case EventKind::wait_empty:
      return never_filled(event, section) ? std::vector<std::string>() : of_ring(" empty");
    case EventKind::wait_place:
      return nothing_before(event, section) ? std::vector<std::string>() : of_ring(" gone");
    case EventKind::order_wait:
      return all(cat("turn on ", family_.graph.machine
                                     .units[static_cast<std::size_t>(
                                         family_.schedule.order_barriers[static_cast<std::size_t>(event.order)].unit)]
                                     .name));
    case EventKind::matrix_wait:
      return all("products");
    case EventKind::store_wait:
      return all("stores have read");
    case EventKind::block_sync:
      return all("the block");
    default:
      return {};
  }
}

bool EventWriter::of_iteration(const Event& event, const Section& section) const {
  if (section.absolute() && event.iteration < 0) return false;
  switch (event.kind) {
    case EventKind::wait_full:
    case EventKind::wait_empty:
      return family_.value_of_ring(event.ring).scope == Scope::iteration && !left_behind(event, section);
    case EventKind::wait_place:
      return event.iteration >= 0 || !section.absolute();
    case EventKind::call:
    case EventKind::matrix_fence:
    case EventKind::matrix_commit:
    case EventKind::done:
      return family_.node(event.node).scope == Scope::iteration;
    default:
      return false;
  }
}

void EventWriter::mark(MarkKind kind, const Event& event, const Section& section,
                       const std::vector<std::string>& what) {
  const bool iterates = of_iteration(event, section);
  const int id = sites_.add(Mark{0, kind, family_.family,
                                 event.node < 0 ? std::vector<int>() : family_.copies_of(event.node), what, iterates});
  const bool may_lack = section.since_begin && iterates && event.iteration < 0;  // as of a group that is empty then
  line_of(cat(may_lack ? cat("if (s >= ", -event.iteration, ") ") : "", "dev::record<", id,
              ">(recorded.records, next_record, ", iterates ? section.iteration(event.iteration) : "0", ");"));
}

void EventWriter::write_marked(const Event& event, const Section& section) {
  const bool opens =
      event.kind == EventKind::wait_empty && fills_alone(event.node);  // a branch of one thread, in which it waits, too
  const bool starts = opens || event.kind == EventKind::matrix_fence || event.kind == EventKind::call;
  if (starts && !node_marked_) {
    Event begins = event;
    begins.kind = EventKind::call;
    mark(MarkKind::node_begin, begins, section);
    node_marked_ = true;
  }
  const std::vector<std::string> wait = opens || leader_only_ ? std::vector<std::string>() : waited_for(event, section);
  if (!wait.empty()) mark(MarkKind::wait_begin, event, section, wait);
  write_event(event, section);
  if (!wait.empty()) mark(MarkKind::wait_end, event, section, wait);
  const bool matrix = event.node >= 0 && family_.node(event.node).async == Async::matrix;
  if (event.kind == EventKind::matrix_commit || (event.kind == EventKind::call && !matrix)) {
    mark(MarkKind::node_end, event, section);
    node_marked_ = false;
  }
  if (event.kind == EventKind::done) mark(MarkKind::node_done, event, section);
}

int EventWriter::number_call(const Event& event, const Section& section) {
  Call call{0, family_.copies_of(event.node), family_.family, section.name, {}, {}};
  for (const graph::Edge& edge : family_.graph.edges) {
    if (edge.value < 0 || (edge.src != event.node && edge.dst != event.node)) continue;
    std::vector<int>& rings = edge.dst == event.node ? call.reads : call.writes;
    if (std::find(rings.begin(), rings.end(), family_.ring_of(edge.value)) == rings.end())
      rings.push_back(family_.ring_of(edge.value));
  }
  return sites_.add(std::move(call));
}

}  // namespace tj::codegen
