// Texts for other languages that describe this library, the devices it finds here, and machines that have names; and
// the folders that such a language knows.
#pragma once

#include <string>

#include <tilejit/graph.hpp>

namespace tj {

/// A JSON object: version, build_id, file, cache_dir, nvrtc, targets (tilejit.h says what they are). Opens nothing.
/// Throws tj::Error(argument) for a bad variable of the environment.
std::string description();

/// Names a folder of packages in which NVRTC's wheel may lie, behind the library's own and LD_LIBRARY_PATH.
void add_packages_folder(const std::string& folder);

/// The description of a graph's machine as a JSON object, by the keys of src/graph/README.md. Throws tj::Error(graph)
/// for a name that no machine has.
std::string machine_json(const Graph& graph);

}  // namespace tj
