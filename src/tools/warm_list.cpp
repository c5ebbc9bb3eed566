// The cache as a table or as JSON.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <ostream>

#include "artifact.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text.hpp"
#include "tools/warm.hpp"
#include "tuning/tunings.hpp"

namespace tj::tools {
namespace {

using support::Json;

std::string size_text(std::uint64_t bytes) {
  char text[32];
  if (bytes < 1024)
    std::snprintf(text, sizeof text, "%llu B", static_cast<unsigned long long>(bytes));
  else if (bytes < 1024 * 1024)
    std::snprintf(text, sizeof text, "%.1f KiB", static_cast<double>(bytes) / 1024);
  else
    std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1024 * 1024));
  return text;
}

/// UTC, so that two machines print the same.
std::string time_text(std::int64_t ns) {
  const std::time_t seconds = ns / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%SZ", &parts);
  return text;
}

std::string metadata(const cache::ListedEntry& entry, const char* name) {
  const std::string* value = entry.entry ? entry.entry->find(name) : nullptr;
  return value ? support::shown(*value) : "?";
}

/// A kernel's name, or what a record of a measurement says.
std::string title(const cache::ListedEntry& entry) {
  const std::string tuning = entry.entry ? tuning_of(*entry.entry) : std::string();
  return tuning.empty() ? metadata(entry, "name") : support::shown(tuning, 200);
}

/// layers: how many there are; of several, a column names the one of each entry by its number.
void print_table(const std::vector<cache::ListedEntry>& entries, std::size_t layers, std::ostream& out) {
  std::size_t name_width = 4, target_width = 6;
  for (const cache::ListedEntry& e : entries) {
    if (!e.entry) continue;
    name_width = std::max(name_width, title(e).size());
    target_width = std::max(target_width, metadata(e, "target").size());
  }
  const auto row = [&](std::string name, std::string target, const std::string& size, const std::string& use,
                       const std::string& layer) {
    name.resize(std::max(name_width, name.size()), ' ');
    target.resize(std::max(target_width, target.size()), ' ');
    out << name << "  " << target << "  " << std::string(size.size() < 10 ? 10 - size.size() : 0, ' ') << size << "  "
        << use << (layers > 1 ? "  " + layer : "") << '\n';
  };
  row("name", "target", "size", "last use (UTC)", layers > 1 ? "      layer" : "");
  for (const cache::ListedEntry& e : entries)
    if (e.entry)
      row(title(e), metadata(e, "target"), size_text(e.bytes), time_text(e.last_use_ns), std::to_string(e.layer + 1));
}

Json to_json(const cache::ListedEntry& e, std::size_t layers) {
  Json json = {{"path", e.path}, {"bytes", e.bytes}, {"last_use", time_text(e.last_use_ns)}, {"damaged", !e.entry}};
  if (layers > 1) json["layer"] = e.layer + 1;
  if (e.entry) {
    json["name"] = metadata(e, "name");
    json["target"] = metadata(e, "target");
    if (!tuning_of(*e.entry).empty()) {
      json["device"] = metadata(e, "device");
      json["choice"] = metadata(e, "choice");
    }
  } else {
    json["problem"] = e.problem;
  }
  return json;
}

/// Entries with their verdict. One that the cache finds whole is damaged all the same when no kernel can be in it.
/// Whole aliases are counted and left out.
std::vector<cache::ListedEntry> judged_entries(const cache::Store& store, std::string& problem, std::size_t& aliases) {
  std::vector<cache::ListedEntry> entries = store.list(&problem);
  aliases = std::erase_if(
      entries, [](const cache::ListedEntry& e) { return e.alias && e.entry && !cache::aliased(*e.entry).empty(); });
  for (cache::ListedEntry& e : entries) {
    if (!e.entry || !tuning_of(*e.entry).empty()) continue;
    e.problem = entry_problem(*e.entry);
    if (!e.problem.empty()) e.entry.reset();
  }
  return entries;
}

}  // namespace

void say_unusable(const std::string& directory, const std::string& problem, std::ostream& err) {
  err << "tj-warm: the cache at '" << support::shown_path(directory)
      << "' cannot be looked at: " << support::one_line(problem)
      << ". Give --cache-dir, or TJ_CACHE_DIR, the folder that kernels are kept in; tj-warm makes and fills it\n";
}

support::Json to_json(const std::vector<cache::LayerState>& layers) {
  Json list = Json::array();
  for (const cache::LayerState& layer : layers) {
    list.push_back({{"directory", layer.directory}, {"written", layer.written}});
    if (layer.pack) list.back()["pack"] = true;
    if (!layer.problem.empty()) list.back()["problem"] = layer.problem;
  }
  return list;
}

void print_layers(const std::vector<cache::LayerState>& layers, std::ostream& out) {
  if (layers.size() < 2) return;
  for (std::size_t i = 0; i < layers.size(); ++i)
    out << "layer " << i + 1 << ": " << support::one_line(layers[i].directory)
        << (!layers[i].problem.empty() ? ", left out: " + support::one_line(layers[i].problem)
            : layers[i].written        ? ", written"
            : layers[i].pack           ? ", a pack"
                                       : ", only searched")
        << '\n';
}

int list_cache(const support::Settings& settings, bool damaged_only, bool json, std::ostream& out, std::ostream& err) {
  std::string problem;
  const std::string& directory = settings.cache_dir;
  const cache::Store store(directory, 0, {}, settings.pack_keys);
  const std::vector<cache::LayerState> layers = store.layers();
  std::size_t aliases = 0;
  const std::vector<cache::ListedEntry> entries = judged_entries(store, problem, aliases);
  std::uint64_t bytes = 0;
  std::size_t damaged = 0, tuned = 0;
  for (const cache::ListedEntry& e : entries) {
    bytes += e.bytes;
    damaged += e.entry ? 0 : 1;
    tuned += e.entry && !tuning_of(*e.entry).empty() ? 1 : 0;
  }
  const std::size_t kernels = entries.size() - damaged - tuned;
  if (json) {
    Json list = Json::array();
    for (const cache::ListedEntry& e : entries)
      if (!damaged_only || !e.entry) list.push_back(to_json(e, layers.size()));
    Json document = {{"cache_dir", directory}, {"kernels", kernels}, {"tuned", tuned}, {"damaged", damaged},
                     {"bytes", bytes},         {"aliases", aliases}, {"entries", list}};
    if (layers.size() > 1) document["layers"] = to_json(layers);
    if (!problem.empty()) document["problem"] = problem;
    // Metadata comes from files: what is no UTF-8 is replaced, not thrown about.
    out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else if (problem.empty() || !entries.empty()) {
    if (!damaged_only && entries.size() > damaged) print_table(entries, layers.size(), out);
    for (const cache::ListedEntry& e : entries)
      if (!e.entry) out << "damaged: " << support::one_line(e.path) << ": " << support::one_line(e.problem) << '\n';
    out << kernels << " kernels, " << damaged << " damaged, "
        << (tuned > 0 ? support::cat(tuned, " measured choices, ") : "") << size_text(bytes) << " in "
        << support::one_line(directory) << '\n';
    print_layers(layers, out);
  }
  if (!problem.empty()) say_unusable(directory, problem, err);
  return damaged > 0 || !problem.empty() ? kExitFailures : kExitOk;
}

}  // namespace tj::tools
