// JSON text -> tree, with the limits that a text from anywhere needs.
//
// Decides which text is well-formed here: one JSON document of bounded size, depth and width, no key twice in an
// object. Does not know what the keys mean (json_reader). Invariant: whatever the bytes are, the outcome is a tree or a
// tj::Error.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <tilejit/error.hpp>

#include "support/json.hpp"

namespace tj::graph {

using support::Json;

/// Throws tj::Error(stage, invalid_argument) that starts with `subject` and names the place: "instructions[3].cycles",
/// or line and column.
Json parse_json(std::string_view text, const std::string& subject, Stage stage = Stage::graph);

/// The members of an object that `keeps` wants, by key and value. nlohmann's erase() leaves a broken object where
/// memory runs out.
template <class Keeps>
Json members_kept(Json object, const Keeps& keeps) {
  Json kept = Json::object();
  for (auto member = object.begin(); member != object.end(); ++member)
    if (keeps(member.key(), member.value())) kept[member.key()] = std::move(member.value());
  return kept;
}

}  // namespace tj::graph
