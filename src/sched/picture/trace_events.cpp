// Trace events as JSON (see trace_events.hpp).
#include "sched/picture/trace_events.hpp"

#include <utility>

namespace tj::sched {

void TraceEvents::name_process(int process, const std::string& name) {
  metadata("process_name", process, 0, {{"name", name}});
}

void TraceEvents::name_thread(int process, int thread, const std::string& name) {
  metadata("thread_name", process, thread, {{"name", name}});
  metadata("thread_sort_index", process, thread, {{"sort_index", thread}});
}

void TraceEvents::metadata(const char* kind, int process, int thread, Json arguments) {
  list_.push_back({{"name", kind}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", std::move(arguments)}});
}

void TraceEvents::add(Event event) {
  Json written = {{"name", std::move(event.name)}};
  if (!event.category.empty()) written["cat"] = std::move(event.category);
  written["ph"] = "X";
  written["pid"] = event.process;
  written["tid"] = event.thread;
  written["ts"] = event.begin;
  written["dur"] = event.duration;
  written["args"] = std::move(event.arguments);
  list_.push_back(std::move(written));
}

std::string TraceEvents::document(Json about) {
  Json out;
  out["displayTimeUnit"] = "ns";
  out["otherData"] = std::move(about);
  out["traceEvents"] = std::exchange(list_, Json::array());
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tj::sched
