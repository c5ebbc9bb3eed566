// See event_text.hpp.
#include "codegen/event_text.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/merge_text.hpp"
#include "codegen/places.hpp"
#include "support/fail.hpp"

namespace tj::codegen {

using graph::Async;
using graph::Edge;
using graph::Scope;
using support::cat;

std::string Section::iteration(int value) const {
  if (absolute()) return cat(value);
  if (value == 0) return variable;
  return cat(variable, value < 0 ? " - " : " + ", value < 0 ? -value : value);
}

std::string EventWriter::sequence(int ring, const Event& event, const Section& section) const {
  if (family_.value_of_ring(ring).scope != Scope::iteration) return "tiles";
  if (section.absolute() && event.iteration < 0)
    return left_behind(event, section) ? "base + static_cast<unsigned>(n) - 1u" : "base - 1u";
  const std::string iteration = section.iteration(event.iteration);
  if (iteration == "0") return "base";
  return cat("base + ", iteration);
}

int EventWriter::site(SiteKind kind, const Section& section, const std::string& what, const Event& event) {
  return sites_.add(Site{0, kind, cat("role ", family_.names(), ", ", section.name, ": ", what), family_.family,
                         event.ring, event.node});
}

template <class... Parts>
void EventWriter::line(const Parts&... parts) {
  const std::size_t before = w_.text().size();
  w_.line(parts...);
  for (std::size_t* mark : {&met_at_, &fenced_at_, &arrived_at_, &followed_at_, &stored_at_, &settled_at_})
    if (*mark == before) *mark = w_.text().size();
}

/// Work that every lane has done before this line comes before the arrival of the lane that arrives for all.
void EventWriter::meet(const Event& event, const Section& section, const std::string& before) {
  if (met_at_ == w_.text().size()) return;
  line("dev::warp_sync<", site(SiteKind::sync, section, cat("warp sync before ", before), event), ">();");
  met_at_ = w_.text().size();
}

void EventWriter::line_of(const std::string& text) { line(text); }

void EventWriter::write(const Event& event, const Section& section, const Event* next) {
  next_ = next;
  if (&event == early_.asked_before) ask_early(section);
  if (sites_.recording())
    write_marked(event, section);
  else
    write_event(event, section);
}

void EventWriter::write_event(const Event& event, const Section& section) {
  const auto at = [&](SiteKind kind, const std::string& what) { return site(kind, section, what, event); };
  const std::string& name = event.node >= 0 ? family_.node(event.node).name : family_.role().name;
  switch (event.kind) {
    case EventKind::call:
      return write_call(event, section);
    case EventKind::matrix_fence:
      return w_.line("dev::matrix_fence<", at(SiteKind::fence, "fence before " + name), ">();");
    case EventKind::matrix_commit:
      return w_.line("dev::matrix_commit<", at(SiteKind::commit, "commit " + name), ">();");
    case EventKind::store_commit:
      return w_.line(for_one(), "dev::store_commit<", at(SiteKind::commit, "commit stores of " + name), ">();");
    case EventKind::store_wait:
      return w_.line(for_one(), "dev::store_wait<", at(SiteKind::group_wait, "wait for stores"), ", ", event.pending,
                     ">();");
    case EventKind::matrix_wait:
      return w_.line("dev::matrix_wait<", at(SiteKind::group_wait, "group wait"), ", ", event.pending, ">();");
    case EventKind::done:
      return w_.line(family_.node(event.node).body, "_done(", family_.variable(family_.node(event.node)), ");");
    case EventKind::order_wait:
      return w_.line("dev::named_sync<", at(SiteKind::turn_wait, "turn before " + name), ">(",
                     family_.order_arguments(static_cast<std::size_t>(event.order), 0), ");");
    case EventKind::order_arrive:
      return w_.line("dev::named_arrive<", at(SiteKind::turn_arrive, "turn after " + name), ">(",
                     family_.order_arguments(static_cast<std::size_t>(event.order), 1), ");");
    case EventKind::block_sync:
    case EventKind::warp_sync: {
      const char* whose = event.kind == EventKind::block_sync ? "block" : "warp";
      return w_.line("dev::", whose, "_sync<",
                     at(SiteKind::sync, cat(whose, " sync before ", event.node >= 0 ? name : "the loop")), ">();");
    }
    case EventKind::wait_place:
      return write_wait_place(event, section);
    case EventKind::proxy_fence:
      if (fenced_at_ == w_.text().size()) return;
      w_.line("dev::proxy_fence<", at(SiteKind::fence, "proxy fence after " + name), ">();");
      fenced_at_ = w_.text().size();
      return;
    default:
      return write_ring_event(event, section);
  }
}

// ---- rings --------------------------------------------------------------------------------------
/// Copies that nobody waits for fill its place next, and nodes of this role read it by ordinary accesses.
bool EventWriter::read_by_threads(int ring) const {
  const int value = family_.schedule.rings[static_cast<std::size_t>(ring)].value;
  const auto reads = [&](const Edge& edge) {
    return edge.value == value && family_.schedule.role[static_cast<std::size_t>(edge.dst)] == family_.first &&
           family_.node(edge.dst).async == Async::none;
  };
  return replaced_by_copies(family_.graph, family_.schedule, value, false) &&
         std::any_of(family_.graph.edges.begin(), family_.graph.edges.end(), reads);
}

OfPair EventWriter::pair_of(int ring) const {
  return of_pair(family_.graph, family_.schedule.rings[static_cast<std::size_t>(ring)].value);
}

/// Do only products that one thread asks for read it in this role? Then the unit hands it back, even if others of the
/// role have not looked yet. So nobody else may look at all.
bool EventWriter::read_by_unit(int ring) const {
  const int value = family_.schedule.rings[static_cast<std::size_t>(ring)].value;
  return std::none_of(family_.graph.edges.begin(), family_.graph.edges.end(), [&](const Edge& edge) {
    return edge.value == value && family_.schedule.role[static_cast<std::size_t>(edge.dst)] == family_.first &&
           family_.node(edge.dst).async != Async::unit;
  });
}

/// May a lane be ahead of others that still wait for the filling, or read it? All lanes of a warp wait for the matrix
/// unit together, so they are past its reads at once. But a value that is there once a tile may have no reader in a
/// tile without iterations.
bool EventWriter::lanes_apart(int ring) const {
  const int value = family_.schedule.rings[static_cast<std::size_t>(ring)].value;
  bool sure = family_.value_of_ring(ring).scope == Scope::iteration;
  for (const Edge& edge : family_.graph.edges) {
    if (edge.value != value || family_.schedule.role[static_cast<std::size_t>(edge.dst)] != family_.first) continue;
    if (family_.node(edge.dst).async != Async::matrix) return true;
    sure |= family_.node(edge.dst).scope != Scope::iteration;
  }
  return !sure;
}

/// The last reader in this role, in its order; -1 where it reads nothing of the ring.
int EventWriter::last_reader(int ring) const {
  const int value = family_.schedule.rings[static_cast<std::size_t>(ring)].value;
  int last = -1;
  for (const int node : family_.role().nodes)
    for (const Edge& edge : family_.graph.edges)
      if (edge.value == value && edge.dst == node) last = node;
  return last;
}

void EventWriter::write_ring_event(const Event& event, const Section& section) {
  const std::string& value = family_.value_of_ring(event.ring).name;
  const std::string arguments = cat(family_.ring_type(event.ring), ">(", family_.shared_for("barriers", event.ring),
                                    ", ", sequence(event.ring, event, section), ");");
  if (!left_behind(event, section)) return write_ring_event(event, section, value, arguments);
  w_.open("if (n > 0)");
  write_ring_event(event, section, value, arguments);
  w_.close();
}

void EventWriter::write_ring_event(const Event& event, const Section& section, const std::string& value,
                                   const std::string& arguments) {
  switch (event.kind) {
    case EventKind::wait_full: {
      const int number = site(SiteKind::wait, section, cat("wait ring ", value, " full"), event);
      w_.line(read_by_unit(event.ring) ? for_one() : unless_there(event, number), "dev::wait_full<", number, ", ",
              arguments);
      return follow_sync(event, section);
    }
    case EventKind::unit_publish:
    case EventKind::unit_release:
      return write_unit_event(event, section, arguments);
    case EventKind::publish_copies:
      return w_.line("dev::publish_copies<", site(SiteKind::arrive, section, cat("copies publish ring ", value), event),
                     ", ", arguments);
    case EventKind::publish:
      return write_publish(event, section, arguments);
    case EventKind::release:
      return write_release(event, section, arguments);
    case EventKind::wait_empty:
      return write_wait_empty(event, section, arguments);
    default:
      return w_.line(pair_of(event.ring) == OfPair::read ? "if (dev::first_of_pair()) " : "", "dev::expect_full<",
                     site(SiteKind::expect, section, cat("expect bytes of ring ", value), event), ", ", arguments);
  }
}

void EventWriter::write_publish(const Event& event, const Section& section, const std::string& arguments) {
  const std::string what = "ring " + family_.value_of_ring(event.ring).name;
  if (in_tensor(event.ring)) settle(event, section, true);
  if (next_ != nullptr && next_->kind == EventKind::release) end_reads(*next_, section);  // lanes meet once for both
  meet(event, section, "publishing " + what);
  line("dev::publish<", site(SiteKind::arrive, section, "publish " + what, event), ", ", arguments);
}

/// Says that this lane has read, for whoever learns of it. Nobody asks where the slot is not filled again.
void EventWriter::end_reads(const Event& of, const Section& section) {
  Event event = of;
  event.node = last_reader(of.ring);
  const graph::Value& value = family_.value_of_ring(of.ring);
  if (stays(of.ring) || !filled_again(event, section)) return;
  if (read_by_threads(event.ring) && arrived_at_ != w_.text().size()) {
    w_.line("dev::reads_arrived<",
            site(SiteKind::fence, section, cat("reads of ring ", value.name, " have arrived"), event), ">();");
    arrived_at_ = w_.text().size();
  }
  if (in_tensor(event.ring))
    settle(event, section, updated(event.ring, left_behind(of, section) ? Scope::tile_end : Scope::iteration));
}

void EventWriter::write_release(const Event& of, const Section& section, const std::string& arguments) {
  if (stays(of.ring)) return;
  Event event = of;
  event.node = last_reader(of.ring);
  const std::string what = "ring " + family_.value_of_ring(event.ring).name;
  end_reads(event, section);
  const bool again = filled_again(event, section);
  if (again && !family_.single_thread() && lanes_apart(event.ring)) meet(event, section, "release of " + what);
  const bool by_group = handed_back_by_groups(family_.graph, family_.schedule, family_.first,
                                              family_.schedule.rings[static_cast<std::size_t>(event.ring)].value);
  line(pair_of(event.ring) == OfPair::filled ? "dev::release_to_first<"
       : family_.single_thread()             ? "dev::release_alone<"
       : by_group                            ? "dev::release_by_group<"
                                             : "dev::release<",
       site(SiteKind::arrive, section, "release " + what, event), ", ", arguments);
}

void EventWriter::write_wait_empty(const Event& event, const Section& section, const std::string& arguments) {
  if (fills_alone(event.node) && !leader_only_) open_for_filler(event, section);
  leader_only_ = fills_alone(event.node);
  const graph::Value& value = family_.value_of_ring(event.ring);
  if (never_filled(event, section)) return;
  w_.line("dev::wait_empty<", site(SiteKind::wait, section, cat("wait ring ", value.name, " empty"), event), ", ",
          arguments);
  follow_sync(event, section);
}

// ---- tensor memory ------------------------------------------------------------------------------
/// The matrix unit arrives when all that its thread has asked for is done.
void EventWriter::write_unit_event(const Event& event, const Section& section, const std::string& arguments) {
  const bool publishes = event.kind == EventKind::unit_publish;
  if (!publishes && stays(event.ring)) return;
  Event of = event;
  if (!publishes) of.node = last_reader(event.ring);
  const std::string what =
      cat("products ", publishes ? "publish" : "release", " ring ", family_.value_of_ring(event.ring).name);
  const char* whom = family_.graph.pairs ? "_to_pair<" : "<";
  line(for_one(), publishes ? "dev::publish_products" : "dev::release_products", whom,
       site(SiteKind::arrive, section, what, of), ", ", arguments);
}

/// Does the next event wait for tensor memory, too? Then the fence behind its wait is for both: it is written, and not
/// under a condition.
bool EventWriter::waits_in_tensor(const Event* event, const Section& section) const {
  if (event == nullptr || event->ring < 0 || !in_tensor(event->ring)) return false;
  return event->kind == EventKind::wait_full ||
         (event->kind == EventKind::wait_empty && !never_filled(*event, section));
}

/// Puts others' work on the columns, before they arrived, in front of this thread's work on them.
void EventWriter::follow_sync(const Event& event, const Section& section) {
  if (!in_tensor(event.ring) || followed_at_ == w_.text().size() ||
      (waits_in_tensor(next_, section) && (!left_behind(*next_, section) || left_behind(event, section))))
    return;
  line("dev::tensor_after_sync<",
       site(SiteKind::fence, section, cat("fence after the wait for ring ", family_.value_of_ring(event.ring).name),
            event),
       ">();");
  followed_at_ = w_.text().size();
}

/// Puts this warp's work on the columns in front of others' work, once it has arrived.
void EventWriter::settle(const Event& event, const Section& section, bool stores) {
  const std::string ring = family_.value_of_ring(event.ring).name;
  if (stores && stored_at_ != w_.text().size()) {
    line("dev::tensor_store_wait<",
         site(SiteKind::tensor_wait, section, "stores into ring " + ring + " are done", event), ">();");
    stored_at_ = w_.text().size();
    settled_at_ = met_at_ = kNever;
  }
  if (settled_at_ == w_.text().size()) return;
  line("dev::tensor_before_sync<", site(SiteKind::fence, section, "fence before the arrival for ring " + ring, event),
       ">();");
  settled_at_ = w_.text().size();
  met_at_ = kNever;  // a lane's fence is before the meeting
}

/// Does a node of that scope in this role update it?
bool EventWriter::updated(int ring, Scope scope) const {
  const int value = family_.schedule.rings[static_cast<std::size_t>(ring)].value;
  return std::any_of(family_.graph.edges.begin(), family_.graph.edges.end(), [&](const Edge& edge) {
    return edge.value == value && edge.updates && family_.node(edge.dst).scope == scope &&
           family_.schedule.role[static_cast<std::size_t>(edge.dst)] == family_.first;
  });
}

// ---- calls --------------------------------------------------------------------------------------
// A copy in a role of several threads is issued by one of them.
bool EventWriter::fills_alone(int index) const {
  return family_.node(index).async == Async::copy && !family_.single_thread();
}

// Warps of the role take turns at that, filling by filling and ring by ring. A warp that did it all would be behind the
// others, and they would wait for it. In a role that asks for products, the other threads wait for none of the fillings
// and would be ahead of their turns. So the thread that asks copies, too.
void EventWriter::open_for_filler(const Event& event, const Section& section) {
  const std::string first = cat(family_.place().first_warp), turn = sequence(event.ring, event, section);
  const auto& nodes = family_.role().nodes;
  if (std::any_of(nodes.begin(), nodes.end(), [&](int node) { return family_.node(node).async == Async::unit; })) {
    w_.open("if (warp == ", first, ")");
    w_.open("if (dev::elect_one())");
    return;
  }
  w_.open("if (warp == ", first == "0" ? "" : first + " + ", "(", turn, event.ring > 0 ? cat(" + ", event.ring) : "",
          ") % ", family_.role().warps, ")");
  w_.open("if (dev::elect_one())");
}

std::string EventWriter::leader() const { return cat("warp == ", family_.place().first_warp, " && dev::elect_one()"); }

// The condition for the thread that stores, in a role of several.
std::string EventWriter::for_one() const { return family_.single_thread() ? "" : cat("if (", leader(), ") "); }

}  // namespace tj::codegen
