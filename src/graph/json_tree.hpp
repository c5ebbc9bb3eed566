// JSON text -> tree, with the limits that a text from anywhere needs.
//
// Decides which text is well-formed here: one JSON document of bounded size, depth and width, no key twice in an
// object. Does not know what the keys mean (json_reader). Invariant: whatever the bytes are, the outcome is a tree or a
// tj::Error.
#pragma once

#include <string>
#include <string_view>

#include <tilejit/error.hpp>

#include "support/json.hpp"

namespace tj::graph {

using support::Json;

/// Throws tj::Error(stage, invalid_argument) that starts with `subject` and names the place: "instructions[3].cycles",
/// or line and column.
Json parse_json(std::string_view text, const std::string& subject, Stage stage = Stage::graph);

}  // namespace tj::graph
