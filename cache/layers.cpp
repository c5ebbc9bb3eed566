// See layers.hpp.
#include "cache/layers.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::cache {
namespace {

/// Does an error say that this process cannot write there, now and later? Any other may pass. It must not make another
/// layer the written one, from which entries would be evicted.
bool forbids(int error) {
  constexpr int kErrors[] = {EACCES, EPERM, EROFS, ENOTDIR, ELOOP, ENOENT, ENAMETOOLONG};
  return std::find(std::begin(kErrors), std::end(kErrors), error) != std::end(kErrors);
}

/// Asks for this process's effective user. 0, or an errno: EROFS on a file system that is mounted to be read.
int write_error(int directory, const char* name) {
  return ::faccessat(directory, name, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/// Is the nearest folder above that exists one that can be written?
bool may_be_made(std::string path) {
  for (;;) {
    path = support::folder_of(path);
    const int error = write_error(AT_FDCWD, path.c_str());
    if (error != ENOENT || path == "." || path == "/") return !forbids(error);
  }
}

}  // namespace

std::vector<std::string> split_layers(std::string_view list) {
  std::vector<std::string> directories;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    std::string_view each = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    // A trailing slash would have the last component followed where it is a symbolic link.
    while (each.size() > 1 && each.back() == '/') each.remove_suffix(1);
    if (!each.empty()) directories.emplace_back(each);
  }
  return directories;
}

std::vector<Layer> open_layers(const std::vector<std::string>& directories, WhenMissing when_missing,
                               PackOpener& packs) {
  std::vector<Layer> layers;
  const bool only = directories.size() == 1;
  bool found = false;
  for (const std::string& directory : directories) {
    Layer layer;
    layer.directory = directory;
    layer.place = layers.size();
    int error = 0;
    layer.opened = open_directory(directory, found ? WhenMissing::leave : when_missing, &layer.problem, &error);
    if (const std::string neither = support::errno_text(ENOTDIR); layer.problem == neither) {  // a file may be a pack
      OpenedPack pack = packs.open(directory, &layer.problem);
      layer.opened = std::move(pack.file);
      layer.pack = std::move(pack.index);
      if (!layer.pack && layer.problem != neither)
        layer.problem = support::cat(neither, ", and no pack that can be used: ", layer.problem);
      layers.push_back(std::move(layer));
      continue;
    }
    const bool missing = !layer.opened && layer.problem.empty();
    if (only)
      layer.written = true;
    else if (!found && layer.opened)
      layer.written = !forbids(write_error(layer.opened.get(), "."));
    else if (!found && missing)
      layer.written = may_be_made(directory);
    else if (!found)
      layer.written = error != 0 && !forbids(error);
    if (missing && !layer.written) layer.problem = "it does not exist";
    found = found || layer.written;
    layers.push_back(std::move(layer));
  }
  const auto written = std::find_if(layers.begin(), layers.end(), [](const Layer& layer) { return layer.written; });
  if (written != layers.end()) std::rotate(layers.begin(), written, written + 1);
  return layers;
}

const Layer* layer_to_write(const std::vector<Layer>& layers) {
  return !layers.empty() && layers.front().written && layers.front().opened ? &layers.front() : nullptr;
}

std::string problem_in(const Layer& layer, const std::string& problem, std::size_t layers) {
  if (layers < 2 || problem.empty()) return problem;
  return support::cat("layer '", support::shown_path(layer.directory), "': ", problem);
}

}  // namespace tj::cache
