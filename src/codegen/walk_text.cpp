// See walk_text.hpp. The ring of places has a slot more than the role that draws needs to go on with its next tile.
#include "codegen/walk_text.hpp"

#include <algorithm>

#include "support/fail.hpp"

namespace tj::codegen {

using graph::Scope;
using support::cat;

namespace {

/// Loads that one thread issues run ahead of all else, so their role is the first to know that it needs a tile.
int rank_of(const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout, int role) {
  const auto& nodes = schedule.roles[static_cast<std::size_t>(role)].nodes;
  const bool loads = std::any_of(nodes.begin(), nodes.end(), [&](int index) {
    const graph::Node& node = graph.nodes[static_cast<std::size_t>(index)];
    return node.scope == Scope::iteration &&
           (node.async == graph::Async::copy || node.async == graph::Async::threads || node.variable_latency);
  });
  if (runs_in_first_of_pair(graph, schedule, role)) return 3;
  return (loads ? 0 : 2) + (layout.roles[static_cast<std::size_t>(role)].single_thread ? 0 : 1);
}

}  // namespace

int drawing_role(const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout) {
  int best = 0;
  for (int role = 1; role < static_cast<int>(schedule.roles.size()); ++role)
    if (rank_of(graph, schedule, layout, role) < rank_of(graph, schedule, layout, best)) best = role;
  return best;
}

bool walks_as_one(const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout) {
  return graph.cluster == 1 && schedule.roles.size() == 1 &&
         schedule.roles.front().warps * graph.machine.warp_size == layout.threads;
}

int place_readers(const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout) {
  const int drawing = drawing_role(graph, schedule, layout);
  int readers = 0;
  for (int role = 0; role < static_cast<int>(schedule.roles.size()); ++role) {
    const bool one = layout.roles[static_cast<std::size_t>(role)].single_thread;
    if (role == drawing && one && graph.cluster == 1) continue;
    readers += (one ? 1 : schedule.roles[static_cast<std::size_t>(role)].warps) *
               (runs_in_first_of_pair(graph, schedule, role) ? graph.cluster / 2 : graph.cluster);
  }
  return readers;
}

void write_draw_once(Writer& writer, Sites& sites, const graph::Graph& graph, const sched::Schedule& schedule,
                     const Layout& layout) {
  const auto site = [&](SiteKind kind, const std::string& what) {
    return sites.add(Site{0, kind, cat("begin, number: ", what), {}, static_cast<int>(schedule.rings.size()), -1});
  };
  const std::string draw = cat("dev::draw_rank<", site(SiteKind::counter, "the last to draw leaves the counter at 0"),
                               ", ", graph.cluster, ">(walk)"),
                    slot = cat(kPlacesType, ">(shared, 0");
  writer.open("if (dev::thread_index() == 0)");
  if (walks_as_one(graph, schedule, layout)) {
    writer.line("dev::leave_place<", slot, ", ", draw, ");");
  } else if (graph.cluster == 1) {
    writer.line("dev::hand_place<", site(SiteKind::arrive, "hand it on"), ", ", slot, ", ", draw, ");");
  } else {
    writer.line("dev::expect_place<", site(SiteKind::expect, "expect its bytes"), ", ", slot, ");");
    writer.line("if (dev::cluster_rank() == 0) dev::hand_place_to_cluster<", site(SiteKind::arrive, "hand it on"), ", ",
                graph.cluster, ", ", slot, ", ", draw, ");");
  }
  writer.close();
  if (walks_as_one(graph, schedule, layout))
    writer.line("dev::block_sync<", site(SiteKind::sync, "block sync, it is there"), ">();");
  else
    writer.line("dev::wait_full<", site(SiteKind::wait, "wait for it"), ", ", slot, ");");
  writer.line("const int drawn = dev::uniform(dev::place_in<", slot, "));");
}

std::int64_t slices_bytes(const graph::Graph& graph) { return (graph.slice_count() - 1) * graph.piece_bytes; }

/// One thread of the first role that merges, where the cluster has a tile: bytes that nobody sends are not announced.
void WalkWriter::expect_slices() const {
  const auto merges = [&](int role) {
    const auto& nodes = family_.schedule.roles[static_cast<std::size_t>(role)].nodes;
    return std::any_of(nodes.begin(), nodes.end(), [&](int node) { return family_.node(node).merges; });
  };
  int first = 0;
  while (first < static_cast<int>(family_.schedule.roles.size()) && !merges(first)) ++first;
  if (family_.first != first) return;
  w_.line(
      "if (warp == ", family_.place().first_warp, " && dev::lane_index() == 0) dev::expect_slices<",
      sites_.add(Site{0, SiteKind::expect, cat("role ", family_.names(), ", slices: expect the bytes of others' sums"),
                      family_.family, static_cast<int>(family_.schedule.rings.size()), -1}),
      ", ", kSlicesType, ", ", family_.graph.cluster, ", ", family_.graph.slice_count(), ">(shared);");
}

bool WalkWriter::draws() const {
  const int drawing = drawing_role(family_.graph, family_.schedule, family_.layout);
  return std::find(family_.family.begin(), family_.family.end(), drawing) != family_.family.end();
}
/// Does the thread that draws need no ring to know the place?
bool WalkWriter::keeps() const { return draws() && family_.single_thread() && family_.graph.cluster == 1; }
bool WalkWriter::as_one() const { return walks_as_one(family_.graph, family_.schedule, family_.layout); }

int WalkWriter::site(SiteKind kind, const std::string& what) const {
  return sites_.add(Site{0, kind, cat("role ", family_.names(), ", next tile: ", what), family_.family,
                         static_cast<int>(family_.schedule.rings.size()), -1});
}
void WalkWriter::call(bool reads) const {
  const std::vector<int> ring{static_cast<int>(family_.schedule.rings.size())};
  w_.line(
      "dev::at_node<",
      sites_.add(Call{
          0, {}, family_.family, "next tile", reads ? ring : std::vector<int>(), reads ? std::vector<int>() : ring}),
      ">(tiles);");
}

/// All lanes do the same pieces. Where the compiler does not see that, it keeps what a loop needs in registers of
/// lanes. Each matrix instruction waits for its operands' addresses then.
void WalkWriter::open_pieces() const {
  const auto known = [&](const std::string& piece) {
    return family_.single_thread() ? piece : cat("dev::uniform(", piece, ")");
  };
  const std::string tile = cat("Tile tile = ", walked("tile_at<Config>(params, piece.place)"), ";");
  const char* const cut = "tile = cut_tile<Config>(tile, piece);";
  if (sliced()) {
    w_.line("const dev::Piece piece = ",
            known(cat("dev::slice_of<", kSlicesType, ", ", family_.graph.cluster, ", ", family_.graph.slice_count(),
                      ">(shared, tile_iterations<Config>(params))")),
            ";");
    w_.line(tile);
    w_.open("if (tile.valid)");
    complete();
    w_.line(cut);
    return expect_slices();
  }
  const std::string walk =
      cat("<", kSplitType, ">(walk, drawn, tile_count<Config>(params), tile_iterations<Config>(params)");
  w_.open("for (dev::Piece piece = ", known(cat("dev::first_piece", walk, ")")),
          "; piece.valid; piece = ", known(cat("dev::next_piece", walk, ", piece)")), ")");
  w_.line(tile);
  complete();
  w_.line(cut);
}

/// Completing later saves no text where all warps have one role. Waves of AMD lack scalar registers for what the walk
/// would carry until then.
bool WalkWriter::completes_at_once() const { return !family_.graph.machine.shared_barriers; }
std::string WalkWriter::walked(const std::string& tile) const {
  return completes_at_once() ? cat("dev::completed<Config>(params, ", tile, ")") : tile;
}
void WalkWriter::complete() const {
  if (!completes_at_once()) w_.line("dev::complete<Config>(params, tile);");
}

void WalkWriter::open() {
  if (family_.graph.cuts()) return open_pieces();
  if (dynamic()) {
    w_.open("for (Tile tile = ", walked("first_tile<Config>(params)"), "; tile.valid;)");
  } else if (family_.graph.walks()) {
    w_.open("for (Tile tile = ", walked("first_tile<Config>(params)"),
            "; tile.valid; tile = ", walked("next_tile<Config>(params, tile)"), ")");
  } else {  // then fillings and tiles are known to be 0, and nothing is kept for a next tile
    w_.line("Tile tile = ", walked("first_tile<Config>(params)"), ";");
    w_.open("if (tile.valid)");
  }
  complete();
}

void WalkWriter::draw() {
  if (!dynamic() || !draws()) return;
  const bool alone = family_.single_thread();
  const std::string thread =
      as_one() ? "dev::thread_index() == 0" : cat("warp == ", family_.place().first_warp, " && dev::lane_index() == 0");
  call(false);
  if (!alone) w_.open("if (", thread, ")");
  write_draw();
  if (!alone) w_.close();
  if (!alone && !as_one()) w_.line("dev::reconverge();");
}

void WalkWriter::write_draw() {
  const int cluster = family_.graph.cluster;
  if (cluster > 1) w_.open("if (dev::cluster_rank() == 0)");
  w_.line("const int ", keeps() ? "place" : "drawn", " = dev::draw_place<",
          site(SiteKind::counter, "the last to draw leaves the counter at 0"), ", ", cluster,
          ">(walk, tile_count<Config>(params));");
  const std::string slot = cat(kPlacesType, ">(shared, tiles");
  if (as_one()) return w_.line("dev::leave_place<", slot, ", drawn);");
  w_.line("dev::wait_empty<", site(SiteKind::wait, "wait until the slot is read"), ", ", slot, ");");
  w_.line("dev::hand_place", cluster > 1 ? "_to_cluster" : "", "<", site(SiteKind::arrive, "hand on the place"), ", ",
          cluster > 1 ? cat(cluster, ", ") : "", slot, ", ", keeps() ? "place" : "drawn", ");");
  if (cluster == 1) return;
  w_.close();
  w_.line("dev::expect_place<", site(SiteKind::expect, "expect the bytes of the place"), ", ", slot, ");");
}

void WalkWriter::close() {
  if (dynamic() && !keeps()) read_place();
  w_.line("base += static_cast<unsigned>(n);");
  w_.line("++tiles;");
  if (dynamic()) w_.line("tile = ", walked("tile_at<Config>(params, place)"), ";");
  w_.close();
}

void WalkWriter::read_place() {
  const std::string slot = cat(kPlacesType, ">(shared, tiles);");
  if (as_one())
    w_.line("dev::block_sync<", site(SiteKind::sync, "block sync, the place is there"), ">();");
  else
    w_.line("dev::wait_full<", site(SiteKind::wait, "wait for the place"), ", ", slot);
  call(true);
  w_.line("const int place = dev::place_in<", slot);
  if (as_one()) return;
  if (family_.graph.cluster > 1)  // places come as copies do, which overtake reads
    w_.line("dev::reads_arrived<", site(SiteKind::fence, "the place has arrived"), ">();");
  if (!family_.single_thread())
    w_.line("dev::warp_sync<", site(SiteKind::sync, "warp sync before the slot is free"), ">();");
  w_.line("dev::release", family_.graph.cluster > 1 ? "_place" : "", family_.single_thread() ? "_alone<" : "<",
          site(SiteKind::arrive, "the slot is read"), ", ", slot);
}

void WalkWriter::drain() {
  if (!dynamic() || !draws() || family_.graph.cluster == 1) return;
  w_.line("if (dev::cluster_rank() == 0) dev::wait_drained<",
          site(SiteKind::wait, "all blocks have read their last place"), ", ", kPlacesType, ">(shared, tiles);");
}

}  // namespace tj::codegen
