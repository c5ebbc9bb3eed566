// Graphs of users over the C boundary: JSON in, a text out.
//
// Decides which texts can be asked for. Decides nothing about graphs and schedules (custom/schedule.cpp). Invariant: as
// c_api.cpp.
#include <tilejit/tilejit.h>

#include <string>
#include <string_view>

#include <tilejit/graph.hpp>

#include "api/c_errors.hpp"
#include "support/c_structs.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace {

using tj::support::cat;
using tj::support::c_structs::refuse;

using Writer = std::string (tj::Schedule::*)() const;

Writer writer_of(const char* format) {
  const std::string_view name = format != nullptr ? format : "json";
  if (name == "json") return &tj::Schedule::json;
  if (name == "text") return &tj::Schedule::text;
  if (name == "svg") return &tj::Schedule::svg;
  if (name == "trace") return &tj::Schedule::trace;
  refuse(cat("format is '", tj::support::shown(name), "'; allowed: json, text, svg, trace, or null for json"));
}

}  // namespace

extern "C" tj_status tj_schedule(const char* graph_json, const char* options_json, const char* format,
                                 const char** out) {
  return tj::c_api::guarded([&] {
    tj::c_api::need(out, "out");
    *out = nullptr;
    if (graph_json == nullptr) refuse("graph_json is null; allowed: the JSON text of a graph");
    const Writer write = writer_of(format);
    const tj::Graph graph = tj::Graph::parse(graph_json);
    const tj::Schedule made = tj::schedule(graph, tj::ScheduleOptions::parse(options_json ? options_json : ""));
    thread_local constinit tj::support::PerThread<std::string> place;
    std::string& kept = place.get();
    kept = (made.*write)();
    *out = kept.c_str();
  });
}
