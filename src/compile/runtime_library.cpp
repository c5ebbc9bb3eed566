// The libraries of compilers: opened, and kept open.
#include "compile/runtime_library.hpp"

#include <atomic>
#include <string>
#include <utility>

#include "support/fail.hpp"
#include "support/installations.hpp"
#include "support/process_end.hpp"

namespace tj::compile {
namespace {

constexpr int kWatchedCalls = 8;  // a version and a compile of each kind: a binary, PTX, quick ones

}  // namespace

LibraryCall::LibraryCall() {
  static constinit std::atomic<int> calls{0};
  if (!before_end_ || support::process_end_is_late()) fail_ending();
  if (calls.load() < kWatchedCalls && calls.fetch_add(1) < kWatchedCalls) again_.emplace();
}

LibraryCall::~LibraryCall() { support::end_first(); }

void LibraryCall::fail_ending() { support::fail(Stage::compile, Code::io, std::string(support::kProcessIsEnding)); }

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
  if (support::process_is_ending()) LibraryCall::fail_ending();  // nothing holds its constructors' exit handlers back
  if (before) before(path);
  std::string reason;
  auto library = support::DynamicLibrary::open_first({path}, &reason);
  if (!library)
    support::fail(Stage::compile, Code::not_found,
                  support::cat(search.library, " is at ", path, " but does not open: ", reason,
                               "; repair or remove that file, or ", advice));
  support::keep_open(library);
  support::end_first(path.c_str());  // its exit handlers would end what a compile is working with
  return {path, std::move(library)};
}

void open_beside(const std::string& folder, const std::string& pattern) {
  std::string reason;
  for (const std::string& file : support::newest_first(folder + "/" + pattern))
    if (auto library = support::DynamicLibrary::open_first({file}, &reason)) support::keep_open(std::move(library));
}

}  // namespace tj::compile
