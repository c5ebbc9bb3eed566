// The text of a graph that says more than one graph does: expressions, parameters, candidates, targets, options.
//
// Decides its layout: a line for each instruction, value, edge and candidate, without members that have their defaults.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "custom/document.hpp"
#include "custom/graph_document.hpp"
#include "support/fail.hpp"

namespace tj {
namespace {

using graph::Json;
using support::cat;

/// Members that have their defaults are left out.
void drop_usual(Json& json, const Json& usual) {
  constexpr std::string_view kNeeded[] = {"name",  "cycles", "src", "dst",     "delay",  "slot_bytes", "dtype",
                                          "shape", "kind",   "of",  "tensors", "params", "blocks"};
  json = graph::members_kept(std::move(json), [&](const std::string& key, const Json& value) {
    const auto found = usual.find(key);
    return found == usual.end() || *found != value ||
           std::find(std::begin(kNeeded), std::end(kNeeded), key) != std::end(kNeeded);
  });
}

void drop_usual_of_trials(Json& trials, Graph least) {
  least.trials.resize(1);
  least.trials[0].tensors.resize(1);
  least.trials[0].params.resize(1);
  const Json usual = document_json(least)["trials"][0];
  for (Json& trial : trials) {
    drop_usual(trial, usual);
    for (const char* list : {"tensors", "params"})
      for (Json& each : trial[list]) drop_usual(each, usual[list][0]);
  }
}

/// Does it say more than one graph?
bool says_more(const Json& json) {
  for (const char* key :
       {"options", "targets", "parameters", "candidates", "trials", "typical_iterations", "useful_flops"})
    if (json.contains(key)) return true;
  if (json.contains("code") && json["code"].contains("definitions")) return true;
  const auto has_text = [](std::string_view list, const Json& object) {
    for (const auto& [key, value] : object.items()) {
      if (value.is_string() && may_be_expression(list, key)) return true;
      if (key == "memory" && value.is_object())
        for (const auto& [space, bytes] : value.items())
          if (bytes.is_string()) return true;
    }
    return false;
  };
  if (has_text("", json)) return true;
  for (const char* list : {"instructions", "values", "edges"})
    if (const auto found = json.find(list); found != json.end())
      for (const Json& each : *found)
        if (has_text(list, each)) return true;
  return false;
}

std::string line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string text_of_document(const Graph& graph) {
  Graph least;
  least.machine.name = "none";
  least.instructions.resize(1);
  least.edges.resize(1);
  least.values.resize(1);
  if (graph.code) least.code = Graph::Code();
  const Json usual = document_json(least);
  Json json = document_json(graph);
  drop_usual(json, usual);
  for (const char* list : {"instructions", "values", "edges"})
    if (const auto found = json.find(list); found != json.end())
      for (Json& each : *found) drop_usual(each, usual[list][0]);
  if (const auto trials = json.find("trials"); trials != json.end()) drop_usual_of_trials(*trials, std::move(least));
  for (const char* part : {"options", "code"})
    if (const auto found = json.find(part); found != json.end()) drop_usual(*found, usual[part]);
  json = graph::members_kept(
      std::move(json), [](const std::string& key, const Json& value) { return key != "options" || !value.empty(); });
  if (!says_more(json)) return {};
  std::string out = "{";
  for (const auto& [key, value] : json.items()) {
    out += cat(out.size() == 1 ? "\n  " : ",\n  ", line(key), ": ");
    const bool lines = value.is_array() && !value.empty() && value[0].is_object();
    if (!lines) {
      out += line(value);
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i) out += cat(i == 0 ? "[\n    " : ",\n    ", line(value[i]));
    out += "\n  ]";
  }
  return out + "\n}\n";
}

}  // namespace tj
