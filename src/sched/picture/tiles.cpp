// Pieces and marks of tiles (see tiles.hpp).
#include "sched/picture/tiles.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "sched/tile_level.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;
using support::cat;

class Maker {
 public:
  Maker(const graph::Graph& graph, const Schedule& schedule, const TileLevel& level)
      : graph_(graph), schedule_(schedule), level_(level), times_(level.steady) {}

  TilePicture make() {
    picture_.period = std::max<std::int64_t>(1, times_.period);
    picture_.iterations = times_.iterations;
    std::int64_t first = 0, last = 1;
    for (const TileRole& role : times_.roles) {
      first = std::min({first, role.enters, role.loop_begin});
      last = std::max(last, role.leaves);
    }
    picture_.first = -first;
    for (int role = 0; role < static_cast<int>(schedule_.roles.size()); ++role) add_role(role);
    add_nodes();
    add_critical();
    for (const TilePicture::Row& row : picture_.rows)
      for (const TilePicture::Node& node : row.nodes) last = std::max(last, node.end - 2 * picture_.period + first);
    picture_.window = picture_.first + last + (TilePicture::kTiles - 1) * picture_.period;
    picture_.text = text();
    return std::move(picture_);
  }

 private:
  std::int64_t place(std::int64_t cycle, int tile) const { return picture_.first + cycle + tile * picture_.period; }

  void add_role(int role) {
    const TileRole& of = times_.roles[at(role)];
    TilePicture::Row row;
    row.name = schedule_.roles[at(role)].name;
    if (const std::int64_t ahead = times_.ahead[at(role)]; ahead > 0) row.note = cat(ahead, " ahead");
    for (int tile = 0; tile < TilePicture::kTiles; ++tile)
      for (const auto& [part, begin, end] : {std::tuple{TilePicture::Part::head, of.enters, of.loop_begin},
                                             std::tuple{TilePicture::Part::loop, of.loop_begin, of.loop_end},
                                             std::tuple{TilePicture::Part::tail, of.loop_end, of.leaves}})
        if (end > begin) row.pieces.push_back({part, tile, place(begin, tile), place(end, tile)});
    picture_.rows.push_back(std::move(row));
  }

  void add_nodes() {
    for (int node = 0; node < static_cast<int>(graph_.nodes.size()); ++node) {
      const graph::Node& info = graph_.nodes[at(node)];
      if (info.scope == graph::Scope::iteration) continue;
      for (int tile = 0; tile < TilePicture::kTiles; ++tile) {
        const std::int64_t begin = place(times_.cycle[at(node)], tile);
        picture_.rows[at(schedule_.role[at(node)])].nodes.push_back(
            {node, tile, begin, begin + std::max({1, info.cycles, info.latency})});
      }
    }
  }

  /// The event's role and cycle: a node's issue, or a role's "begin", "loop", "loop's end" and "end".
  std::pair<int, std::int64_t> find(const std::string& name) const {
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node)
      if (graph_.nodes[node].name == name) return {schedule_.role[node], times_.cycle[node]};
    for (std::size_t role = 0; role < schedule_.roles.size(); ++role) {
      const std::string of = schedule_.roles[role].name + "'s ";
      const TileRole& when = times_.roles[role];
      for (const auto& [part, cycle] : {std::pair("begin", when.enters), std::pair("loop", when.loop_begin),
                                        std::pair("loop's end", when.loop_end), std::pair("end", when.leaves)})
        if (name == of + part) return {static_cast<int>(role), cycle};
    }
    return {-1, times_.alone};
  }

  void add_critical() {
    int tile = 0;
    for (std::size_t step = 0; step < times_.critical.size(); ++step) {
      const TileStep& of = times_.critical[step];
      const auto mark = [&](const std::string& name, const std::string& why) {
        const auto [role, cycle] = find(name);
        picture_.critical.push_back({role, place(cycle, tile), name, why});
      };
      if (step == 0) mark(of.from, "");
      tile += of.tiles;
      if (tile >= TilePicture::kTiles) break;
      mark(of.to, of.why);
    }
  }

  std::string text() const {
    std::string all = cat("A block ", level_.walks ? "begins a tile every " : "does one tile; the next block's takes ",
                          "n * ", level_.ii, " + ", level_.c, " cycles, for n >= ", level_.n0, " iterations");
    if (level_.proven) all += " (proven)";
    all += cat("; a tile alone takes n * ", level_.ii, " + ", level_.alone, ". Set by: ", level_.certificate);
    return all;
  }

  const graph::Graph& graph_;
  const Schedule& schedule_;
  const TileLevel& level_;
  const TileTimes& times_;
  TilePicture picture_;
};

const char* name_of(TilePicture::Part part) {
  return part == TilePicture::Part::head ? "head" : part == TilePicture::Part::loop ? "loop" : "tail";
}

}  // namespace

std::optional<TilePicture> make_tile_picture(const graph::Graph& graph, const Schedule& schedule) {
  const std::optional<TileLevel> level = tile_level(graph, schedule);
  if (!level) return std::nullopt;
  return Maker(graph, schedule, *level).make();
}

View tile_view(const TilePicture& picture, const graph::Graph& graph) {
  View view;
  view.window = picture.window + 1;
  for (const TilePicture::Row& of : picture.rows) {
    Row row;
    row.name = of.name;
    std::vector<Box> pieces, nodes;
    for (const TilePicture::Piece& piece : of.pieces) {
      Box box;
      box.iteration = piece.tile;
      box.begin = piece.begin, box.end = box.issued = piece.end;
      box.label = cat("tile ", piece.tile, ": ", name_of(piece.part));
      pieces.push_back(std::move(box));
    }
    for (const TilePicture::Node& node : of.nodes) {
      Box box;
      box.iteration = node.tile;
      box.begin = node.begin, box.end = box.issued = node.end;
      box.label = graph.nodes[at(node.node)].name;
      nodes.push_back(std::move(box));
    }
    row.tracks = {Track{std::move(pieces)}};
    if (!nodes.empty())
      for (Track& track : tracks_of(std::move(nodes))) row.tracks.push_back(std::move(track));
    view.rows.push_back(std::move(row));
  }
  return view;
}

}  // namespace tj::sched
