// Trace events of a picture's boxes (see trace.hpp).
#include "sched/trace.hpp"

#include <nlohmann/json.hpp>

#include "sched/picture.hpp"
#include "support/fail.hpp"

namespace tj::sched {
namespace {

using Json = nlohmann::ordered_json;
using support::cat;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Events {
 public:
  Events(const graph::Graph& graph, const Schedule& schedule) : graph_(graph), schedule_(schedule) {}

  void add(const View& view, int process, const std::string& name) {
    metadata("process_name", process, 0, name);
    int thread = 0;
    for (const Row& row : view.rows)
      for (std::size_t track = 0; track < row.tracks.size(); ++track) {
        ++thread;
        metadata("thread_name", process, thread, track == 0 ? row.name : cat(row.name, " (", track + 1, ")"));
        list_.push_back({{"name", "thread_sort_index"},
                         {"ph", "M"},
                         {"pid", process},
                         {"tid", thread},
                         {"args", {{"sort_index", thread}}}});
        for (const Box& box : row.tracks[track].boxes)
          if (box.begin >= 0 && box.begin < view.window)
            event(box, process, thread);  // an earlier one repeats within the window
      }
  }

  Json take() { return std::move(list_); }

 private:
  void metadata(const char* kind, int process, int thread, const std::string& name) {
    list_.push_back({{"name", kind}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
  }

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
    list_.push_back({{"name", name},
                     {"ph", "X"},
                     {"pid", process},
                     {"tid", thread},
                     {"ts", box.begin},
                     {"dur", box.end - box.begin},
                     {"args", arguments}});
  }

  const graph::Graph& graph_;
  const Schedule& schedule_;
  Json list_ = Json::array();
};

}  // namespace

std::string to_trace(const graph::Graph& graph, const Schedule& schedule) {
  const Picture picture = make_picture(graph, schedule);
  Events events(graph, schedule);
  events.add(picture.steady, 1, "steady state: units");
  events.add(picture.unrolled, 2, "first iterations: roles");
  Json out;
  out["displayTimeUnit"] = "ns";
  out["otherData"] = {{"graph", graph.name},
                      {"machine", graph.machine.name},
                      {"ii", schedule.ii},
                      {"length", schedule.length},
                      {"unit", "1 us = 1 cycle"}};
  out["traceEvents"] = events.take();
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tj::sched
