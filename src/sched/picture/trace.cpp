// Trace events of a picture's boxes (see trace.hpp).
#include "sched/picture/trace.hpp"

#include <utility>

#include "sched/picture/picture.hpp"
#include "sched/picture/tiles.hpp"
#include "sched/picture/trace_events.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;
using Json = TraceEvents::Json;
using support::cat;

class Bars {
 public:
  Bars(const graph::Graph& graph, const Schedule& schedule) : graph_(graph), schedule_(schedule) {}

  void add(const View& view, int process, const std::string& name) {
    events_.name_process(process, name);
    int thread = 0;
    for (const Row& row : view.rows)
      for (std::size_t track = 0; track < row.tracks.size(); ++track) {
        ++thread;
        events_.name_thread(process, thread, track == 0 ? row.name : cat(row.name, " (", track + 1, ")"));
        for (const Box& box : row.tracks[track].boxes)
          if (box.begin >= 0 && box.begin < view.window)
            event(box, process, thread);  // an earlier one repeats within the window
      }
  }

  std::string document() {
    return events_.document({{"graph", graph_.name},
                             {"machine", graph_.machine.name},
                             {"ii", schedule_.ii},
                             {"length", schedule_.length},
                             {"unit", "1 us = 1 cycle"}});
  }

 private:
  void event(const Box& box, int process, int thread) {
    Json arguments = {{"iteration", box.iteration}};
    std::string name = box.label;
    if (box.node >= 0) {
      name = graph_.nodes[at(box.node)].name;
      arguments["cycle"] = schedule_.cycle[at(box.node)];
      arguments["stage"] = schedule_.stage(box.node);
      arguments["role"] = schedule_.roles[at(schedule_.role[at(box.node)])].name;
      arguments["instances"] = box.count;
      arguments["issued_cycles"] = box.issued - box.begin;
    }
    events_.add({process, thread, std::move(name), "", box.begin, box.end - box.begin, std::move(arguments)});
  }

  const graph::Graph& graph_;
  const Schedule& schedule_;
  TraceEvents events_;
};

}  // namespace

std::string to_trace(const graph::Graph& graph, const Schedule& schedule) {
  const Picture picture = make_picture(graph, schedule);
  Bars bars(graph, schedule);
  bars.add(picture.steady, 1, "steady state: units");
  bars.add(picture.unrolled, 2, "first iterations: roles");
  if (const auto tiles = make_tile_picture(graph, schedule))
    bars.add(tile_view(*tiles, graph), 3, cat("tiles of ", tiles->iterations, " iterations: roles"));
  return bars.document();
}

}  // namespace tj::sched
