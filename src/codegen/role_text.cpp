// The sections of a role; see role_text.hpp. Their events are event_text's.
#include "codegen/role_text.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/event_text.hpp"
#include "codegen/rolled.hpp"
#include "codegen/variants.hpp"
#include "codegen/walk_text.hpp"

namespace tj::codegen {
namespace {

using graph::Scope;
using support::cat;

constexpr int kLongIteration = 512;  // cycles: the tests of a loop of shared steps do not show

class RoleWriter {
 public:
  RoleWriter(Writer& writer, Sites& sites, const graph::Graph& graph, const sched::Schedule& schedule,
             const Layout& layout, const std::vector<int>& family)
      : w_(writer),
        sites_(sites),
        graph_(graph),
        schedule_(schedule),
        family_(graph, schedule, layout, family),
        events_(writer, sites, family_),
        walk_(writer, sites, family_),
        pattern_(find_pattern(graph, schedule, family.front())),
        range_(family_) {}

  void write() {
    declare_contexts();
    begin_records();
    prime_orders();
    w_.line("unsigned base = 0;  // fillings of iteration rings by earlier tiles");
    w_.line("unsigned tiles = 0;");
    walk_.open();
    w_.line("const int n = tile.trip_count;");
    mark(MarkKind::tile_begin, "n");
    events(pattern_.tile_begin, {"tile begin", ""});
    write_loop();
    walk_.draw();
    events(pattern_.tile_end, {"tile end", ""});
    mark(MarkKind::tile_end);
    walk_.close();
    mark(MarkKind::wait_begin, "0", "the end of what others do here");
    drain_orders();
    drain_shared();
    walk_.drain();
    drain_copies();
    mark(MarkKind::wait_end, "0", "the end of what others do here");
    mark(MarkKind::role_end);
  }

 private:
  const graph::Node& node(int index) const { return family_.node(index); }
  const sched::Role& role() const { return family_.role(); }
  bool alone() const { return family_.alone(); }

  void declare_contexts() {
    std::set<std::pair<std::string, int>> seen;
    for (int index : role().nodes) {
      const auto& n = node(index);
      if (seen.insert({n.context, n.copy}).second)
        w_.line(n.context, "<Config> ", family_.variable(n), "(params, ",
                alone()       ? cat(n.copy)
                : n.copy == 0 ? "member"
                              : cat(n.copy, " + member"),
                ");");
    }
    // This block's part of the slots that it fills together with others.
    for (int r = 0; r < static_cast<int>(schedule_.rings.size()); ++r)
      if (schedule_.rings[static_cast<std::size_t>(r)].producer_role == family_.family.front() &&
          family_.value_of_ring(r).shared_by > 1)
        w_.line("const auto ", family_.share(r), " = dev::share<", family_.ring_type(r), ">();");
  }

  // ---- of units that record -----------------------------------------------------------------------------------------
  /// One thread of the role's first warp; of a role of one thread, that.
  void begin_records() {
    if (!sites_.recording()) return;
    if (!graph_.machine.shared_barriers) {  // one role of all warps, which nothing has counted
      w_.line("unsigned next_record = dev::record_begin(recorded.records, 0, dev::thread_index() == 0);");
      return mark(MarkKind::role_begin, "static_cast<int>(dev::processor_index())");
    }
    const std::string first =
        cat(family_.place().first_warp,
            alone() ? "" : cat(" + static_cast<unsigned>(member) * ", graph_.machine.warps_per_group));
    w_.line("unsigned next_record = dev::record_begin(recorded.records, warp, ",
            family_.single_thread() ? "true" : cat("warp == ", first, " && dev::lane_index() == 0"), ");");
    mark(MarkKind::role_begin, "static_cast<int>(dev::processor_index())");
  }
  void mark(MarkKind kind, const char* number = "0", const char* what = "") {
    if (sites_.recording())
      w_.line("dev::record<",
              sites_.add(Mark{
                  0,
                  kind,
                  family_.family,
                  {},
                  what[0] == '\0' ? std::vector<std::string>() : std::vector<std::string>(family_.family.size(), what),
                  false}),
              ">(recorded.records, next_record, ", number, ");");
  }

  // ---- before and after all tiles -----------------------------------------------------------------------------------
  int site(SiteKind kind, const std::string& what, int ring = -1) {
    return sites_.add(Site{0, kind, cat("role ", family_.names(), ": ", what), family_.family, ring, -1});
  }
  // A site of one member of the family alone.
  int turn(SiteKind kind, const std::string& what, int member) {
    return sites_.add(Site{0,
                           kind,
                           cat("role ", family_.names(), ": ", what),
                           {family_.family[static_cast<std::size_t>(member)]},
                           -1,
                           -1});
  }

  void prime_orders() {
    for (std::size_t b = 0; b < schedule_.order_barriers.size(); ++b) {
      const int count = static_cast<int>(schedule_.order_barriers[b].roles.size()),
                member = count - 1 - family_.position_in(b);
      if (family_.position_in(b) < 0 || member >= static_cast<int>(family_.family.size())) continue;
      w_.line(alone() ? "" : cat("if (member == ", member, ") "), "dev::named_arrive<",
              turn(SiteKind::turn_arrive, "first turn to the first role", member), ">(", family_.order_arguments(b, 1),
              ");");
    }
  }
  void drain_orders() {
    for (std::size_t b = 0; b < schedule_.order_barriers.size(); ++b)
      if (family_.position_in(b) == 0)
        w_.line(alone() ? "" : "if (member == 0) ", "dev::named_sync<",
                turn(SiteKind::turn_wait, "takes back the last turn", 0), ">(", family_.order_arguments(b, 0), ");");
  }

  // A block stays as long as other blocks or the matrix unit may arrive at its barriers. Nobody arrives for a value
  // that is filled once. Hand-backs of the unit in the loop come with its products, which others wait for. After the
  // loop, a hand-back is the unit's last task.
  void drain_shared() {
    for (std::size_t r = 0; r < schedule_.rings.size(); ++r) {
      const int ring = static_cast<int>(r), value = schedule_.rings[r].value;
      const graph::Value& of = family_.value_of_ring(ring);
      const auto fills = [&](const graph::Edge& edge) {
        return edge.value == value && schedule_.role[static_cast<std::size_t>(edge.src)] == family_.first;
      };
      const auto by_unit = [&](const graph::Edge& edge) {
        return edge.value == value && of.scope == Scope::tile_begin && node(edge.dst).async == graph::Async::unit;
      };
      const bool unit = std::any_of(graph_.edges.begin(), graph_.edges.end(), by_unit),
                 pair = of_pair(graph_, value) == OfPair::read;
      if (!filled_once(graph_, of) && (of.shared_by > 1 || unit || pair) &&
          std::any_of(graph_.edges.begin(), graph_.edges.end(), fills))
        w_.line("dev::wait_drained<",
                site(SiteKind::wait,
                     cat("ring ", of.name,
                         unit   ? " empty, as the matrix unit says"
                         : pair ? " empty, as the matrix unit of the pair says"
                                : " empty in all blocks that fill it"),
                     ring),
                ", ", family_.ring_type(ring), ">(shared, ", of.scope == Scope::iteration ? "base" : "tiles", ");");
    }
  }

  // A thread ends after its copies: its role has waited for them where it reads all that they bring.
  void drain_copies() {
    const auto not_waited_for = [&](int index) {
      if (node(index).async != graph::Async::threads) return false;
      bool all = true, any = false;
      for (const graph::Edge& edge : graph_.edges)
        if (edge.src == index && edge.value >= 0)
          all = all && role_reads(graph_, schedule_, family_.first, edge.value), any = true;
      return !any || !all;
    };
    if (std::any_of(role().nodes.begin(), role().nodes.end(), not_waited_for))
      w_.line("dev::copy_async_drain<", site(SiteKind::copies_wait, "its threads' copies are done"), ">();");
  }

  // ---- sections -----------------------------------------------------------------------------------------------------
  void write_loop() {
    const int full = std::max(1, pattern_.peel);
    const bool any = !pattern_.steady.empty();
    if (!any) return;
    if (graph_.most_iterations > 0 && graph_.most_iterations <= full) return write_few();
    if (const auto rolled = range_.any() ? std::nullopt : roll(pattern_)) return write_rolled(*rolled);
    if (pattern_.peel >= kManyStages && lacks_iterations_alone(pattern_)) return write_in_two();
    w_.open("if (n >= ", full, ")");
    const bool joined =
        range_.general_steps() > pattern_.peel && schedule_.ii >= kLongIteration && begins_as_it_repeats(pattern_);
    if (!joined)
      for (const auto& step : pattern_.prologue) events(step, {"prologue", ""});
    write_steady(joined);
    for (const auto& step : pattern_.drain) events(step, {"epilogue", "n"});
    events(pattern_.drain_end, {"epilogue", "n"});
    for (int n = 1; n < pattern_.peel; ++n) {
      w_.next("else if (n == ", n, ")");
      write_short(pattern_.shorter[static_cast<std::size_t>(n)], n);
    }
    if (!pattern_.without.empty()) {
      w_.next("else");
      events(pattern_.without, {"tile without iterations", ""});
    }
    w_.close();
  }
  void write_short(const Timeline& timeline, int n) {
    for (const auto& step : timeline.steps) events(step, {"short", "", Runs::general, n});
    for (const Event& event : timeline.tile_end) {
      if (event.iteration < 0 && event.kind != EventKind::matrix_wait) break;  // the rest is the tile's end, whatever n
      events_.write(event, {"short", "", Runs::general, n});
    }
  }
  // A tile with so few iterations that no step is one of many: no text of a loop that would never be entered.
  void write_few() {
    for (int n = 1; n <= graph_.most_iterations; ++n) {
      const std::string condition = cat(n == 1 ? "" : "else ", "if (n == ", n, ")");
      if (n == 1)
        w_.open(condition);
      else
        w_.next(condition);
      write_short(simulate(graph_, schedule_, family_.first, n), n);
    }
    w_.close();
  }

  // One text for all steps. A copy of a step's calls for each peeled step costs the compiler more than the tests cost
  // the loop. The compiler would make those copies itself, to do without the tests, and a product's longest tile would
  // compile a third longer. Short iterations would gain by the copies: 1024^3, 278 cycles each, takes 5.1 us instead of
  // 5.4 (H200, 2026-11-21); iterations of 1024 cycles would not.
  void write_rolled(const Rolled& rolled) {
    if (schedule_.ii >= kLongIteration) w_.line("#pragma unroll 1");
    w_.open("for (int s = 0; s < n; ++s)");
    guarded(rolled.body, {"loop", "s"});
    w_.close();
    guarded(rolled.end, {"epilogue", "n"});
  }
  // Two texts for patterns of many stages. One is for steps that have all iterations. The other is for steps at the
  // begin and at the end, which lack some, and for short loops. Peeled, the steps are as many copies of an iteration as
  // half the square of the stages.
  void write_in_two() {
    const bool asks = range_.asks(pattern_.peel);
    if (asks) range_.declare(w_, pattern_.peel);
    const std::string in_range = asks ? range_.holds(pattern_.peel) : "";
    w_.line("#pragma unroll 1");
    w_.open("for (int s = 0; s < n + ", pattern_.drain.size(), "; ++s)");
    w_.open("if (s >= ", pattern_.peel, in_range.empty() || guarded() ? "" : cat(" && ", in_range), " && s < n)");
    if (asks && guarded()) w_.line("const bool ", kInRange, " = ", in_range, ";");
    events(pattern_.steady,
           {range_.any() ? "steady, fast variants" : "steady", "s", asks && guarded() ? Runs::by_step : Runs::variant});
    w_.next("else");
    int open = 1;  // iteration, relative to the step, that the calls at hand belong to
    for (const Event& event : pattern_.steady) {
      const int iteration = is_sync(event.kind) ? 1 : event.iteration;  // syncs belong to none
      if (iteration != open && open <= 0) w_.close();
      if (iteration != open && iteration <= 0)
        w_.open("if (", event.iteration < 0 ? cat("s >= ", -event.iteration, " && ") : "",
                Section{"", "s"}.iteration(event.iteration), " < n)");
      open = iteration;
      events_.write(event, {"any step", "s"});
    }
    if (open <= 0) w_.close();
    w_.close();
    w_.close();
  }
  void guarded(const std::vector<Rolled::Guarded>& list, const Section& section) {
    int open = 0;
    for (const auto& [first, event] : list) {
      // A wait for all groups waits for nothing where none is under way. Under a condition, it would leave the compiler
      // in doubt whether the registers that they write may be touched.
      const int from = event.kind == EventKind::matrix_wait && event.pending == 0 ? 0 : first;
      if (from != open && open > 0) w_.close();
      if (from != open && from > 0) w_.open("if (", section.variable, " >= ", from, ")");
      open = from;
      events_.write(event, section);
    }
    if (open > 0) w_.close();
  }

  /// joined: general steps begin with the first one. A text of its own for the first steps is a fifth of the text of
  /// causal attention. The conditions take nothing beside an iteration of thousands of cycles.
  void write_steady(bool joined) {
    const int peel = pattern_.peel;
    w_.line("int s = ", joined ? 0 : peel, ";  // a step runs stage k of iteration s - k");
    events_.repeat(pattern_.steady);
    if (!range_.asks(peel)) return write_all_steps();
    range_.declare(w_, peel);
    if (joined)
      w_.line("const int fast_from = ", StepRange::kFirst, " < ", peel, " ? ", peel, " : ", StepRange::kFirst, ";");
    if (guarded()) return write_guarded(joined);
    const std::string first = joined ? "fast_from" : StepRange::kFirst;
    const bool before = range_.general_steps() > peel;
    // Steps behind the range are a second round of the loop before it.
    if (before && range_.ends()) {
      w_.line("#pragma unroll 1");
      w_.open("for (int to = ", first, "; s < n; to = n)");
    }
    if (before) write_general_steps(range_.ends() ? "to" : first, joined);
    write_range();
    if (before && range_.ends()) w_.close();
    if (!before) write_general_steps("", false);
  }
  /// Steps up to that one, or to the last.
  void write_general_steps(const std::string& end, bool joined) {
    if (joined) w_.line("#pragma unroll 1");
    w_.open("for (; s < ", end.empty() ? "n" : cat("(n < ", end, " ? n : ", end, ")"), "; ++s)");
    const int steps = range_.ends() ? Section{}.steps : range_.general_steps();
    const Section section{.name = "steady", .variable = "s", .steps = steps, .since_begin = joined};
    if (joined)
      since_begin(pattern_.steady, section);
    else
      events(pattern_.steady, section);
    w_.close();
  }
  /// Steps of the range.
  void write_range() {
    if (runs_one_thread()) w_.line("#pragma unroll 1");
    const char* const behind = StepRange::kBehind;
    w_.open("for (; s < ", range_.ends() ? cat("(n < ", behind, " ? n : ", behind, ")") : "n", "; ++s)");
    events(pattern_.steady, {"steady, fast variants", "s", Runs::variant});
    w_.close();
  }
  /// Steps that all run the same bodies. Copies of one would only be compiled, for no gain, in two cases. A role of one
  /// thread waits most of the time; the test of a long step is nothing.
  void write_all_steps() {
    const bool variant = range_.any();
    if (runs_one_thread() || (!variant && schedule_.ii >= kLongIteration)) w_.line("#pragma unroll 1");
    w_.open("for (; s < n; ++s)");
    events(pattern_.steady, {variant ? "steady, fast variants" : "steady", "s", Runs::variant});
    w_.close();
  }
  bool runs_one_thread() const {
    return std::all_of(role().nodes.begin(), role().nodes.end(),
                       [&](int index) { return graph::issued_by_one(node(index).async); });
  }
  /// One loop: the calls of nodes with a variant ask in each step which body is to run.
  void write_guarded(bool joined) {
    if (schedule_.ii >= kLongIteration) w_.line("#pragma unroll 1");
    w_.open("for (; s < n; ++s)");
    w_.line("const bool ", kInRange, " = ", range_.holds(pattern_.peel, joined ? "fast_from" : StepRange::kFirst), ";");
    const Section section{.name = "steady", .variable = "s", .runs = Runs::by_step, .since_begin = joined};
    if (joined)
      since_begin(pattern_.steady, section);
    else
      events(pattern_.steady, section);
    w_.close();
  }
  /// Does one text of a loop serve all variants?
  bool guarded() const { return range_.any() && graph_.ranges == graph::Ranges::guarded; }

  void since_begin(const std::vector<Event>& list, const Section& section) {
    int open = 0;
    for (const Event& event : list) {
      const int from = of_earlier(event) ? -event.iteration : 0;
      if (from != open && open > 0) w_.close();
      if (from != open && from > 0) w_.open("if (s >= ", from, ")");
      open = from;
      events_.write(event, section);
    }
    if (open > 0) w_.close();
  }

  void events(const std::vector<Event>& list, const Section& section) {
    for (std::size_t e = 0; e < list.size(); ++e)
      events_.write(list[e], section, e + 1 < list.size() ? &list[e + 1] : nullptr);
  }

  Writer& w_;
  Sites& sites_;
  const graph::Graph& graph_;
  const sched::Schedule& schedule_;
  const FamilyText family_;
  EventWriter events_;
  WalkWriter walk_;
  Pattern pattern_;
  const StepRange range_;
};

}  // namespace

void write_roles(Writer& writer, Sites& sites, const graph::Graph& graph, const sched::Schedule& schedule,
                 const Layout& layout, const std::vector<int>& roles) {
  RoleWriter(writer, sites, graph, schedule, layout, roles).write();
}

}  // namespace tj::codegen
