// Lays a picture out on a page: title, two views, legend.
//
// Decides colours, heights and where labels go. Does not decide what is shown (picture). Invariant: text lies inside
// its box, or above its track on a level of its own; nothing leaves the page.
#include "sched/picture/svg.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "sched/picture/picture.hpp"
#include "sched/picture/svg_page.hpp"
#include "sched/picture/svg_tiles.hpp"
#include "sched/picture/tiles.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;
using support::cat;

constexpr int kWidth = 1200, kLeft = 130, kPlot = 1000;  // pixels; the margin at the right takes the last labels
constexpr int kBox = 32, kBar = 16, kLevel = 12, kRowGap = 10;
constexpr int kColours = 12, kIterationColours = 4;
constexpr int kNameColumns = 18, kPageColumns = 172;
constexpr Tenths kEdge = 25;  ///< between a box's border and its text

int fitting(Tenths width, Tenths column) { return width <= 0 ? 0 : static_cast<int>(width / column); }
std::string relative(int iteration) { return iteration == 0 ? "i" : cat("i", iteration > 0 ? "+" : "", iteration); }
std::string css(char kind, int index, int colours = kColours) { return kind + std::to_string(index % colours); }

/// A box on the page, with what is written in it or above it.
struct Placed {
  const Box* box = nullptr;
  Tenths x = 0, width = 0, issued = 0;
  std::string first, second;  ///< lines inside
  std::string above;          ///< where nothing fits inside
  int level = 0;
};

class Drawing {
 public:
  Drawing(const graph::Graph& graph, const Schedule& schedule)
      : graph_(graph), schedule_(schedule), picture_(make_picture(graph, schedule)) {
    for (const graph::Node& node : graph.nodes)
      if (node.scope == graph::Scope::iteration)
        copies_.emplace(std::pair(node.context, node.copy), static_cast<int>(copies_.size()));
  }

  std::string draw() {
    title();
    heading("Steady state: units over two periods. A box says which iteration it works for; i begins at 0.");
    steady_ = true;
    view(picture_.steady);
    heading("From the first iteration on: roles in the schedule's own time.");
    steady_ = false;
    view(picture_.unrolled);
    legend("in flight: issued, result not there yet", "role waits for what an edge asks");
    const std::optional<TilePicture> tiles = make_tile_picture(graph_, schedule_);
    if (tiles) {
      heading("Tiles that follow one another: head, loop and tail of each role; in red the waits that set the period.");
      y_ = draw_tiles(page_, y_, *tiles, graph_);
      paragraph(tiles->text);
    }
    notes(tiles.has_value());
    return document();
  }

  std::string draw(const Sheet& sheet) {
    sheet_ = &sheet;
    steady_ = false;
    for (const graph::Node& node : graph_.nodes)
      copies_.emplace(std::pair(node.context, node.copy), static_cast<int>(copies_.size()));
    y_ = 26;
    page_.text(100, y_, shortened(sheet.title, 110), "t");
    y_ += 4;
    for (const std::string& remark : sheet.remarks) paragraph(remark);
    heading(sheet.heading);
    view(sheet.view);
    legend("in flight: issued, not seen complete yet", "role waits");
    y_ += 12;
    return document();
  }

 private:
  std::string document() const {
    std::string out = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"", y_,
                          "\" viewBox=\"0 0 ", kWidth, " ", y_, "\">\n");
    out += cat("<style>\n", kPageStyle, "</style>\n<rect class=\"page\" width=\"", kWidth, "\" height=\"", y_, "\"/>\n",
               page_.body(), "</svg>\n");
    return out;
  }

  void paragraph(const std::string& text, int limit = kPageColumns) {
    for (const std::string& line : wrapped(text, limit)) {
      y_ += 15;
      page_.text(100, y_, line);
    }
  }

  void title() {
    y_ = 26;
    page_.text(100, y_, shortened(sched::title(graph_), 110), "t");
    y_ += 4;
    const auto proof = [](bool proven) { return proven ? " (proven)" : " (not proven)"; };
    paragraph(cat("II ", schedule_.ii, proof(schedule_.proven_ii), ", length ", schedule_.length,
                  proof(schedule_.proven_length), ", ResMII ", schedule_.res_mii, ", RecMII ", schedule_.rec_mii,
                  "; cycles; ", picture_.stages, picture_.stages == 1 ? " iteration" : " iterations", " in flight"));
    paragraph("certificate: " + schedule_.certificate);
  }

  void heading(const std::string& text) {
    y_ += 36;
    page_.text(100, y_, text, "h");
    y_ += 8;
  }

  Tenths place(std::int64_t cycle) const {
    const std::int64_t inside = std::clamp<std::int64_t>(cycle, 0, window_);
    return kLeft * 10 + inside * (kPlot * 10) / window_;
  }

  void view(const View& view) {
    window_ = view.window;
    const int axis = y_ + 30;
    // Lines lie below the boxes, so their height has to be known first: a row has the same height wherever it is drawn.
    Page rows;
    std::swap(rows, page_);
    y_ = axis + 6;
    for (const Row& one : view.rows) row(one);
    std::swap(rows, page_);
    axis_lines(axis, y_);
    page_.append(rows);
  }

  void axis_lines(int axis, int bottom) {
    const std::int64_t period = picture_.period;
    if (!steady_ && sheet_ == nullptr && picture_.stages > 1)
      page_.rect(kLeft * 10, axis - 26, place((picture_.stages - 1) * period) - kLeft * 10, bottom - axis + 26, "pro");
    std::int64_t step = 1;
    for (int turn = 0; window_ / step > 12; ++turn) step = turn % 3 == 1 ? step / 2 * 5 : step * 2;
    for (std::int64_t tick = 0; tick <= window_; tick += step) {
      page_.line(place(tick), axis, place(tick), bottom, "tick");
      const std::string label = std::to_string(tick);
      page_.text(place(tick) - columns(label) * kSmallColumn / 2, axis - 3, label, "n");
    }
    for (std::int64_t begin = 0; begin <= window_; begin += period) {
      page_.line(place(begin), axis - 26, place(begin), axis - 13, "period");
      page_.line(place(begin), axis, place(begin), bottom, "period");
    }
    if (sheet_ != nullptr) {
      int iteration = sheet_->first_iteration;
      for (std::int64_t begin = 0; begin < window_; begin += period, ++iteration)
        span(begin, begin + period, axis, cat("predicted #", iteration));
    } else if (steady_) {
      for (int round = 0; round < 2; ++round)
        span(round * period, (round + 1) * period, axis,
             cat("period of iteration ", relative(round), ": II = ", period));
    } else {
      const std::int64_t full = (picture_.stages - 1) * period;
      span(0, full, axis, cat("prologue: ", full, " cycles"));
      span(full, window_, axis, "steady state");
    }
  }

  void span(std::int64_t begin, std::int64_t end, int axis, const std::string& text) {
    page_.text(place(begin) + 40, axis - 16, shortened(text, fitting(place(end) - place(begin) - 60, kSmallColumn)),
               "s");
  }

  void row(const Row& row) {
    const int top = y_;
    y_ += kRowGap / 2;
    for (const Track& one : row.tracks) track(one);
    page_.text(100, top + kRowGap + 14, shortened(row.name, fitting(kLeft * 10 - 160, kColumn)));
    page_.text(100, top + kRowGap + 27, shortened(row.note, fitting(kLeft * 10 - 160, kSmallColumn)), "n");
    y_ = std::max(y_, top + kRowGap + (row.note.empty() ? 10 : 26));
    if (!row.waits.empty()) waits(row.waits);
    y_ += kRowGap / 2;
    page_.line(100, y_, (kLeft + kPlot) * 10, y_, "row");
  }

  void waits(const std::vector<Box>& list) {
    for (const Box& wait : list) {
      if (wait.begin >= window_) continue;
      waits_ = true;
      const std::string who = wait.node < 0 ? "the role"
                                            : cat(graph_.nodes[at(wait.node)].name,
                                                  wait.iteration < 0 ? std::string() : cat(" #", wait.iteration));
      page_.open(cat(who, " waits for ", wait.label, ", cycles ", wait.begin, " to ", wait.end));
      page_.rect(place(wait.begin), y_ + 1, place(wait.end) - place(wait.begin), 4, "wait");
      page_.close();
    }
    y_ += 5;
  }

  void track(const Track& track) {
    const int height = !track.boxes.empty() && track.boxes.front().node < 0 ? kBar : kBox;
    std::vector<Placed> list;
    for (const Box& box : track.boxes) {
      if (box.begin >= window_) continue;
      Placed placed;
      placed.box = &box;
      placed.x = place(box.begin);
      placed.width = place(box.end) - placed.x;
      placed.issued = place(std::min(box.issued, box.end)) - placed.x;
      label(placed);
      list.push_back(std::move(placed));
    }
    const int levels = raise(list);
    y_ += levels > 0 ? levels * kLevel + 4 : 2;
    for (const Placed& placed : list) draw_box(placed, height);
    y_ += height + 1;
  }

  void label(Placed& placed) const {
    const Box& box = *placed.box;
    const int inside = fitting(placed.width - 2 * kEdge, kColumn);
    if (box.node < 0) {
      placed.first = box.role >= 0 || columns(box.label) <= inside ? shortened(box.label, inside)
                                                                   : shortened(cat("#", box.iteration), inside);
      return;
    }
    std::string name = graph_.nodes[at(box.node)].name;
    if (box.count > 1) name += cat(" x", box.count);
    if (columns(name) <= inside || inside >= 8) {
      placed.first = shortened(name, inside);
      placed.second = steady_ ? relative(box.iteration) : box.iteration < 0 ? "once a tile" : cat("#", box.iteration);
      const std::string more = cat(placed.second, " ", schedule_.roles[at(schedule_.role[at(box.node)])].name);
      if (steady_ && columns(more) <= fitting(placed.width - 2 * kEdge, kSmallColumn)) placed.second = more;
      return;
    }
    // Names stand once: in the first period, and in the first iteration.
    const bool once = steady_ ? box.begin >= 0 && box.begin < picture_.period
                              : box.iteration == (sheet_ != nullptr ? sheet_->first_iteration : 0);
    if (once) placed.above = shortened(name, kNameColumns) + (steady_ ? " " + relative(box.iteration) : "");
  }

  /// From right to left, each label goes on the lowest level where it ends before any label or line at its right.
  static int raise(std::vector<Placed>& list) {
    std::vector<Tenths> limit;  // of a level: the nearest label or line at its right
    for (auto placed = list.rbegin(); placed != list.rend(); ++placed) {
      if (placed->above.empty()) continue;
      const Tenths room = kWidth * 10 - 20 - placed->x - 30;
      placed->above = shortened(placed->above, fitting(room, kSmallColumn));
      const Tenths end = placed->x + 30 + columns(placed->above) * kSmallColumn + 30;
      int level = 0;
      while (level < static_cast<int>(limit.size()) && end > limit[at(level)]) ++level;
      if (level == static_cast<int>(limit.size())) limit.push_back(0);
      for (int below = 0; below <= level; ++below) limit[at(below)] = placed->x;
      placed->level = level;
    }
    return static_cast<int>(limit.size());
  }

  int colour(int node) const {
    const graph::Node& info = graph_.nodes[at(node)];
    return copies_.size() > 1 ? copies_.at({info.context, info.copy}) : schedule_.role[at(node)];
  }

  std::string tooltip(const Box& box) const {
    if (box.node < 0)
      return cat(box.label, box.role >= 0 ? cat(", turn ", box.iteration) : "", ": cycles ", box.begin, " to ",
                 box.end);
    const std::string which = steady_             ? "iteration " + relative(box.iteration)
                              : box.iteration < 0 ? "once a tile"
                                                  : cat("#", box.iteration);
    std::string text = cat(graph_.nodes[at(box.node)].name, " ", which, ": cycles ", box.begin, " to ", box.end);
    if (box.issued < box.end) text += cat(", issued by ", box.issued);
    return cat(text, ", stage ", schedule_.stage(box.node), ", ",
               schedule_.roles[at(schedule_.role[at(box.node)])].name,
               graph_.nodes[at(box.node)].range ? ", " + graph::to_text(graph_.nodes[at(box.node)].range) : "");
  }

  void draw_box(const Placed& placed, int height) {
    const Box& box = *placed.box;
    page_.open(tooltip(box));
    if (!placed.above.empty()) {
      const int base = y_ - 4 - placed.level * kLevel;
      page_.line(placed.x, base - 8, placed.x, y_, "lead");
      page_.text(placed.x + 30, base, placed.above, "a");
    } else if (placed.width == 0) {
      page_.line(placed.x, y_ - 4, placed.x, y_, "lead");
    }
    if (placed.width > 0) {
      const std::string held = box.node >= 0 ? css('c', colour(box.node)) : "bar";
      if (placed.issued > 0) page_.rect(placed.x, y_, placed.issued, height, held);
      if (placed.issued < placed.width) {
        in_flight_ = true;
        page_.rect(placed.x + placed.issued, y_, placed.width - placed.issued, height, css('l', colour(box.node)));
      }
      if (steady_ || box.role >= 0)
        page_.rect(placed.x, y_ + height - 4, placed.width, 4,
                   css('r', box.role >= 0 ? box.role : schedule_.role[at(box.node)]));
      else if (box.iteration >= 0)
        head(placed);
      page_.rect(placed.x, y_, placed.width, height, "frame");
    }
    const int down = steady_ ? 0 : 2;  // the second line clears a box's foot, the first its head
    page_.text(placed.x + kEdge, y_ + (box.role >= 0 ? 10 : 12 + down), placed.first, box.role >= 0 ? "s" : "");
    page_.text(placed.x + kEdge, y_ + 24 + down, placed.second, "s");
    page_.close();
  }

  void head(const Placed& placed) {
    page_.rect(placed.x, y_, placed.width, 3, css('q', placed.box->iteration, kIterationColours));
    last_head_ = std::max(last_head_, placed.box->iteration);
  }

  void chip(const std::string& kind, const std::string& text, int height = 10) {
    const Tenths width = 180 + columns(text) * kColumn + 180;
    if (chip_x_ > 100 && chip_x_ + width > kWidth * 10) {
      chip_x_ = 100;
      y_ += 18;
    }
    page_.rect(chip_x_, y_ - 4 - height / 2, 140, height, kind);
    page_.text(chip_x_ + 180, y_, text);
    chip_x_ += width;
  }

  /// The legend explains what was drawn, and nothing else.
  void legend(const char* in_flight, const char* wait) {
    y_ += 26;
    chip_x_ = 100;
    if (copies_.size() > 1) {
      std::map<int, std::string> names;
      for (const auto& [copy, index] : copies_)
        names[index] = shortened(cat(copy.first.empty() ? "copy" : copy.first, " ", copy.second), 30);
      for (const auto& [index, name] : names) chip(css('c', index), name);
    } else {
      for (int role = 0; role < static_cast<int>(schedule_.roles.size()); ++role)
        chip(css('c', role), shortened(schedule_.roles[at(role)].name, 30));
    }
    if (in_flight_)
      chip(css('l', static_cast<int>(copies_.size() > 1 ? copies_.size() : schedule_.roles.size()) - 1), in_flight);
    if (waits_) chip("wait", wait, 4);
    y_ += 18;
    chip_x_ = 100;
    for (int role = 0; sheet_ == nullptr && role < static_cast<int>(schedule_.roles.size()); ++role)
      chip(css('r', role), cat("foot of a box: role ", shortened(schedule_.roles[at(role)].name, 30)), 4);
    for (int i = 0; i <= std::min(last_head_, kIterationColours - 1); ++i) {
      const char* more = last_head_ < i + kIterationColours ? "" : i == 0 ? ", 4, ..." : ", ...";
      chip(css('q', i), cat("head: iteration ", i, more), 3);
    }
  }

  std::string names(const std::vector<int>& nodes) const {
    std::string text;
    for (const int node : nodes) text += (text.empty() ? "" : ", ") + graph_.nodes[at(node)].name;
    return text;
  }

  void notes(bool tiles) {
    y_ += 4;
    if (!tiles && !picture_.begin_nodes.empty())
      paragraph("once a tile, before the loop, not drawn: " + names(picture_.begin_nodes));
    if (!tiles && !picture_.end_nodes.empty())
      paragraph("once a tile, after the loop, not drawn: " + names(picture_.end_nodes));
    std::string rings;
    for (const Ring& ring : schedule_.rings) {
      const graph::Value& value = graph_.values[at(ring.value)];
      rings += cat(rings.empty() ? "rings: " : ", ", value.name, " ", ring.slots, ring.slots == 1 ? " slot" : " slots",
                   value.lies_in < 0 ? "" : " in " + graph_.values[at(value.lies_in)].name);
    }
    paragraph(rings);
    y_ += 12;
  }

  const graph::Graph& graph_;
  const Schedule& schedule_;
  Picture picture_;
  std::map<std::pair<std::string, int>, int> copies_;  ///< of nodes that are drawn, numbered as they appear
  Page page_;
  int y_ = 0;
  Tenths chip_x_ = 0;
  std::int64_t window_ = 1;
  bool steady_ = true;
  bool in_flight_ = false, waits_ = false;  ///< drawn somewhere
  int last_head_ = -1;                      ///< the latest iteration with a head
  const Sheet* sheet_ = nullptr;            ///< drawn in the place of the schedule's own picture
};

}  // namespace

std::string to_svg(const graph::Graph& graph, const Schedule& schedule) { return Drawing(graph, schedule).draw(); }
std::string to_svg(const graph::Graph& graph, const Schedule& schedule, const Sheet& sheet) {
  return Drawing(graph, schedule).draw(sheet);
}

}  // namespace tj::sched
