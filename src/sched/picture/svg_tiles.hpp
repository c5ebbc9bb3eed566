// Draws tiles that follow one another (tiles.hpp) on a page.
//
// Decides their heights and colours. Invariant: nothing leaves the page's width.
#pragma once

#include "graph/graph.hpp"
#include "sched/picture/svg_page.hpp"
#include "sched/picture/tiles.hpp"

namespace tj::sched {

/// Below y; returns the new one.
int draw_tiles(Page& page, int y, const TilePicture& picture, const graph::Graph& graph);

}  // namespace tj::sched
