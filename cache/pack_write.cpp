// A pack of what a cache has.
//
// Decides which entries are packed: those that are whole, the first layer's where several have one. Invariant: equal
// entries are equal bytes, by whomever and whenever they are packed.
#include <fcntl.h>
#include <sys/stat.h>

#include <map>
#include <utility>

#include "cache/directory.hpp"
#include "cache/format.hpp"
#include "cache/layers.hpp"
#include "cache/pack_format.hpp"
#include "cache/store_impl.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"

namespace tj::cache {
namespace {

using support::cat;

/// The names of all entries, each with its layer and, in a pack, its record.
struct Place {
  const Layer* layer = nullptr;
  const PackRecord* record = nullptr;
};

/// Tells of folders that cannot be read.
std::map<std::string, Place> places_of(const std::vector<Layer>& layers, PackReport& report) {
  std::map<std::string, Place> places;
  for (const Layer& layer : layers) {
    if (layer.pack)
      for (const PackRecord& record : layer.pack->records)
        places.try_emplace(file_name(record.key), Place{&layer, &record});
    else if (layer.opened) {
      Key key;
      std::string problem;
      for (const std::string& name : list_names(layer.opened.get(), &problem))
        if (parse_file_name(name, &key)) places.try_emplace(name, Place{&layer, nullptr});
      if (!problem.empty()) report.left_out.emplace_back(layer.directory, problem);
    }
  }
  return places;
}

/// The entry's bytes, when they are whole and those of its name.
std::optional<std::string> bytes_of(const std::string& name, const Place& place, std::string* problem) {
  Key key;
  parse_file_name(name, &key);
  std::optional<std::string> bytes;
  Rejection why{};
  if (place.record != nullptr)
    bytes = read_packed(place.layer->opened.get(), *place.record, problem, &why);
  else if (auto file = read_file(place.layer->opened.get(), name, kAdmission, problem))
    bytes = std::move(file->bytes);
  if (bytes && !decode(*bytes, &key, problem)) bytes.reset();
  return bytes;
}

}  // namespace

PackReport Store::pack(const std::string& path, const support::SecretKey* secret) const {
  PackReport report;
  const std::vector<Layer> layers = impl_->look_at_layers();
  for (const Layer& layer : layers)
    if (!layer.problem.empty()) report.left_out.emplace_back(layer.directory, layer.problem);
  const std::string folder = support::folder_of(path);
  const support::FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) {
    report.problem = support::errno_text(errno);
    return report;
  }
  const std::string own_name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  if (struct stat there{};
      ::fstatat(directory.get(), own_name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(there.st_mode)) {
    report.problem = "it is there, and no file; give another name";
    return report;
  }
  support::AtomicFile file(directory.get(), own_name, 0644);
  std::vector<PackRecord> records;
  std::uint64_t at = kPackMagic.size();
  file.write(kPackMagic);
  for (const auto& [name, place] : places_of(layers, report)) {
    std::string problem;
    const auto bytes = bytes_of(name, place, &problem);
    if (!bytes) {
      if (!problem.empty()) report.left_out.emplace_back(place.layer->directory + "/" + name, problem);
      continue;
    }
    PackRecord& record = records.emplace_back();
    parse_file_name(name, &record.key);
    record.offset = at;
    record.bytes = bytes->size();
    record.sha256 = support::sha256(*bytes);
    at += bytes->size();
    file.write(*bytes);
  }
  const std::string index = encode_index(records);
  file.write(index);
  file.write(encode_end(records.size(), index, at, secret));
  file.commit();
  report.entries = records.size();
  report.bytes = at + index.size() + kPackEndBytes;
  report.problem = file.problem();
  return report;
}

UnpackReport Store::unpack(const std::string& path) {
  UnpackReport report;
  if (struct stat there{}; ::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISLNK(there.st_mode)) {
    report.problem = "it is no pack, as it is no file; give the file that tj-warm --pack wrote";
    return report;
  }
  const OpenedPack pack = impl_->packs.open(path, &report.problem);
  if (!pack.index) return report;
  const auto tell = [&](const Key& key, const Entry& entry) {
    const std::string* target = entry.find("target");
    if (target != nullptr && !is_alias(key) && !entry.payload.empty()) ++report.kernels[{*target, key.compiler_hex}];
  };
  std::vector<std::pair<const PackRecord*, bool>> kept;  // and whether it was written
  for (const PackRecord& record : pack.index->records) {
    std::string problem;
    Rejection why{};
    if (look(record.key, &problem)) {
      kept.emplace_back(&record, false);
      continue;
    }
    const auto bytes = read_packed(pack.file.get(), record, &problem, &why);
    const auto entry = bytes ? decode(*bytes, &record.key, &problem) : std::nullopt;
    if (!entry)
      report.failed.emplace_back(file_name(record.key), problem);
    else if (impl_->store(record.key, *entry, &problem))
      kept.emplace_back(&record, true);
    else
      report.failed.emplace_back(file_name(record.key), cat("it could not be kept: ", problem));
  }
  const std::vector<Layer> layers = impl_->look_at_layers();
  // Later ones may have taken the place of earlier ones.
  for (const auto& [record, written] : kept) {
    std::string problem;
    const auto entry = impl_->look(layers, record->key, &problem, Served::own);
    if (!entry) {
      if (problem.empty() && !layers.empty()) problem = layers.front().problem;
      report.gone.emplace_back(file_name(record->key), problem);
      continue;
    }
    tell(record->key, *entry);
    ++(written ? report.written : report.there);
  }
  return report;
}

}  // namespace tj::cache
