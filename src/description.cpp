// See description.hpp.
#include "description.hpp"

#include "arch/arch.hpp"
#include "compile/backends.hpp"
#include "compile/library_search.hpp"
#include "custom/graph_document.hpp"
#include "support/environment.hpp"
#include "support/json.hpp"
#include "support/version.hpp"

namespace tj {

std::string description() {
  using support::Json;
  const std::string nvrtc = compile::make_nvrtc()->identity().path;
  Json out;
  out["version"] = support::kVersion;
  out["build_id"] = support::kBuildId;
  out["file"] = compile::own_file();
  out["cache_dir"] = support::resolve_settings({}).cache_dir;
  out["nvrtc"] = nvrtc.empty() ? Json() : Json(nvrtc);
  out["targets"] = Json::array();
  for (const arch::Arch* each : arch::all()) out["targets"].push_back(each->name);
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

void add_packages_folder(const std::string& folder) { compile::add_packages_folder(folder); }

std::string machine_json(const Graph& graph) {
  Graph only;
  only.machine = graph.machine.name.empty() ? graph.machine : Graph::Machine::described(graph.machine.name);
  return support::Json::parse(to_document(only)).at("machine").dump();
}

}  // namespace tj
