// Graphs of users over the C boundary: JSON in, a text out; and the library's description of itself.
//
// Decides which texts can be asked for. Decides nothing about graphs and schedules (custom/schedule.cpp). Invariant: as
// c_api.cpp.
#include <tilejit/tilejit.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tilejit/graph.hpp>
#include <tilejit/graph_examples.hpp>

#include "api/c_errors.hpp"
#include "description.hpp"
#include "support/c_structs.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace {

using tj::support::cat;
using tj::support::c_structs::refuse;

std::string verified(const tj::Schedule& schedule) {
  std::string lines;
  for (const std::string& violation : schedule.verify()) lines += violation + "\n";
  return lines;
}

template <class Subject>
struct Format {
  std::string_view name;
  std::string (*write)(const Subject&);
};

constexpr Format<tj::Schedule> kSchedules[] = {{"json", [](const tj::Schedule& s) { return s.json(); }},
                                               {"text", [](const tj::Schedule& s) { return s.text(); }},
                                               {"svg", [](const tj::Schedule& s) { return s.svg(); }},
                                               {"trace", [](const tj::Schedule& s) { return s.trace(); }},
                                               {"verify", verified}};
constexpr Format<tj::Graph> kGraphs[] = {{"json", [](const tj::Graph& g) { return g.json(); }},
                                         {"text", [](const tj::Graph& g) { return g.text(); }},
                                         {"machine", tj::machine_json},
                                         {"resolved", [](const tj::Graph& g) { return g.resolved().json(); }}};

/// The first one for null.
template <class Subject>
const Format<Subject>& format_of(std::span<const Format<Subject>> formats, const char* wanted) {
  if (wanted == nullptr) return formats.front();
  std::string names;
  for (const Format<Subject>& each : formats) {
    if (each.name == wanted) return each;
    names += std::string(each.name) + ", ";
  }
  refuse(cat("format is '", tj::support::shown(wanted), "'; allowed: ", names, "or null for ", formats.front().name));
}

using tj::support::PerThread;

/// *out lives as long as `place` keeps it.
void give(PerThread<std::string>& place, std::string text, const char** out) {
  std::string& kept = place.get();
  kept = std::move(text);
  *out = kept.c_str();
}

}  // namespace

extern "C" tj_status tj_schedule(const char* graph_json, const char* options_json, const char* format,
                                 const char** out) {
  return tj::c_api::guarded([&] {
    tj::c_api::need(out, "out");
    *out = nullptr;
    if (graph_json == nullptr) refuse("graph_json is null; allowed: the JSON text of a graph");
    const auto& form = format_of<tj::Schedule>(kSchedules, format);
    const tj::Graph graph = tj::Graph::parse(graph_json);
    const auto options = tj::ScheduleOptions::parse(options_json ? options_json : "", graph.options);
    const tj::Schedule made = tj::schedule(graph, options);
    thread_local constinit PerThread<std::string> place;
    give(place, form.write(made), out);
  });
}

extern "C" tj_status tj_graph(const char* graph_json, const char* format, const char** out) {
  return tj::c_api::guarded([&] {
    tj::c_api::need(out, "out");
    *out = nullptr;
    if (graph_json == nullptr) refuse("graph_json is null; allowed: the JSON text of a graph");
    const auto& form = format_of<tj::Graph>(kGraphs, format);
    thread_local constinit PerThread<std::string> place;
    give(place, form.write(tj::Graph::parse(graph_json)), out);
  });
}

extern "C" tj_status tj_graph_resolved(const char* graph_json, const char* target, const char* candidate,
                                       const char** out) {
  return tj::c_api::guarded([&] {
    tj::c_api::need(out, "out");
    *out = nullptr;
    if (graph_json == nullptr) refuse("graph_json is null; allowed: the JSON text of a graph");
    const tj::Graph graph = tj::Graph::parse(graph_json);
    thread_local constinit PerThread<std::string> place;
    give(place, graph.resolved(target ? target : "", candidate ? candidate : "").json(), out);
  });
}

extern "C" tj_status tj_graph_example(const char* name, const char* parameters_json, const char** out) {
  return tj::c_api::guarded([&] {
    tj::c_api::need(out, "out");
    *out = nullptr;
    if (name == nullptr) refuse("name is null; allowed: a name, such as fa_hopper");
    const tj::GraphExample parameters = tj::GraphExample::parse(parameters_json ? parameters_json : "");
    thread_local constinit PerThread<std::string> place;
    give(place, tj::example_graph(name, parameters).json(), out);
  });
}

extern "C" tj_status tj_describe(const char** out) {
  return tj::c_api::guarded([&] {
    tj::c_api::need(out, "out");
    *out = nullptr;
    thread_local constinit PerThread<std::string> place;
    give(place, tj::description(), out);
  });
}
