// Opening, and keeping open, the compilers' libraries.
#include "compile/runtime_library.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "support/fail.hpp"

namespace tj::compile {
namespace {

/// Never destroyed: the loader would run the libraries' exit code while their threads may still be at work.
void keep_open(std::shared_ptr<support::DynamicLibrary> library) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<support::DynamicLibrary>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(library));
}

}  // namespace

void RuntimeLibrary::fail_symbol(const char* name) const {
  support::fail(Stage::compile, Code::not_found,
                support::cat("symbol ", name, " is missing in ", path,
                             "; the library is damaged or of a version that is not supported: install another one"));
}

RuntimeLibrary open_found(const LibrarySearch& search, const std::string& advice,
                          const std::function<void(const std::string& path)>& before) {
  const std::string path = find_library(search);
  if (path.empty())
    support::fail(Stage::compile, Code::not_found,
                  support::cat(search.library, " was not found; searched ", describe(search), "; ", advice));
  if (before) before(path);
  std::string reason;
  auto library = support::DynamicLibrary::open_first({path}, &reason);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  if (!library)
    support::fail(Stage::compile, Code::not_found,
                  support::cat(search.library, " is at ", path, " but does not open: ", reason,
                               "; repair or remove that file, or ", advice));
  keep_open(library);
  return {path, std::move(library)};
}

void open_beside(const std::string& folder, const std::string& pattern) {
  std::string reason;
  for (const std::string& file : newest_first(folder + "/" + pattern))
    if (auto library = support::DynamicLibrary::open_first({file}, &reason)) keep_open(std::move(library));
}

}  // namespace tj::compile
