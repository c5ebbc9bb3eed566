// Tiles that follow one another, before they are drawn: a row of each role, with the head, loop and tail of each tile.
//
// Decides which tiles are shown, and where. Does not decide how they look (svg_tiles, trace), nor when a tile begins
// (tile_level). Invariant: boxes of a role's tile do not overlap, and all times are those of TileLevel::steady.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sched/picture/picture.hpp"
#include "sched/schedule.hpp"

namespace tj::sched {

struct TilePicture {
  static constexpr int kTiles = 3;
  enum class Part { head, loop, tail };

  /// An event of the waits that set the period: it is on a role's row, which is -1 where no role has it. A node of the
  /// loop stands at its first iteration, so a wait of a later one for it may go back.
  struct Mark {
    int role = -1;
    std::int64_t at = 0;
    std::string name, why;  ///< why: it follows the mark before
  };
  struct Piece {
    Part part = Part::loop;
    int tile = 0;
    std::int64_t begin = 0, end = 0;
  };
  /// A node of a tile's head or tail.
  struct Node {
    int node = -1, tile = 0;
    std::int64_t begin = 0, end = 0;
  };
  struct Row {
    std::string name, note;  ///< note: how far it runs into the next tile
    std::vector<Piece> pieces;
    std::vector<Node> nodes;
  };

  std::int64_t window = 1, period = 1;  ///< all times are from 0, where the first tile begins, to window
  std::int64_t first = 0;               ///< the first tile's begin
  int iterations = 0;
  std::vector<Row> rows;  ///< of roles
  std::vector<Mark> critical;
  std::string text;  ///< periods in words, and what sets them
};

/// Nothing where tiles have no period, or the graph is too large for it.
std::optional<TilePicture> make_tile_picture(const graph::Graph& graph, const Schedule& schedule);
/// The same as rows of boxes, for a trace.
View tile_view(const TilePicture& picture, const graph::Graph& graph);

}  // namespace tj::sched
