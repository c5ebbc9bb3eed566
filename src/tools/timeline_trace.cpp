// Trace events of a timeline; see timeline.hpp.
//
// Invariant: events of one thread do not overlap; a node has one name, and so one colour, wherever it is shown.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "sched/picture/picture.hpp"
#include "sched/picture/trace_events.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"
#include "tools/timeline.hpp"

namespace tj::tools {
namespace {

using support::at;
using Json = sched::TraceEvents::Json;
using support::cat;

class Bars {
 public:
  explicit Bars(const MeasuredTimeline& measured)
      : measured_(measured), graph_(measured.graph()), schedule_(measured.schedule()) {}

  std::string document(Json about) {
    // Times from 0 on: what comes before a block's first record was predicted alone.
    for (const BlockSpans& block : measured_.blocks)
      if (const auto zero = zero_of(block, 0)) before_ = std::max(before_, -*zero);
    for (std::size_t b = 0; b < measured_.blocks.size(); ++b) {
      const BlockSpans& block = measured_.blocks[b];
      const int process = 2 * static_cast<int>(b) + 1;
      events_.name_process(process, cat("predicted, block ", block.block, ": cycles"));
      events_.name_process(process + 1, cat("measured, block ", block.block, ": ", measured_.unit()));
      for (const RoleSpans& role : block.roles) {
        threads(process, role.role, "issued, result not there yet");
        threads(process + 1, role.role, "issued, not seen complete yet");
        measured(process + 1, role);
        predicted(process, block, role);
      }
    }
    return events_.document(std::move(about));
  }

 private:
  // Two threads a role: what its warps do, and what is under way by itself.
  static int thread_of(int role) { return kFlights * role + 1; }
  static constexpr int kFlights = 16;  // rows for that, as they overlap

  const std::string& role_name(int role) const { return schedule_.roles[at(role)].name; }

  void threads(int process, int role, const char* flights) {
    events_.name_thread(process, thread_of(role), role_name(role));
    flights_[process * 1000 + role] = cat(role_name(role), ": ", flights);
  }
  void event(int process, int thread, const std::string& name, const char* category, std::int64_t begin,
             std::int64_t end, Json arguments) {
    events_.add({process, thread, name, category, begin + before_, end - begin, std::move(arguments)});
  }

  /// Each on the first row that is free, rows named when they are first used.
  void flights(int process, int role, std::vector<sched::Box> boxes) {
    const std::vector<sched::Track> tracks = sched::tracks_of(std::move(boxes));
    for (std::size_t t = 0; t < tracks.size() && t + 1 < at(kFlights); ++t) {
      if (tracks[t].boxes.empty()) continue;
      const int thread = thread_of(role) + 1 + static_cast<int>(t);
      events_.name_thread(process, thread, flights_.at(process * 1000 + role));
      for (const sched::Box& box : tracks[t].boxes)
        event(process, thread, graph_.nodes[at(box.node)].name, "flight", box.begin, box.end,
              {{"iteration", box.iteration}});
    }
  }

  void measured(int process, const RoleSpans& role) {
    std::vector<sched::Box> under_way;
    const auto span_of = [&](const Span& span, std::size_t tile) {
      Json arguments = {{"iteration", span.iteration}, {"tile", tile}};
      if (!span.wait.empty()) {
        if (span.node >= 0) arguments["before"] = graph_.nodes[at(span.node)].name;
        return event(process, thread_of(role.role), "wait: " + span.wait, "wait", span.begin, span.end,
                     std::move(arguments));
      }
      event(process, thread_of(role.role), graph_.nodes[at(span.node)].name, "node", span.begin, span.end,
            std::move(arguments));
      if (span.done >= 0) under_way.push_back(box_of(span.node, span.iteration, span.end, span.done));
    };
    for (std::size_t t = 0; t < role.tiles.size(); ++t)
      for (const Span& span : role.tiles[t].spans) span_of(span, t);
    for (const Span& span : role.after) span_of(span, role.tiles.size());
    flights(process, role.role, std::move(under_way));
  }

  static sched::Box box_of(int node, int iteration, std::int64_t begin, std::int64_t end) {
    sched::Box box;
    box.node = node;
    box.iteration = iteration;
    box.begin = begin;
    box.end = box.issued = end;
    return box;
  }

  /// Each tile's iterations from where its first began.
  void predicted(int process, const BlockSpans& block, const RoleSpans& role) {
    std::vector<sched::Box> under_way;
    for (std::size_t t = 0; t < role.tiles.size(); ++t) {
      const auto known = zero_of(block, t);
      if (!known) continue;
      const std::int64_t zero = *known;
      std::int64_t free = zero;
      for (const sched::Box& box : sched::role_boxes(graph_, schedule_, role.role, 0, role.tiles[t].iterations)) {
        // A role is busy with one node at a time; what the schedule lets begin earlier, warps do in turn.
        const std::int64_t begin = std::max(zero + box.begin, free), issued = std::max(zero + box.issued, begin);
        free = issued;
        event(process, thread_of(role.role), graph_.nodes[at(box.node)].name, "node", begin, issued,
              {{"iteration", box.iteration},
               {"tile", t},
               {"cycle", schedule_.cycle[at(box.node)]},
               {"stage", schedule_.stage(box.node)}});
        if (zero + box.end > issued) under_way.push_back(box_of(box.node, box.iteration, issued, zero + box.end));
      }
    }
    flights(process, role.role, std::move(under_way));
  }

  /// The time of the schedule's cycle 0 of iteration 0, by the anchor; nothing where the anchor was not recorded.
  std::optional<std::int64_t> zero_of(const BlockSpans& block, std::size_t tile) const {
    const int anchor = measured_.comparison.anchor;
    for (const RoleSpans& role : block.roles) {
      if (role.role != schedule_.role[at(anchor)] || tile >= role.tiles.size()) continue;
      for (const Span& span : role.tiles[tile].spans)
        if (span.wait.empty() && span.node == anchor && span.iteration == 0)
          return span.begin - schedule_.cycle[at(anchor)];
    }
    return std::nullopt;
  }

  const MeasuredTimeline& measured_;
  const graph::Graph& graph_;
  const sched::Schedule& schedule_;
  std::map<int, std::string> flights_;
  std::int64_t before_ = 0;
  sched::TraceEvents events_;
};

}  // namespace

std::string timeline_trace(const MeasuredTimeline& measured) {
  const RecordedRun& run = measured.run;
  Json about = {
      {"kernel", run.kernel},
      {"problem", run.problem},
      {"target", run.target},
      {"device", run.device},
      {"ii", measured.schedule().ii},
      {"length", measured.schedule().length},
      {"unit", run.on_model ? "1 us = 1 cycle of the prediction, or 1 step of the CPU model: steps are not cycles"
                            : "1 us = 1 cycle"}};
  std::string meanings;
  for (const std::string& line : bar_meanings(run.on_model)) meanings += (meanings.empty() ? "" : " ") + line;
  about["bars"] = meanings;
  return Bars(measured).document(std::move(about));
}

}  // namespace tj::tools
