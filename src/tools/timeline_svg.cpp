// The picture of a timeline; see timeline.hpp. Colours, axes and labels are those of a schedule's picture
// (sched/picture/svg.hpp).
//
// Decides which iterations are shown, and how predicted and measured are laid over each other.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "sched/picture/picture.hpp"
#include "sched/picture/svg.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"
#include "tools/timeline.hpp"

namespace tj::tools {
namespace {

using support::at;

using sched::Box;
using support::cat;

class Sheets {
 public:
  Sheets(const MeasuredTimeline& measured, const BlockSpans& block, int iterations)
      : measured_(measured), graph_(measured.graph()), schedule_(measured.schedule()), block_(block) {
    choose_tile();
    const int all = tile_iterations();
    count_ = std::clamp(iterations, 1, std::max(1, all));  // of none, what is done once
    first_ = std::max(0, (all - count_) / 2);
  }

  sched::Sheet make() {
    sched::Sheet sheet;
    const RecordedRun& run = measured_.run;
    sheet.title = cat(run.kernel, " on ", run.target, ": predicted and measured");
    sheet.first_iteration = first_;
    sheet.heading =
        cat("Block ", block_.block, ", tile ", tile_, " of ", tile_iterations(), " iterations, from iteration ", first_,
            " on: of each role what was predicted, below it what was measured.");
    sheet.remarks.push_back(cat(run.problem, " on ", run.device, "; ",
                                run.on_model ? "predicted in cycles, measured in steps of the CPU model, which are no "
                                               "cycles: drawn so that an interval is as long as predicted"
                                             : "all in cycles of the multiprocessor's clock",
                                "; II ", schedule_.ii, " predicted, ", interval_text(), " measured"));
    sheet.remarks.push_back(
        "Dashed lines: where an iteration begins as predicted, from the first shown on. Iteration by iteration, "
        "measured ones may fall behind or run ahead of them.");
    for (const std::string& line : bar_meanings(run.on_model)) sheet.remarks.push_back(line);
    if (run.on_model) stretch();
    zero_ = zero();
    sheet.view.window = window();
    for (const sched::Role& role : schedule_.roles)
      add_rows(sheet.view, static_cast<int>(&role - schedule_.roles.data()));
    return sheet;
  }

 private:
  const RoleSpans* spans_of(int role) const {
    for (const RoleSpans& spans : block_.roles)
      if (spans.role == role) return &spans;
    return nullptr;
  }
  const TileSpans* tile_of(int role) const {
    const RoleSpans* spans = spans_of(role);
    return spans != nullptr && tile_ < spans->tiles.size() ? &spans->tiles[tile_] : nullptr;
  }
  int anchor_role() const { return schedule_.role[at(measured_.comparison.anchor)]; }

  /// The longest that every role recorded whole, of these the second where there is one: the first waits for the
  /// launch.
  void choose_tile() {
    const RoleSpans* anchor = spans_of(anchor_role());
    int best = -1;
    for (std::size_t t = 0; anchor != nullptr && t < anchor->tiles.size(); ++t) {
      const bool whole = std::all_of(block_.roles.begin(), block_.roles.end(), [&](const RoleSpans& role) {
        return t < role.tiles.size() && role.tiles[t].whole();
      });
      if (!whole || anchor->tiles[t].iterations < best || (anchor->tiles[t].iterations == best && t > 1)) continue;
      best = anchor->tiles[t].iterations;
      tile_ = t;
    }
    if (best < 0)
      support::fail(Stage::argument, Code::invalid_argument,
                    cat("block ", block_.block, " recorded no tile to its end: --records is ",
                        measured_.run.warp_records, "; give more, or a problem with shorter tiles"));
  }
  int tile_iterations() const { return tile_of(anchor_role())->iterations; }

  std::string interval_text() const {
    const auto interval = measured_.comparison.roles[at(anchor_role())].interval;
    return interval ? cat(*interval) : std::string("none");
  }

  /// Steps as so many cycles that an interval of the anchor's role is as long as predicted.
  void stretch() {
    const auto interval = measured_.comparison.roles[at(anchor_role())].interval;
    if (!interval || *interval <= 0) return;
    const auto longer = [&](std::int64_t& time) { time = time < 0 ? time : time * schedule_.ii / *interval; };
    for (RoleSpans& role : block_.roles)
      for (TileSpans& tile : role.tiles)
        for (Span& span : tile.spans) {
          longer(span.begin);
          longer(span.end);
          longer(span.done);
        }
  }

  bool shown(int iteration) const { return iteration >= first_ && iteration < first_ + count_; }

  /// The block's time at cycle 0 of the first shown iteration. Most nodes that are neither copies nor stores agree on
  /// it; these two run as far ahead or behind as slots allow.
  std::int64_t zero() const {
    std::vector<std::int64_t> zeros;
    for (const RoleSpans& role : block_.roles)
      for (const Span& span : role.tiles[tile_].spans) {
        if (!span.wait.empty() || !shown(span.iteration) || graph::issued_by_one(graph_.nodes[at(span.node)].async))
          continue;
        zeros.push_back(span.begin - schedule_.cycle[at(span.node)] -
                        std::int64_t{span.iteration - first_} * schedule_.ii);
      }
    if (zeros.empty()) {  // copies and products that one thread asks for alone
      for (const Span& span : tile_of(anchor_role())->spans)
        if (span.wait.empty() && span.node == measured_.comparison.anchor && span.iteration == first_)
          zeros.push_back(span.begin - schedule_.cycle[at(span.node)]);
    }
    if (zeros.empty()) return 0;
    std::nth_element(zeros.begin(), zeros.begin() + static_cast<std::ptrdiff_t>(zeros.size() / 2), zeros.end());
    return zeros[zeros.size() / 2];
  }

  /// The cycles that are shown, to the later end of the two.
  std::int64_t window() const {
    std::int64_t end = std::int64_t{count_} * schedule_.ii;
    for (const RoleSpans& role : block_.roles)
      for (const Span& span : role.tiles[tile_].spans)
        if (span.wait.empty() && shown(span.iteration)) end = std::max(end, std::max(span.end, span.done) - zero_);
    return end;
  }

  void add_rows(sched::View& view, int role) {
    sched::Row predicted;
    predicted.name = schedule_.roles[at(role)].name;
    predicted.note = "predicted";
    std::vector<Box> boxes = sched::role_boxes(graph_, schedule_, role, 0, tile_iterations());
    for (Box& box : boxes) move(box, -std::int64_t{first_} * schedule_.ii);
    predicted.tracks = sched::tracks_of(visible(std::move(boxes), view.window));
    view.rows.push_back(std::move(predicted));
    const TileSpans* tile = tile_of(role);
    if (tile == nullptr) return;
    sched::Row measured;
    measured.name = schedule_.roles[at(role)].name;
    measured.note = cat("measured, ", measured_.unit());
    std::vector<Box> calls, waits;
    for (const Span& span : tile->spans) {
      Box box;
      box.node = span.node;
      box.iteration = span.iteration;
      box.begin = span.begin;
      box.issued = span.end;
      box.end = std::max(span.end, span.done);
      if (!span.wait.empty()) box.label = span.wait;
      move(box, -zero_);
      (span.wait.empty() ? calls : waits).push_back(std::move(box));
    }
    measured.tracks = sched::tracks_of(visible(std::move(calls), view.window));
    measured.waits = visible(std::move(waits), view.window);
    view.rows.push_back(std::move(measured));
  }

  static void move(Box& box, std::int64_t by) {
    box.begin += by;
    box.issued += by;
    box.end += by;
  }
  static std::vector<Box> visible(std::vector<Box> boxes, std::int64_t window) {
    std::erase_if(boxes, [&](const Box& box) { return box.end <= 0 || box.begin >= window; });
    return boxes;
  }

  const MeasuredTimeline& measured_;
  const graph::Graph& graph_;
  const sched::Schedule& schedule_;
  BlockSpans block_;
  std::size_t tile_ = 0;
  int first_ = 0, count_ = 1;
  std::int64_t zero_ = 0;
};

}  // namespace

std::string timeline_svg(const MeasuredTimeline& measured, std::size_t block, int iterations) {
  return sched::to_svg(measured.graph(), measured.schedule(),
                       Sheets(measured, measured.blocks.at(block), iterations).make());
}

}  // namespace tj::tools
