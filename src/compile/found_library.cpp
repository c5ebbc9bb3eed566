// See found_library.hpp.
#include "compile/found_library.hpp"

#include <mutex>
#include <utility>

namespace tj::compile {

Identity FoundLibrary::identity(std::string_view kind) const {
  if (!inputs_) return identify(kind, find_library(search_()));
  std::string inputs = inputs_(), path;
  {
    const std::lock_guard lock(mutex_);
    if (of_ == inputs) path = path_;
  }
  if (Identity known = identify(kind, path); known.present()) return known;
  Identity found = identify(kind, find_library(search_()));
  const std::lock_guard lock(mutex_);
  path_ = found.path;
  of_ = std::move(inputs);
  return found;
}

void FoundLibrary::forget() {
  const std::lock_guard lock(mutex_);
  path_.clear();
}

LibrarySearch FoundLibrary::search() const {
  LibrarySearch all = search_();
  const std::string path = identity({}).path;
  if (path.empty()) return all;
  const std::size_t slash = path.rfind('/');
  return {std::move(all.library), {path.substr(slash + 1)}, {{path.substr(0, slash)}}};
}

}  // namespace tj::compile
