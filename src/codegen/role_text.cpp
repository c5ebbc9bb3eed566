// Events of a role become calls; see role_text.hpp.
#include "codegen/role_text.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "codegen/variants.hpp"

namespace tj::codegen {
namespace {

using graph::Scope;
using support::cat;

constexpr int kManyStages = 3;       // peeled steps from which on they share a text
constexpr int kLongIteration = 512;  // cycles: the tests of a loop of shared steps do not show

// How an iteration number is written in the section being emitted.
struct Section {
  const char* name;      ///< "prologue"
  const char* variable;  ///< "" (absolute), "s" or "n"
  bool fast = false;     ///< instances may use the fast variant
  std::string iteration(int value) const {
    if (variable[0] == '\0') return cat(value);
    if (value == 0) return variable;
    return cat(variable, value < 0 ? " - " : " + ", value < 0 ? -value : value);
  }
};

class RoleWriter {
 public:
  RoleWriter(Writer& writer, Sites& sites, const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout,
             const std::vector<int>& family)
      : w_(writer), sites_(sites), graph_(graph), schedule_(schedule), layout_(layout), family_(family), role_(family.front()),
        pattern_(find_pattern(graph, schedule, role_)), variants_(last_variants(graph, schedule, role_)) {}

  void write() {
    declare_contexts();
    prime_orders();
    w_.line("unsigned base = 0;  // fillings of iteration rings by earlier tiles");
    w_.line("unsigned tiles = 0;");
    if (graph_.persistent) {
      w_.open("for (Tile tile = first_tile<Config>(params); tile.valid; tile = next_tile<Config>(params, tile))");
    } else {  // the numbers above are known to be 0 then, and nothing is kept for a next tile
      w_.line("const Tile tile = first_tile<Config>(params);");
      w_.open("if (tile.valid)");
    }
    w_.line("const int n = tile.trip_count;");
    events(pattern_.tile_begin, {"tile begin", ""});
    write_loop();
    events(pattern_.tile_end, {"tile end", ""});
    w_.line("base += static_cast<unsigned>(n);");
    w_.line("++tiles;");
    w_.close();
    drain_orders();
    drain_shared();
    drain_copies();
  }

 private:
  const graph::Node& node(int index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }
  const sched::Role& role() const { return schedule_.roles[static_cast<std::size_t>(role_)]; }
  const graph::Value& value_of_ring(int ring) const {
    return graph_.values[static_cast<std::size_t>(schedule_.rings[static_cast<std::size_t>(ring)].value)];
  }
  const std::string& ring_type(int ring) const { return layout_.rings[static_cast<std::size_t>(ring)].type_name; }

  bool alone() const { return family_.size() == 1; }
  // "a" or "a, b": what comments and site names say of a family.
  std::string role_names() const {
    std::string names;
    for (int member : family_) names += cat(names.empty() ? "" : "/", schedule_.roles[static_cast<std::size_t>(member)].name);
    return names;
  }
  // What stands for `shared` in a call about a ring: members of a family that fill rings do so each in its own, and may read such.
  std::string shared_for(const char* what, int ring) const {
    const int value = schedule_.rings[static_cast<std::size_t>(ring)].value;
    const bool fills = std::any_of(graph_.edges.begin(), graph_.edges.end(), [&](const graph::Edge& edge) {
      return edge.value == value && schedule_.role[static_cast<std::size_t>(edge.src)] == role_;
    });
    const bool own = !alone() && (fills || !role_reads(graph_, schedule_, family_[1], value));
    return own ? cat("dev::", what, "_of<", ring_type(ring), ">(shared, static_cast<unsigned>(member))") : "shared";
  }
  std::string variable(const graph::Node& n) const {
    const std::string name = context_variable(n.context);
    return alone() ? cat(name, n.copy) : name;
  }

  void declare_contexts() {
    std::set<std::pair<std::string, int>> seen;
    for (int index : role().nodes) {
      const auto& n = node(index);
      if (seen.insert({n.context, n.copy}).second) w_.line(n.context, "<Config> ", variable(n), "(params, ", alone() ? cat(n.copy) : n.copy == 0 ? "member" : cat(n.copy, " + member"), ");");
    }
  }

  // ---- turns on a shared unit ---------------------------------------------------------------------------------------
  // Position of the family's first role; a family holds consecutive positions.
  int position_in(std::size_t order) const {
    const auto& roles = schedule_.order_barriers[order].roles;
    const auto found = std::find(roles.begin(), roles.end(), role_);
    return found == roles.end() ? -1 : static_cast<int>(found - roles.begin());
  }
  // The barrier of the turn `ahead` places after this role's, and the threads of its owner and of the role before.
  std::string order_arguments(std::size_t order, int ahead) const {
    const auto& roles = schedule_.order_barriers[order].roles;
    const auto count = static_cast<int>(roles.size());
    const auto warps = [&](int p) { return schedule_.roles[static_cast<std::size_t>(roles[static_cast<std::size_t>((p + count) % count)])].warps; };
    const int first = layout_.first_barrier_id[order], position = position_in(order);
    const int owner = (position + ahead) % count;
    const int threads = (warps(owner) + warps(owner - 1)) * graph_.machine.warp_size;
    if (alone()) return cat(first + owner, ", ", threads);
    const std::string place = position == 0 ? "member" : cat(position, " + member");
    if (ahead == 0) return cat(first, " + ", place, ", ", threads);
    return cat(first, " + (", place, " + ", ahead, ") % ", count, ", ", threads);
  }
  std::string order_text(const char* what) const { return cat("role ", role_names(), ": ", what); }

  void prime_orders() {
    for (std::size_t b = 0; b < schedule_.order_barriers.size(); ++b) {
      const int count = static_cast<int>(schedule_.order_barriers[b].roles.size()), member = count - 1 - position_in(b);
      if (position_in(b) < 0 || member >= static_cast<int>(family_.size())) continue;
      w_.line(alone() ? "" : cat("if (member == ", member, ") "), "dev::named_arrive<", sites_.add(order_text("first turn to the first role")), ">(", order_arguments(b, 1), ");");
    }
  }
  void drain_orders() {
    for (std::size_t b = 0; b < schedule_.order_barriers.size(); ++b)
      if (position_in(b) == 0)
        w_.line(alone() ? "" : "if (member == 0) ", "dev::named_sync<", sites_.add(order_text("takes back the last turn")), ">(", order_arguments(b, 0), ");");
  }

  // A block stays as long as others may arrive at its barriers; of what is filled once, nobody does.
  void drain_shared() {
    for (std::size_t r = 0; r < schedule_.rings.size(); ++r) {
      const int ring = static_cast<int>(r), value = schedule_.rings[r].value;
      const auto fills = [&](const graph::Edge& edge) { return edge.value == value && schedule_.role[static_cast<std::size_t>(edge.src)] == role_; };
      if (!filled_once(ring) && value_of_ring(ring).shared_by > 1 && std::any_of(graph_.edges.begin(), graph_.edges.end(), fills))
        w_.line("dev::wait_drained<", sites_.add(cat("role ", role_names(), ": ring ", value_of_ring(ring).name, " empty in all blocks that fill it")), ", ", ring_type(ring),
                ">(shared, ", value_of_ring(ring).scope == Scope::iteration ? "base" : "tiles", ");");
    }
  }

  // A thread ends after its copies.
  void drain_copies() {
    const auto copies = [&](int index) { return node(index).async == graph::Async::threads; };
    if (std::any_of(role().nodes.begin(), role().nodes.end(), copies)) w_.line("dev::copy_async_drain<", sites_.add(cat("role ", role_names(), ": its threads' copies are done")), ">();");
  }

  // ---- sections -----------------------------------------------------------------------------------------------------
  void write_loop() {
    const int full = std::max(1, pattern_.peel);
    const bool any = !pattern_.steady.empty();
    if (!any) return;
    const auto& nodes = role().nodes;
    const bool variants = std::any_of(nodes.begin(), nodes.end(), [&](int index) { return node(index).has_fast_variant; });
    if (const auto rolled = variants ? std::nullopt : roll(pattern_)) return write_rolled(*rolled);
    if (pattern_.peel >= kManyStages && lacks_iterations_alone(pattern_)) return write_in_two();
    w_.open("if (n >= ", full, ")");
    for (const auto& step : pattern_.prologue) events(step, {"prologue", ""});
    write_steady();
    for (const auto& step : pattern_.drain) events(step, {"epilogue", "n"});
    events(pattern_.drain_end, {"epilogue", "n"});
    for (int n = 1; n < pattern_.peel; ++n) {
      w_.next("else if (n == ", n, ")");
      const Timeline& timeline = pattern_.shorter[static_cast<std::size_t>(n)];
      for (const auto& step : timeline.steps) events(step, {"short", ""});
      for (const Event& event : timeline.tile_end) {
        if (event.iteration < 0 && event.kind != EventKind::matrix_wait) break;  // the rest is the tile's end, whatever n
        write_event(event, {"short", ""});
      }
    }
    w_.close();
  }

  // One text for all steps: a copy of a step's calls for each peeled one costs the compiler more than the tests cost the loop.
  // The compiler would make those copies itself, to do without the tests, and a product's longest tile would compile a third longer.
  // Short iterations gain by them: 1024^3, 278 cycles each, takes 5.1 us instead of 5.4 (H200, 2026-11-21); those of 1024 do not.
  void write_rolled(const Rolled& rolled) {
    if (schedule_.ii >= kLongIteration) w_.line("#pragma unroll 1");
    w_.open("for (int s = 0; s < n; ++s)");
    guarded(rolled.body, {"loop", "s"});
    w_.close();
    guarded(rolled.end, {"epilogue", "n"});
  }
  // Of many stages: one text for steps that have all iterations, one for those at the begin and at the end, which lack some, and for
  // short loops. Peeled, they are as many copies of an iteration as half the square of the stages.
  void write_in_two() {
    const bool variant = !variants_.empty();
    if (variant) write_first_fast();
    w_.line("#pragma unroll 1");
    w_.open("for (int s = 0; s < n + ", pattern_.drain.size(), "; ++s)");
    w_.open("if (s >= ", pattern_.peel, variant ? " && s >= first_fast" : "", " && s < n)");
    events(pattern_.steady, {variant ? "steady, fast variants" : "steady", "s", true});
    w_.next("else");
    int open = 1;  // iteration, relative to the step, that the calls at hand belong to
    for (const Event& event : pattern_.steady) {
      const int iteration = is_sync(event.kind) ? 1 : event.iteration;  // those are of none
      if (iteration != open && open <= 0) w_.close();
      if (iteration != open && iteration <= 0) w_.open("if (", event.iteration < 0 ? cat("s >= ", -event.iteration, " && ") : "", Section{"", "s"}.iteration(event.iteration), " < n)");
      open = iteration;
      write_event(event, {"any step", "s"});
    }
    if (open <= 0) w_.close();
    w_.close();
    w_.close();
  }
  void guarded(const std::vector<Rolled::Guarded>& list, const Section& section) {
    int open = 0;
    for (const auto& [first, event] : list) {
      // A wait for all groups waits for nothing where none is under way; under a condition, it would leave the compiler in doubt whether
      // the registers that they write may be touched.
      const int from = event.kind == EventKind::matrix_wait && event.pending == 0 ? 0 : first;
      if (from != open && open > 0) w_.close();
      if (from != open && from > 0) w_.open("if (", section.variable, " >= ", from, ")");
      open = from;
      write_event(event, section);
    }
    if (open > 0) w_.close();
  }

  void write_steady() {
    const bool variant = !variants_.empty();
    bool general_steps = false;  // may a steady step still need a general variant?
    for (int index : role().nodes) general_steps |= node(index).has_fast_variant && node(index).max_fast_begin > pattern_.peel - stage_of(node(index));
    w_.line("int s = ", pattern_.peel, ";  // a step runs stage k of iteration s - k");
    if (general_steps) {
      write_first_fast();
      w_.open("for (; s < (n < first_fast ? n : first_fast); ++s)");
      events(pattern_.steady, {"steady", "s"});
      w_.close();
    }
    // One thread, which waits most of the time, or a step beside whose length its test is nothing: copies would only be compiled.
    const bool one_thread = std::all_of(role().nodes.begin(), role().nodes.end(), [&](int index) { return graph::issued_by_one(node(index).async); });
    if (one_thread || (!variant && schedule_.ii >= kLongIteration)) w_.line("#pragma unroll 1");
    w_.open("for (; s < n; ++s)");
    events(pattern_.steady, {variant ? "steady, fast variants" : "steady", "s", true});
    w_.close();
  }

  int stage_of(const graph::Node& n) const { return role_stage(graph_, schedule_, graph_.node_index(n.name)); }
  // The step from which on every node with a fast variant may run it.
  void write_first_fast() {
    const auto begin = [&](int index) { return cat("fast_begin(", variable(node(index)), ", tile)", stage_of(node(index)) > 0 ? cat(" + ", stage_of(node(index))) : "", ";"); };
    w_.line(variants_.size() == 1 ? "const " : "", "int first_fast = ", begin(variants_[0]));
    for (std::size_t v = 1; v < variants_.size(); ++v) w_.line("if (const int also = ", begin(variants_[v]), " also > first_fast) first_fast = also;");
  }

  void events(const std::vector<Event>& list, const Section& section) {
    for (const Event& event : list) write_event(event, section);
  }

  // ---- one event ----------------------------------------------------------------------------------------------------
  std::string sequence(int ring, const Event& event, const Section& section) const {
    if (value_of_ring(ring).scope != Scope::iteration) return "tiles";
    const std::string iteration = section.iteration(event.iteration);
    if (iteration == "0") return "base";
    return cat("base + ", iteration);
  }
  int site(const Section& section, const std::string& what) { return sites_.add(cat("role ", role_names(), ", ", section.name, ": ", what)); }

  void write_event(const Event& event, const Section& section) {
    const std::string& name = event.node >= 0 ? node(event.node).name : role().name;
    switch (event.kind) {
      case EventKind::call: return write_call(event, section);
      case EventKind::matrix_fence: w_.line("dev::matrix_fence<", site(section, "fence before " + name), ">();"); return;
      case EventKind::matrix_commit: w_.line("dev::matrix_commit<", site(section, "commit " + name), ">();"); return;
      case EventKind::store_commit: w_.line(for_one(), "dev::store_commit<", site(section, "commit stores of " + name), ">();"); return;
      case EventKind::store_wait: w_.line(for_one(), "dev::store_wait<", site(section, "wait for stores"), ", ", event.pending, ">();"); return;
      case EventKind::matrix_wait: w_.line("dev::matrix_wait<", site(section, "group wait"), ", ", event.pending, ">();"); return;
      case EventKind::done: w_.line(node(event.node).body, "_done(", variable(node(event.node)), ");"); return;
      case EventKind::order_wait: w_.line("dev::named_sync<", site(section, "turn before " + name), ">(", order_arguments(static_cast<std::size_t>(event.order), 0), ");"); return;
      case EventKind::order_arrive: w_.line("dev::named_arrive<", site(section, "turn after " + name), ">(", order_arguments(static_cast<std::size_t>(event.order), 1), ");"); return;
      case EventKind::block_sync: case EventKind::warp_sync: return write_sync(event.kind == EventKind::block_sync ? "block" : "warp", event, section);
      case EventKind::proxy_fence: w_.line("dev::proxy_fence<", site(section, "proxy fence after " + name), ">();"); return;
      default: return write_ring_event(event, section);
    }
  }

  void write_sync(const char* whose, const Event& event, const Section& section) {
    w_.line("dev::", whose, "_sync<", site(section, cat(whose, " sync before ", event.node >= 0 ? node(event.node).name : "the loop")), ">();");
  }

  /// Copies that nobody waits for fill it, and nodes of this role read it by ordinary accesses.
  bool read_by_threads(int ring) const {
    const int value = schedule_.rings[static_cast<std::size_t>(ring)].value;
    return std::any_of(graph_.edges.begin(), graph_.edges.end(), [&](const graph::Edge& edge) {
      return edge.value == value && (node(edge.src).async == graph::Async::copy || node(edge.src).async == graph::Async::threads) && schedule_.role[static_cast<std::size_t>(edge.dst)] == role_ &&
             node(edge.dst).async == graph::Async::none;
    });
  }
  /// Without a next tile, what is filled once a tile is never filled again.
  bool filled_once(int ring) const { return !graph_.persistent && value_of_ring(ring).scope != Scope::iteration; }

  void write_ring_event(const Event& event, const Section& section) {
    const std::string& value = value_of_ring(event.ring).name;
    const std::string arguments = cat(ring_type(event.ring), ">(", shared_for("barriers", event.ring), ", ", sequence(event.ring, event, section), ");");
    switch (event.kind) {
      case EventKind::wait_full: w_.line("dev::wait_full<", site(section, cat("wait ring ", value, " full")), ", ", arguments); return;
      case EventKind::publish_copies: w_.line("dev::publish_copies<", site(section, cat("copies publish ring ", value)), ", ", arguments); return;
      case EventKind::publish: w_.line("dev::publish<", site(section, cat("publish ring ", value)), ", ", arguments); return;
      case EventKind::release:
        if (filled_once(event.ring)) return;
        if (read_by_threads(event.ring)) w_.line("dev::reads_arrived<", site(section, cat("reads of ring ", value, " have arrived")), ">();");
        w_.line(single_thread() ? "dev::release_alone<" : "dev::release<", site(section, cat("release ring ", value)), ", ", arguments);
        return;
      case EventKind::wait_empty:
        if (fills_alone(event.node) && !leader_only_) open_for_filler(event, section);
        leader_only_ = fills_alone(event.node);
        if (!filled_once(event.ring)) w_.line("dev::wait_empty<", site(section, cat("wait ring ", value, " empty")), ", ", arguments);
        return;
      default: w_.line("dev::expect_full<", site(section, cat("expect bytes of ring ", value)), ", ", arguments); return;
    }
  }

  bool single_thread() const { return layout_.roles[static_cast<std::size_t>(role_)].single_thread; }
  // A copy in a role of several threads is issued by one of them.
  bool fills_alone(int index) const {
    return node(index).async == graph::Async::copy && !single_thread();
  }
  // Its warps take turns at that, filling by filling and ring by ring: one that did it all would be behind the others, who would wait for it.
  void open_for_filler(const Event& event, const Section& section) {
    const std::string first = cat(layout_.roles[static_cast<std::size_t>(role_)].first_warp), turn = sequence(event.ring, event, section);
    w_.open("if (warp == ", first == "0" ? "" : first + " + ", "(", turn, event.ring > 0 ? cat(" + ", event.ring) : "", ") % ", role().warps, ")");
    w_.open("if (dev::elect_one())");
  }
  // What the thread that stores does, in a role of several.
  std::string for_one() const { return single_thread() ? "" : cat("if (", leader(), ") "); }
  std::string leader() const { return cat("warp == ", layout_.roles[static_cast<std::size_t>(role_)].first_warp, " && dev::elect_one()"); }

  void write_call(const Event& event, const Section& section) {
    const auto& n = node(event.node);
    std::string text = cat(n.async == graph::Async::store ? for_one() : "", n.body, "(", variable(n), ", tile");
    if (n.scope == Scope::iteration) text += ", " + section.iteration(event.iteration);
    std::set<int> seen;
    for (const auto& edge : graph_.edges) {
      if (edge.value < 0 || (edge.dst != event.node && edge.src != event.node) || !seen.insert(edge.value).second) continue;
      for (std::size_t r = 0; r < schedule_.rings.size(); ++r) {
        if (schedule_.rings[r].value != edge.value) continue;
        const auto place = [&](const char* what) {
          const int ring = static_cast<int>(r);
          return cat(ring_type(ring), ">(", shared_for(what, ring), ", ", sequence(ring, event, section), ")");
        };
        text += cat(", dev::slot_address<", place("slots"));
        if (edge.src == event.node && n.async == graph::Async::copy) text += cat(", dev::full_barrier<", place("barriers"));
        if (edge.src == event.node && graph_.values[static_cast<std::size_t>(edge.value)].shared_by > 1) text += cat(", dev::share<", ring_type(static_cast<int>(r)), ">()");
      }
    }
    if (n.has_fast_variant) text += section.fast ? ", dev::Fast{}" : ", dev::General{}";
    text += ");";
    if (n.scope == Scope::iteration) text += cat("  // ", placed(event.node), ", ", section.name);
    w_.line(text);
    if (leader_only_) {
      w_.close();
      w_.line("dev::warp_sync();");  // what follows is for the whole warp
      w_.close();
    }
    leader_only_ = false;
  }

  // "name: cycle 800, stage 0" for every member.
  std::string placed(int index) const {
    std::string text;
    const auto& nodes = role().nodes;
    const auto place = std::find(nodes.begin(), nodes.end(), index) - nodes.begin();
    for (int member : family_) {
      const int same = schedule_.roles[static_cast<std::size_t>(member)].nodes[static_cast<std::size_t>(place)];
      text += cat(text.empty() ? "" : "; ", node(same).name, ": cycle ", schedule_.cycle[static_cast<std::size_t>(same)], ", stage ", schedule_.stage(same));
    }
    return text;
  }

  Writer& w_;
  Sites& sites_;
  const graph::Graph& graph_;
  const sched::Schedule& schedule_;
  const Layout& layout_;
  std::vector<int> family_;
  int role_;  ///< the first of the family
  Pattern pattern_;
  std::vector<int> variants_;  ///< last_variants
  bool leader_only_ = false;  ///< inside the branch of the one thread that copies: closed after the node's call
};

}  // namespace

std::string context_variable(const std::string& context) {
  std::string name = context;
  if (!name.empty()) name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
  return name;
}

void write_roles(Writer& writer, Sites& sites, const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout, const std::vector<int>& roles) {
  RoleWriter(writer, sites, graph, schedule, layout, roles).write();
}

}  // namespace tj::codegen
