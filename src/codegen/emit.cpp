// The frame of a unit: includes, configuration, rings, one branch per role; see emit.hpp.
#include "codegen/emit.hpp"

#include <algorithm>
#include <utility>

#include "codegen/expressible.hpp"
#include "codegen/family.hpp"
#include "codegen/family_text.hpp"
#include "codegen/layout.hpp"
#include "codegen/notes.hpp"
#include "codegen/role_text.hpp"
#include "codegen/walk_text.hpp"
#include "codegen/writer.hpp"

namespace tj::codegen {
namespace {

using support::cat;

constexpr const char* kSymbol = "tj_kernel";

void write_banner(Writer& w, const graph::Graph& graph, const sched::Schedule& schedule) {
  w.line("// ", graph.name, ": generated from its schedule. To change it, change a node body or the schedule.");
  w.line("// II ", schedule.ii, " cycles, length ", schedule.length, ", ", schedule.certificate);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].scope != graph::Scope::iteration) continue;
    w.line("//   cycle ", schedule.cycle[i], "  stage ", schedule.stage(static_cast<int>(i)), "  ",
           schedule.roles[static_cast<std::size_t>(schedule.role[i])].name, "  ", graph.nodes[i].name);
  }
}

void write_ring_barriers(Writer& w, const RingPlace& ring, const graph::Value& value) {
  w.line("static constexpr unsigned ", ring.slot_columns > 0 ? "" : cat("kData = ", ring.data, ", "),
         "kFull = ", ring.full, ", kEmpty = ", ring.empty, ";");
  w.line("static constexpr unsigned kSharers = ", value.shared_by,
         value.shared_by > 1 ? cat(", kSharerStride = ", value.shared_stride) : "", ";");
  w.line("static constexpr unsigned kFullArrivals = ", ring.full_arrivals, ", kEmptyArrivals = ", ring.empty_arrivals,
         ";");
}

/// The type of the kernel's parameter in a unit that does not record.
std::string params_type(const graph::Graph& graph) { return graph.draws() ? "WalkedParams" : graph.params_type; }

void write_walk_types(Writer& w, const graph::Graph& graph, const Layout& layout) {
  w.open("struct ", kPlacesType);
  w.line("static constexpr unsigned kSlots = ", graph::kPlaceSlots, ", kSlotBytes = ", graph::kPlaceBytes, ";");
  if (layout.places.full_arrivals > 0)
    write_ring_barriers(w, layout.places, {});
  else
    w.line("static constexpr unsigned kData = ", layout.places.data, ";");
  w.close(";");
  if (graph.walk == graph::Walk::split) {
    w.open("struct ", kSplitType);
    w.line("static constexpr int kCluster = ", graph.cluster, ", kWarps = ", layout.threads / graph.machine.warp_size,
           ", kPieceBytes = ", graph.piece_bytes, ", kLeast = ", graph::kLeastPiece, ";");
    w.close(";");
  }
  w.open("struct WalkedParams");
  w.line(graph.params_type, " params;");
  w.line("dev::Walk walk;");
  w.close(";");
}

void write_slices_type(Writer& w, const graph::Graph& graph, const Layout& layout) {
  w.open("struct ", kSlicesType);
  w.line("static constexpr unsigned kSlots = 1, kSlotBytes = ", slices_bytes(graph), ", kCopiedBytes = kSlotBytes;");
  write_ring_barriers(w, layout.places, {});
  w.close(";");
}

/// A user's lines keep their numbers, and those behind it get theirs back.
void write_function(Writer& w, const graph::Function& function) {
  w.open(function.declaration);
  w.bare("#line 1 \"", function.name, "\"");
  w.bare(function.body);
  w.close();  // a user who forgot a semicolon is told of it here
  w.bare("#line ", w.lines() + 2, " \"unit\"");
}

void write_types(Writer& w, const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout,
                 bool recording) {
  w.open("namespace");
  w.line("namespace dev = tj::dev;");
  w.line("using namespace ", graph.namespace_name, ";");
  w.blank();
  w.open("struct Config");
  for (const auto& [name, value] : graph.config) w.line(name, " = ", value, ";");
  for (const graph::Function& function : graph.functions) write_function(w, function);
  w.close(";");
  for (std::size_t r = 0; r < layout.rings.size(); ++r) {
    const auto& ring = layout.rings[r];
    const auto& value = graph.values[static_cast<std::size_t>(schedule.rings[r].value)];
    w.open("struct ", ring.type_name);
    if (ring.slot_columns > 0) {
      w.line("static constexpr unsigned kSlots = ", schedule.rings[r].slots, ", kColumn = ", ring.column,
             ", kSlotColumns = ", ring.slot_columns, ", kMemberColumns = ", ring.member_columns, ";");
      write_ring_barriers(w, ring, value);
      w.close(";");
      continue;
    }
    const bool copied = std::any_of(graph.edges.begin(), graph.edges.end(), [&](const graph::Edge& edge) {
      return edge.value == schedule.rings[r].value &&
             graph.nodes[static_cast<std::size_t>(edge.src)].async == graph::Async::copy;
    });
    const std::int64_t own = value.copied_bytes > 0 ? value.copied_bytes : value.slot_bytes;
    const std::string bytes =
        copied ? cat(", kCopiedBytes = ", of_pair(graph, schedule.rings[r].value) == OfPair::read ? 2 * own : own) : "";
    w.line("static constexpr unsigned kSlots = ", schedule.rings[r].slots, ", kSlotBytes = ", value.slot_bytes, bytes,
           ";");
    if (!graph.machine.shared_barriers) {
      w.line("static constexpr unsigned kData = ", ring.data, ";");
      w.close(";");
      continue;
    }
    write_ring_barriers(w, ring, value);
    w.close(";");
  }
  if (graph.draws()) write_walk_types(w, graph, layout);
  if (graph.walk == graph::Walk::sliced) write_slices_type(w, graph, layout);
  if (recording) {
    w.open("struct RecordedParams");
    w.line(params_type(graph), " params;");
    w.line("dev::Records records;");
    w.close(";");
  }
  w.close("  // namespace");
  w.blank();
}

// Roles give registers back for others to take: none has to where no role wants more than a launch gives.
void write_registers(Writer& w, Sites& sites, const Group& group, const Layout& layout, const std::vector<int>& roles,
                     const std::string& names) {
  if (group.registers == 0 || group.registers == layout.entry_registers) return;
  if (std::none_of(layout.groups.begin(), layout.groups.end(),
                   [&](const Group& other) { return other.registers > layout.entry_registers; }))
    return;
  const bool shrink = group.registers < layout.entry_registers;
  w.line("dev::registers_", shrink ? "shrink" : "grow", "<",
         sites.add(Site{0, SiteKind::registers, cat("registers of ", names), roles, -1, -1}), ", ", group.registers,
         ">();");
}

// Groups whose one role each form a family: [begin, end) of Layout::groups.
std::size_t family_end(const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout,
                       std::size_t begin) {
  std::size_t end = begin + 1;
  const auto whole = [&](std::size_t g) {
    return layout.groups[g].roles.size() == 1 &&
           schedule.roles[static_cast<std::size_t>(layout.groups[g].roles[0])].warps == graph.machine.warps_per_group;
  };
  // One text finds the rings of all members by one distance.
  const auto spaced = [&](std::size_t r) {
    return r + 1 >= layout.rings.size() || layout.rings[r].slot_columns == 0 || layout.rings[r + 1].slot_columns == 0 ||
           layout.rings[r].member_columns == layout.rings[r + 1].member_columns;
  };
  bool evenly = true;
  for (std::size_t r = 0; r < layout.rings.size(); ++r) evenly = evenly && spaced(r);
  while (whole(begin) && end < layout.groups.size() && (evenly || end == begin + 1) && whole(end) &&
         congruent(graph, schedule, layout.groups[end - 1].roles[0], layout.groups[end].roles[0]))
    ++end;
  return end;
}

// Groups [begin, end), each a role of one family, may have a ring each: the first role's ring says where they lie.
void mark_own_rings(const graph::Graph& graph, const sched::Schedule& schedule, Layout& layout, std::size_t begin,
                    std::size_t end) {
  std::vector<int> family;
  for (std::size_t g = begin; g < end; ++g) family.push_back(layout.groups[g].roles[0]);
  for (std::size_t r = 0; r < layout.rings.size(); ++r)
    if (own_ring(graph, schedule, family, static_cast<int>(r)))
      layout.rings[r].members = static_cast<int>(family.size());
}

// The work of the warps of groups [begin, end): one family of roles, or small roles side by side.
void write_groups(Writer& w, Sites& sites, const graph::Graph& graph, const sched::Schedule& schedule,
                  const Layout& layout, std::size_t begin, std::size_t end) {
  const Group& group = layout.groups[begin];
  std::vector<int> roles;
  for (std::size_t g = begin; g < end; ++g)
    roles.insert(roles.end(), layout.groups[g].roles.begin(), layout.groups[g].roles.end());
  std::string names;
  for (int role : roles) names += (names.empty() ? "" : ", ") + schedule.roles[static_cast<std::size_t>(role)].name;
  w.line("// ", roles.size() == 1 ? "role " : "roles ", names);
  write_registers(w, sites, group, layout, roles, names);
  if (end - begin > 1) {
    w.line("const int member = static_cast<int>(warp - ", group.first_warp, ") / ", graph.machine.warps_per_group, ";");
    return write_roles(w, sites, graph, schedule, layout, roles);
  }
  for (int role : group.roles) {
    const auto& place = layout.roles[static_cast<std::size_t>(role)];
    const int warps = schedule.roles[static_cast<std::size_t>(role)].warps;
    std::string guard;  // empty for a whole group
    const auto also = [&](const std::string& condition) { guard += cat(guard.empty() ? "" : " && ", condition); };
    if (warps < graph.machine.warps_per_group)
      also(cat("warp ", warps == 1 ? "== " : ">= ", place.first_warp,
               warps == 1 ? "" : cat(" && warp < ", place.first_warp + warps)));
    if (runs_in_first_of_pair(graph, schedule, role)) also("dev::first_of_pair()");
    if (place.single_thread) also("dev::elect_one()");
    if (!guard.empty()) w.open("if (", guard, ")");
    write_roles(w, sites, graph, schedule, layout, {role});
    if (!guard.empty()) w.close();
  }
}

/// The number of blocks as a template argument behind others.
const char* blocks_of(const graph::Graph& graph) { return graph.pairs ? ", 2" : ""; }

// Barriers are initialised by one thread and seen by all; by the copy engine and other blocks too where these use them.
// A unit without rings has none.
void write_barriers(Writer& w, Sites& sites, const graph::Graph& graph, const Layout& layout) {
  const bool copies = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return node.async == graph::Async::copy || node.async == graph::Async::unit;
  });
  w.line("const unsigned warp = dev::warp_index();");
  const bool places = layout.places.full_arrivals > 0;
  if (layout.rings.empty() && graph.cluster == 1 && !places) return;
  if (layout.tensor_columns > 0)
    w.line("if (warp == 0) dev::tensor_begin<", layout.tensor_columns, blocks_of(graph), ">(shared + ",
           layout.tensor_address, ");");
  w.open("if (dev::thread_index() == 0)");
  for (const auto& ring : layout.rings) w.line("dev::ring_init<", ring.type_name, ">(shared);");
  if (places) w.line("dev::ring_init<", layout.places.type_name, ">(shared);");
  if (copies || graph.cluster > 1)
    w.line("dev::mbarrier_init_done<",
           sites.add(Site{
               0, SiteKind::fence, "begin: fence, the copy engine and other blocks may use the barriers", {}, -1, -1}),
           ">();");
  w.close();
  if (graph.cluster == 1)
    w.line("dev::block_sync<",
           sites.add(Site{0, SiteKind::sync, "begin: block sync, barriers are initialised", {}, -1, -1}), ">();");
  else
    w.line("dev::cluster_sync<", sites.add(Site{0, SiteKind::cluster, "cluster: barriers are initialised", {}, -1, -1}),
           ">();");
  // That cluster sync orders barriers alone.
  if (layout.tensor_columns > 0 && graph.cluster > 1)
    w.line("dev::block_sync<",
           sites.add(Site{0, SiteKind::sync, "begin: block sync, the columns are there", {}, -1, -1}), ">();");
  if (layout.tensor_columns > 0)
    w.line("const unsigned tensor = dev::load_shared<unsigned>(shared + ", layout.tensor_address,
           ");  // where the columns begin");
}

/// The next grid is let in, and this one waits for those before it.
void write_begin(Writer& w, Sites& sites, const graph::Graph& graph) {
  if (graph.grids != graph::Grids::opens) w.line("dev::next_grid_may_start();");
  if (graph.grids == graph::Grids::joins)
    w.line("dev::go_beside_grid_before();");
  else
    w.line("dev::wait_for_grids_before<",
           sites.add(Site{0, SiteKind::grids, "begin: the grids before are done", {}, -1, -1}), ">();");
  if (graph.grids == graph::Grids::opens) w.line("dev::next_grid_may_start();  // not before those before are done");
}

/// A grid is done when all of its blocks are, so one of them waits. Others leave their places.
void write_join(Writer& w, const graph::Graph& graph) {
  if (graph.machine.overlapped_launch && graph.grids == graph::Grids::joins)
    w.line("if (dev::block_index() == 0) dev::wait_for_grids_before();");
}

// The columns go back once all roles are done with them.
void write_end(Writer& w, Sites& sites, const graph::Graph& graph, const Layout& layout) {
  if (layout.tensor_columns == 0) return;
  w.line("dev::reconverge();  // some roles are one thread's");
  // Neither block of a pair may free while the other still uses its columns.
  if (graph.pairs)
    w.line("dev::cluster_sync_all<",
           sites.add(Site{
               0, SiteKind::cluster, "end: cluster sync, tensor memory of both blocks is used no more", {}, -1, -1}),
           ">();");
  else
    w.line("dev::block_sync<",
           sites.add(Site{0, SiteKind::sync, "end: block sync, tensor memory is used no more", {}, -1, -1}), ">();");
  w.line("if (warp == 0) dev::tensor_free", graph.pairs ? "<2>" : "", "(tensor, ", layout.tensor_columns, ");");
}

support::LaunchShape shape_of(const graph::Graph& graph, const Layout& layout) {
  const bool split = graph.walk == graph::Walk::split;
  return {.threads = static_cast<unsigned>(layout.threads),
          .cluster = static_cast<unsigned>(graph.cluster),
          .blocks_per_sm = static_cast<unsigned>(graph.blocks_per_sm),
          .across_blocks = graph.draws() ? 1U : 0U,
          .block_counters = split ? static_cast<unsigned>(layout.threads / graph.machine.warp_size) : 0U,
          .piece_bytes = split ? graph.piece_bytes : 0,
          .smem_bytes = layout.smem_bytes,
          .symbol = kSymbol};
}

// The kernel's head, and names for what its parameter holds.
void open_kernel(Writer& w, const graph::Graph& graph, const Layout& layout, bool recording) {
  const std::string params =
      recording ? "RecordedParams, recorded" : params_type(graph) + (graph.draws() ? ", given" : ", params");
  if (graph.blocks_per_sm == 1)
    w.open("TJ_KERNEL(", kSymbol, ", ", layout.threads, ", ", params, ")");
  else
    w.open("TJ_KERNEL_BESIDE(", kSymbol, ", ", layout.threads, ", ", graph.blocks_per_sm, ", ", params, ")");
  if (recording) w.line("const auto& ", graph.draws() ? "given" : "params", " = recorded.params;");
  if (graph.draws()) {
    w.line("const auto& params = given.params;");
    w.line("const auto& walk = given.walk;");
  }
}

}  // namespace

Unit emit(const graph::Graph& graph, const sched::Schedule& schedule, const std::string& primitives,
          const EmitOptions& options) {
  refuse_inexpressible(graph, schedule);
  Layout layout = make_layout(graph, schedule);
  refuse_names(graph, layout, options.record);
  Writer w;
  Sites sites(options.record);
  write_banner(w, graph, schedule);
  w.line("#include \"arch/", primitives, ".cuh\"");
  w.line("#include \"pipeline.cuh\"");
  if (layout.tensor_columns > 0) w.line("#include \"tensor_pipeline.cuh\"");
  if (graph.draws()) w.line("#include \"", graph.cluster > 1 ? "cluster_" : "", "walk.cuh\"");
  if (graph.cuts()) w.line("#include \"", name_of(graph.walk), "_walk.cuh\"");
  if (options.record) w.line("#include \"recording.cuh\"");
  for (const auto& include : graph.includes) w.line("#include \"", include, "\"");
  w.blank();
  write_types(w, graph, schedule, layout, options.record);
  open_kernel(w, graph, layout, options.record);
  w.line("const unsigned shared = dev::shared_base();");
  if (graph.machine.shared_barriers) write_barriers(w, sites, graph, layout);
  if (graph.machine.overlapped_launch) write_begin(w, sites, graph);
  if (graph.walk == graph::Walk::split) write_draw_once(w, sites, graph, schedule, layout);
  bool branched = false;
  for (std::size_t g = 0; g < layout.groups.size();) {
    const std::size_t end = family_end(graph, schedule, layout, g);
    if (end - g > 1) mark_own_rings(graph, schedule, layout, g, end);
    const bool last = end == layout.groups.size();
    if (!(g == 0 && last)) {
      const std::string condition =
          last ? "else" : cat(g == 0 ? "if" : "else if", " (warp < ", layout.groups[end].first_warp, ")");
      if (g == 0)
        w.open(condition);
      else
        w.next(condition);
      branched = true;
    }
    write_groups(w, sites, graph, schedule, layout, g, end);
    g = end;
  }
  if (branched) w.close();
  write_end(w, sites, graph, layout);
  write_join(w, graph);
  w.close();
  std::string notes = write_notes(w, kSymbol, graph, schedule, layout, sites);
  std::vector<int> first_warps;
  for (const RolePlace& place : layout.roles) first_warps.push_back(place.first_warp);
  return {w.text(),      shape_of(graph, layout), sites.list(),    sites.calls(),
          sites.marks(), std::move(first_warps),  std::move(notes)};
}

}  // namespace tj::codegen
