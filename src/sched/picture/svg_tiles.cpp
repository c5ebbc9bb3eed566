// Tiles on a page (see svg_tiles.hpp).
#include "sched/picture/svg_tiles.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;
using support::cat;

constexpr int kLeft = 130, kPlot = 1000, kBar = 22, kRow = 48, kTop = 16, kWire = 16;  // pixels
constexpr int kColours = 3;                                                            // of tiles: c1, c2, c3

class Drawing {
 public:
  Drawing(Page& page, int y, const TilePicture& picture, const graph::Graph& graph)
      : page_(page), y_(y), picture_(picture), graph_(graph) {}

  int draw() {
    const int axis = y_ + 30;
    rows_top_ = axis + 6;
    const int bottom = rows_top_ + kRow * static_cast<int>(picture_.rows.size());
    lines(axis, bottom);
    for (std::size_t row = 0; row < picture_.rows.size(); ++row) draw_row(static_cast<int>(row));
    critical();
    return bottom + 4;
  }

 private:
  Tenths place(std::int64_t cycle) const {
    const std::int64_t inside = std::clamp<std::int64_t>(cycle, 0, picture_.window);
    return kLeft * 10 + inside * (kPlot * 10) / picture_.window;
  }
  int top(int row) const { return rows_top_ + row * kRow; }
  static int fitting(Tenths width, Tenths column) { return width <= 0 ? 0 : static_cast<int>(width / column); }
  static std::string css(const char* kind, int tile) { return kind + std::to_string(1 + tile % kColours); }

  /// A dashed line where each tile begins.
  void lines(int axis, int bottom) {
    for (int tile = 0; tile < TilePicture::kTiles; ++tile) {
      const std::int64_t begin = picture_.first + tile * picture_.period;
      page_.line(place(begin), axis - 26, place(begin), bottom, "period");
      const Tenths room = place(begin + picture_.period) - place(begin) - 60;
      const std::string what = tile + 1 < TilePicture::kTiles ? cat("period ", picture_.period) : std::string();
      page_.text(place(begin) + 40, axis - 16,
                 shortened(cat("tile ", tile, what.empty() ? "" : ": ", what), fitting(room, kSmallColumn)), "s");
    }
  }

  void draw_row(int index) {
    const TilePicture::Row& row = picture_.rows[at(index)];
    const int bar = top(index) + kTop;
    page_.text(100, bar + 10, shortened(row.name, fitting(kLeft * 10 - 160, kColumn)));
    page_.text(100, bar + 22, shortened(row.note, fitting(kLeft * 10 - 160, kSmallColumn)), "n");
    for (const TilePicture::Piece& piece : row.pieces) draw_piece(piece, bar);
    for (const TilePicture::Node& node : row.nodes) draw_node(node, bar);
    names(row.nodes, bar);
    page_.line(100, top(index) + kRow, (kLeft + kPlot) * 10, top(index) + kRow, "row");
  }

  void draw_piece(const TilePicture::Piece& piece, int bar) {
    const bool loop = piece.part == TilePicture::Part::loop;
    const char* name = loop ? "loop" : piece.part == TilePicture::Part::head ? "head" : "tail";
    const Tenths x = place(piece.begin), width = place(piece.end) - x;
    page_.open(cat("tile ", piece.tile, ", ", name, ": cycles ", piece.begin, " to ", piece.end));
    page_.rect(x, bar, width, kBar, css(loop ? "c" : "l", piece.tile));
    page_.rect(x, bar, width, kBar, "frame");
    const std::string text = loop ? cat("tile ", piece.tile, ": ", picture_.iterations, " iterations") : name;
    const int inside = fitting(width - 50, kSmallColumn);
    if (inside >= 4) page_.text(x + 25, bar + 12, shortened(text, inside), "s");
    page_.close();
  }

  void draw_node(const TilePicture::Node& node, int bar) {
    page_.open(cat(graph_.nodes[at(node.node)].name, ", tile ", node.tile, ": cycles ", node.begin, " to ", node.end));
    page_.rect(place(node.begin), bar + kBar - 4, std::max<Tenths>(12, place(node.end) - place(node.begin)), 4,
               css("r", node.tile));
    page_.close();
  }

  /// Names stand once, above the first tile's nodes; those that lie too close are told together.
  void names(const std::vector<TilePicture::Node>& all, int bar) {
    std::vector<const TilePicture::Node*> list;
    for (const TilePicture::Node& node : all)
      if (node.tile == 0) list.push_back(&node);
    std::stable_sort(list.begin(), list.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
    for (std::size_t i = 0; i < list.size();) {
      const Tenths x = place(list[i]->begin);
      std::string text = graph_.nodes[at(list[i]->node)].name;
      std::size_t next = i + 1;
      for (; next < list.size() && place(list[next]->begin) < x + 40 + (columns(text) + 1) * kSmallColumn; ++next)
        text += ", " + graph_.nodes[at(list[next]->node)].name;
      page_.line(x, bar - 8, x, bar, "lead");
      page_.text(x + 30, bar - 3, shortened(text, fitting((kLeft + kPlot + 60) * 10 - x, kSmallColumn)), "a");
      i = next;
    }
  }

  /// The waits that set the period, from event to event.
  void critical() {
    const TilePicture::Mark* before = nullptr;
    for (const TilePicture::Mark& mark : picture_.critical) {
      if (mark.role < 0) {
        before = nullptr;
        continue;
      }
      const int y = top(mark.role) + kTop + kWire;
      page_.open(before == nullptr ? mark.name : cat(before->name, " -> ", mark.name, " (", mark.why, ")"));
      if (before != nullptr) page_.line(place(before->at), top(before->role) + kTop + kWire, place(mark.at), y, "crit");
      page_.rect(place(mark.at) - 25, y - 3, 50, 5, "critdot");
      page_.close();
      before = &mark;
    }
  }

  Page& page_;
  const int y_;
  const TilePicture& picture_;
  const graph::Graph& graph_;
  int rows_top_ = 0;
};

}  // namespace

int draw_tiles(Page& page, int y, const TilePicture& picture, const graph::Graph& graph) {
  return Drawing(page, y, picture, graph).draw();
}

}  // namespace tj::sched
