// Looking at a cache without changing it.
//
// Decides what is said of layers and entries to those who ask. Invariant: no entry counts as used by it, and the log
// has no word of it.
#include <algorithm>
#include <utility>

#include "cache/directory.hpp"
#include "cache/format.hpp"
#include "cache/layers.hpp"
#include "cache/store_impl.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"

namespace tj::cache {
namespace {

/// Keeps the first problem that there is.
void note(std::string& first, std::string problem) {
  if (first.empty()) first = std::move(problem);
}

std::optional<Entry> look_packed(const Layer& layer, const PackRecord& record, std::string* problem) {
  Rejection why{};
  const auto bytes = read_packed(layer.opened.get(), record, problem, &why);
  return bytes ? decode(*bytes, &record.key, problem) : std::nullopt;
}

}  // namespace

std::vector<LayerState> Store::layers() const {
  std::vector<LayerState> states;
  for (Layer& layer : impl_->look_at_layers())
    states.push_back({std::move(layer.directory), layer.written, layer.pack != nullptr, std::move(layer.problem)});
  return states;
}

std::optional<Entry> Store::Impl::look(const Layer& layer, const Key& key, std::string* problem) const {
  if (!layer.opened) return std::nullopt;
  if (layer.pack)
    return find_packed(*layer.pack, key, {},
                       [&](const PackRecord& record) { return look_packed(layer, record, problem); });
  return find_entry(layer.opened.get(), key, {},
                    [&](const std::string& name, const Key& exact) -> std::optional<Entry> {
                      const auto file = read_file(layer.opened.get(), name, kAdmission, problem);
                      return file ? decode(file->bytes, &exact, problem) : std::nullopt;
                    });
}

std::optional<Entry> Store::Impl::look(const std::vector<Layer>& layers, const Key& key, std::string* problem,
                                       Served served) const {
  std::string first = directories.empty() ? kNoDirectory : "";
  for (const Layer& layer : layers) {
    std::string own;
    if (auto entry = look(layer, key, &own)) return entry;
    note(first, problem_in(layer, own, layers.size()));
  }
  for (const Layer& layer : layers) {
    std::string own;
    if (!layer.pack || !asks_packs_again(key, served)) continue;
    if (auto entry = look(layer, {key.request_hex, {}}, &own)) return entry;
    note(first, problem_in(layer, own, layers.size()));
  }
  *problem = std::move(first);
  return std::nullopt;
}

std::optional<Entry> Store::look(const Key& key, std::string* problem, Served served) const {
  problem->clear();
  if (!is_well_formed(key)) return std::nullopt;
  return impl_->look(impl_->look_at_layers(), key, problem, served);
}

std::optional<Entry> Store::look_aliased(const Key& key, std::string* problem, Served served) const {
  problem->clear();
  if (!is_well_formed(key)) return std::nullopt;
  const std::vector<Layer> layers = impl_->look_at_layers();
  std::string first = impl_->directories.empty() ? kNoDirectory : "";
  for (const Layer& layer : layers) {
    std::string own;
    const auto alias = impl_->look(layer, alias_key(key.request_hex), &own);
    const std::string named = alias ? aliased(*alias) : std::string();
    if (!named.empty())
      if (auto entry = impl_->look(layers, {named, key.compiler_hex}, &own, served)) return entry;
    note(first, alias ? own : problem_in(layer, own, layers.size()));
  }
  *problem = std::move(first);
  return std::nullopt;
}

std::string Store::cannot_keep() const {
  if (impl_->directories.empty()) return kNoDirectory;
  const std::vector<Layer> layers = open_layers(impl_->directories, WhenMissing::make, impl_->packs);
  const Layer* const layer = layer_to_write(layers);
  if (layer == nullptr) {
    if (!impl_->several())
      return layers.front().problem.empty() ? "it is a pack, which is only read" : layers.front().problem;
    std::string all = "no layer can be written";
    for (const Layer& each : layers)
      all += support::cat(&each == &layers.front() ? ": " : "; ",
                          problem_in(each, each.problem.empty() ? "it can only be read" : each.problem, layers.size()));
    return all;
  }
  support::AtomicFile file(layer->opened.get(), "a first entry", 0600);  // never committed
  file.write("a few bytes, as a full disk makes empty files too");
  return problem_in(*layer, file.problem(), layers.size());
}

std::vector<ListedEntry> Store::list(std::string* problem) const {
  std::vector<ListedEntry> listed;
  std::string first = impl_->directories.empty() ? kNoDirectory : "";
  const std::vector<Layer> layers = impl_->look_at_layers();
  for (std::size_t at = 0; at < layers.size(); ++at) {
    const Layer& layer = layers[at];
    std::string own = layer.problem;
    if (!layer.opened && own.empty() && !impl_->several()) own = "it does not exist";
    for (const PackRecord& record : layer.records()) {
      ListedEntry& item = listed.emplace_back();
      item.path = layer.directory + "/" + file_name(record.key);
      item.layer = at;
      item.alias = is_alias(record.key);
      item.bytes = record.bytes;
      item.entry = look_packed(layer, record, &item.problem);
    }
    const auto files =
        layer.opened && !layer.pack ? entry_files(layer.opened.get(), nullptr, &own) : std::vector<FileInfo>();
    note(first, problem_in(layer, own, layers.size()));
    for (const FileInfo& info : files) {
      ListedEntry item;
      item.path = layer.directory + "/" + info.name;
      item.layer = at;
      item.bytes = info.bytes;
      item.last_use_ns = info.last_use_ns;
      Key key;
      parse_file_name(info.name, &key);
      item.alias = is_alias(key);
      if (auto file = read_file(layer.opened.get(), info.name, kAdmission, &item.problem)) {
        item.entry = decode(file->bytes, &key, &item.problem);
      } else if (item.problem.empty()) {
        continue;  // evicted since
      }
      listed.push_back(std::move(item));
    }
  }
  if (problem != nullptr) *problem = std::move(first);
  std::sort(listed.begin(), listed.end(), [](const ListedEntry& a, const ListedEntry& b) {
    return a.last_use_ns != b.last_use_ns ? a.last_use_ns > b.last_use_ns : a.path < b.path;
  });
  return listed;
}

}  // namespace tj::cache
