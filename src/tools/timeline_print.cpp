// A timeline in numbers, for a terminal; see timeline.hpp.
#include <algorithm>
#include <cstdio>
#include <ostream>

#include "support/fail.hpp"
#include "support/index.hpp"
#include "support/json.hpp"
#include "tools/timeline.hpp"

namespace tj::tools {
namespace {

using support::at;

using support::cat;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
  return text;
}
std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}
std::string known(const std::optional<std::int64_t>& value) { return value ? cat(*value) : "-"; }
std::string left(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}
std::string right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

class Printer {
 public:
  Printer(const MeasuredTimeline& measured, std::ostream& out)
      : measured_(measured), graph_(measured.graph()), out_(out) {
    for (const graph::Node& node : graph_.nodes) width_ = std::max(width_, node.name.size());
  }

  void print() {
    head();
    for (const RoleRow& row : measured_.comparison.roles) role(row);
    tiles();
    out_ << "bars:\n";
    for (const std::string& line : bar_meanings(measured_.run.on_model)) out_ << "  " << line << '\n';
  }

 private:
  void head() {
    const RecordedRun& run = measured_.run;
    const sched::Schedule& schedule = measured_.schedule();
    out_ << run.kernel << " for " << run.target << " on " << run.device << "; " << run.problem << "; grid " << run.grid
         << ", recorded blocks " << run.first_block << " to " << run.first_block + run.blocks - 1;
    out_ << "\nmultiprocessors:";
    for (const BlockSpans& block : measured_.blocks) out_ << ' ' << block.roles.front().processor;
    out_ << "\nII " << schedule.ii << ", length " << schedule.length << " predicted";
    if (run.registers > 0)
      out_ << "; registers " << run.registers << " a thread, with marks " << run.recording_registers;
    if (run.ms > 0)
      out_ << "; a launch takes " << fixed(run.ms * 1e3, 1) << " us, with marks " << fixed(run.recording_ms * 1e3, 1)
           << " us";
    out_ << '\n';
    if (run.on_model)
      out_ << "measured in steps of the CPU model (turns of warps and completions), which are no cycles: only their "
              "order means anything\n";
  }

  void role(const RoleRow& row) {
    const sched::Role& role = measured_.schedule().roles[at(row.role)];
    out_ << '\n'
         << role.name << " (" << role.warps << (role.warps == 1 ? " warp" : " warps") << "): interval "
         << measured_.schedule().ii << " predicted, " << known(row.interval) << " measured; waits "
         << percent(row.waiting) << " of a tile, in calls " << percent(row.issuing) << '\n';
    if (!row.nodes.empty()) {
      out_ << "  " << left("node", width_)
           << "     begin: predicted  measured   call: predicted  measured   complete: predicted  measured\n";
      for (const NodeRow& node : row.nodes) line(node, true);
    }
    for (const NodeRow& node : row.once) line(node, false);
    for (const WaitRow& wait : row.waits)
      if (wait.share >= 0.001)
        out_ << "  waits for " << left(wait.wait, 24)
             << (wait.before >= 0 ? " before " + graph_.nodes[at(wait.before)].name : "") << ": " << percent(wait.share)
             << ", median " << wait.median << ", longest " << wait.longest << ", " << wait.count << " times\n";
  }

  void line(const NodeRow& row, bool loops) {
    const graph::Node& node = graph_.nodes[at(row.node)];
    out_ << "  " << left(node.name, width_) << right(loops ? cat(row.predicted_offset) : "once a tile", 21)
         << right(loops ? known(row.measured_offset) : "", 10) << right(cat(row.predicted_issue), 18)
         << right(known(row.measured_issue), 10) << right(cat(row.predicted_latency), 22)
         << right(known(row.measured_done), 10) << '\n';
  }

  void tiles() {
    out_ << '\n';
    const graph::Node& anchor = graph_.nodes[at(measured_.comparison.anchor)];
    for (const TileRow& row : measured_.comparison.tiles)
      out_ << "tiles of " << row.iterations << " iterations (" << row.tiles << " recorded): " << row.head
           << " to the first " << anchor.name << ", " << row.loop << " to the last, " << row.tail
           << " to the end: " << row.head + row.loop + row.tail << " measured, " << fixed(row.predicted, 0)
           << " predicted\n";
    for (const TileRow& row : measured_.comparison.tiles) beside(row);
    if (measured_.comparison.tiles.empty())
      out_ << "no tile was recorded to its end: give more --records\n";
    else
      out_ << tiles_json().dump() << '\n';
  }

  /// The tile level's head, tail and period, and how far each is from what was measured.
  void beside(const TileRow& row) const {
    if (!row.tile_level) return;
    const TileRow::Parts &told = *row.tile_level, was = row.measured();
    const auto part = [&](const char* name, std::int64_t predicted, std::int64_t measured) {
      return cat(name, ' ', predicted, " predicted, ", measured, " measured (", off(predicted, measured), ")");
    };
    out_ << "  tile level, " << row.iterations << " iterations: " << part("head", told.head, was.head) << "; "
         << part("tail", told.tail, was.tail) << "; " << part("period", told.all(), was.all()) << '\n';
  }
  static std::string off(std::int64_t predicted, std::int64_t measured) {
    if (measured == 0) return "-";
    const double error = 100.0 * static_cast<double>(predicted - measured) / static_cast<double>(measured);
    return cat(error < 0 ? "" : "+", fixed(error, 1), "%");
  }
  /// One line for other programs; `off_percent` is of what was measured.
  support::Json tiles_json() const {
    support::Json list = support::Json::array();
    const auto parts = [](const TileRow::Parts& of) {
      return support::Json{{"head", of.head}, {"loop", of.loop}, {"tail", of.tail}, {"period", of.all()}};
    };
    for (const TileRow& row : measured_.comparison.tiles) {
      support::Json tile = {{"iterations", row.iterations},
                            {"recorded", row.tiles},
                            {"measured", parts(row.measured())},
                            {"predicted", row.tile_level ? parts(*row.tile_level) : support::Json(nullptr)}};
      if (row.tile_level && row.measured().all() > 0)
        tile["off_percent"] = 100.0 * static_cast<double>(row.tile_level->all() - row.measured().all()) /
                              static_cast<double>(row.measured().all());
      list.push_back(std::move(tile));
    }
    return {{"tiles", list}};
  }

  const MeasuredTimeline& measured_;
  const graph::Graph& graph_;
  std::ostream& out_;
  std::size_t width_ = 4;
};

}  // namespace

std::vector<std::string> bar_meanings(bool on_model) {
  std::vector<std::string> lines = {
      "A node's bar goes from the call of its body to its return, of the role's first warp. What completes by itself "
      "has then only been issued.",
      "A matrix node's light bar goes on until the role has waited for it: it was complete by then, perhaps before.",
      "A copy's arrival is the end of its readers' wait where they had to wait; else it was there before. A store's "
      "end is not seen.",
      "A wait's bar goes from asking to going on, so that a wait for what is there has a short one too.",
  };
  if (!on_model)
    lines.push_back(
        "The compiler may move arithmetic that no access to memory holds across a mark; marks themselves take some "
        "cycles each.");
  return lines;
}

void print_timeline(const MeasuredTimeline& measured, std::ostream& out) { Printer(measured, out).print(); }

}  // namespace tj::tools
