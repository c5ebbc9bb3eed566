// See graph_files.hpp.
#include "tools/graph_files.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "graph/json_reader.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"
#include "tools/documents.hpp"
#include "tools/input_file.hpp"
#include "tools/options.hpp"

namespace tj::tools {

using support::cat;

std::string GraphFiles::flags() const { return cat("--graph ", graph, folder.empty() ? "" : " --folder ", folder); }

void add_graph_options(CLI::App& app, GraphFiles& files, const std::string& what) {
  auto* graph = app.add_option("--graph", files.graph,
                               cat("a JSON file with a graph of your own, whose kernel ", what, " by its trials (",
                                   document("src/graph/README.md"), ")"))
                    ->check(no_flag);
  app.add_option("--folder", files.folder, "the folder with the node bodies of --graph (default: that of the file)")
      ->check(no_flag)
      ->needs(graph);
}

custom::Description read_graph_files(const char* tool, const GraphFiles& files, std::ostream& err) {
  const std::filesystem::path path = files.graph;
  custom::Description description;
  description.graph = read_input_file({tool, "--graph", files.graph, "give a JSON file"}, graph::kMaxTextBytes, err);
  description.name = path.stem().string();
  description.folder = !files.folder.empty()    ? files.folder
                       : path.has_parent_path() ? path.parent_path().string()
                                                : ".";
  return description;
}

std::unique_ptr<GraphOp> read_graph_op(const char* tool, const GraphFiles& files, std::ostream& err) {
  return graph_op_of(read_graph_files(tool, files, err), files);
}

std::unique_ptr<GraphOp> graph_op_of(const custom::Description& description, const GraphFiles& files) {
  try {
    return std::make_unique<GraphOp>(description);
  } catch (const Error& e) {
    bad_use(cat("--graph ", support::shown_path(files.graph), ": ", e.message));
  }
}

}  // namespace tj::tools
