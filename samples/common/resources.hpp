// Files that a sample reads when it runs: graphs, node bodies.
//
// Decides where they lie, both in a build and where samples are installed: in share/tilejit/samples/<sample> beside the
// program's folder. Invariant: the place follows the program when the tree is moved.
#pragma once

#include <string>

namespace tj::samples {

/// The folder of a sample's files. Throws tj::Error(argument, not_found) that names it when it is not there.
std::string resources(const std::string& sample);
/// The text of one of its files. Throws tj::Error(argument, io) that names it where it cannot be read.
std::string resource_text(const std::string& sample, const std::string& file);

}  // namespace tj::samples
