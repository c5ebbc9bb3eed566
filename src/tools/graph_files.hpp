// A user's graph and node bodies that a tool is given: --graph FILE --folder FOLDER.
//
// Decides what such a command line says, and where the bodies are looked for. Runs nothing. Invariant: a mistake in the
// file is bad use that names the flag and the path.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>

#include "graph_op.hpp"

namespace CLI {
class App;
}

namespace tj::tools {

struct GraphFiles {
  std::string graph, folder;  ///< paths; a folder that is left out is that of the graph

  bool given() const { return !graph.empty(); }
  std::string flags() const;  ///< "--graph gemm.json --folder bodies", as they were given
};

/// Adds both flags to a tool's options. what: "is tried", behind "whose kernel".
void add_graph_options(CLI::App& app, GraphFiles& files, const std::string& what);
/// Reads both. Throws tj::Error(argument).
custom::Description read_graph_files(const char* tool, const GraphFiles& files, std::ostream& err);
/// What was read, as an op of its trials. A pipe can be read once. Throws tj::Error(argument).
std::unique_ptr<GraphOp> graph_op_of(const custom::Description& description, const GraphFiles& files);
/// Both of these of its trials. Throws tj::Error(argument).
std::unique_ptr<GraphOp> read_graph_op(const char* tool, const GraphFiles& files, std::ostream& err);

}  // namespace tj::tools
