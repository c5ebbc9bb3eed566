// The place of a compiler's library, once it was found.
//
// Decides when it is searched again: the variables that say where to look have changed, or the file is gone. Invariant:
// identity() and search() name one file, also where another one appears in a folder that goes first.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "compile/library_search.hpp"
#include "support/fork_safe.hpp"

namespace tj::compile {

/// Thread safe.
class FoundLibrary {
 public:
  /// inputs: what the search goes by besides the folders that are there. Without it, each call searches.
  explicit FoundLibrary(std::function<LibrarySearch()> search, std::function<std::string()> inputs = {})
      : search_(std::move(search)), inputs_(std::move(inputs)) {}

  /// Asks for one file where it is known, else for all places. Not present where there is none.
  Identity identity(std::string_view kind) const;
  /// The place that identity() names, alone; all places where there is none.
  LibrarySearch search() const;
  /// Has the next call search, as what was found is of no use.
  void forget();

 private:
  const std::function<LibrarySearch()> search_;
  const std::function<std::string()> inputs_;
  mutable support::Mutex mutex_;  ///< of what is below
  mutable std::string path_, of_;
};

}  // namespace tj::compile
