// A document of trace events, as Perfetto and chrome://tracing read it.
//
// Decides how an event, a process and a thread are written. Does not decide what becomes an event (trace.cpp, and
// whoever measures). Invariant: threads are shown in the order of their numbers; text that is not UTF-8 is replaced,
// never refused.
#pragma once

#include <cstdint>
#include <string>

#include "support/json.hpp"

namespace tj::sched {

class TraceEvents {
 public:
  using Json = support::Json;

  /// The name of a process, or of a thread of it.
  void name_process(int process, const std::string& name);
  void name_thread(int process, int thread, const std::string& name);

  /// A bar. An empty category is left out.
  struct Event {
    int process = 0, thread = 0;
    std::string name, category;
    std::int64_t begin = 0, duration = 0;  ///< microseconds
    Json arguments;
  };
  void add(Event event);

  /// The whole document, with what else is worth knowing about it; the events are gone from here afterwards.
  std::string document(Json about);

 private:
  void metadata(const char* kind, int process, int thread, Json arguments);

  Json list_ = Json::array();
};

}  // namespace tj::sched
