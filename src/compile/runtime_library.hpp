// A compiler's library, opened at run time.
//
// Decides how a search becomes an open library or a named error. Does not decide where to look (library_search.hpp).
// Invariant: a library that was opened stays open until the process ends, because these compilers keep threads and
// exit handlers of their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "compile/library_search.hpp"
#include "support/dynamic_library.hpp"
#include "support/process_end.hpp"

namespace tj::compile {

struct RuntimeLibrary {
  std::string path;
  std::shared_ptr<support::DynamicLibrary> library;

  /// Null when the library has no such symbol.
  template <class Function>
  bool find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(library->symbol(name));
    return function != nullptr;
  }
  /// Throws tj::Error(compile, not_found) naming symbol and library.
  template <class Function>
  void get(Function*& function, const char* name) const {
    if (!find(function, name)) fail_symbol(name);
  }

 private:
  [[noreturn]] void fail_symbol(const char* name) const;
};

enum class CompilerLibrary { nvrtc, hiprtc };

/// A call into such a library, which its exit handlers wait for. NVRTC 13 registers five of them in its first compiles.
/// A child that was forked beside another thread's call has the library's locks as that thread left them: there each
/// call is refused, as it would wait for ever or take half a list for a whole one. A child's own children inherit that.
/// Its exit() runs no handler of the library's that wants such a lock (let_children_end()).
class LibraryCall {
 public:
  /// Throws tj::Error(compile, io) when the process is ending, and in such a child.
  explicit LibraryCall(CompilerLibrary of);
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  [[noreturn]] static void fail_ending();

 private:
  /// Counted before the library is entered, and until it is left.
  struct Counted {
    explicit Counted(CompilerLibrary of) noexcept;
    ~Counted();
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    const CompilerLibrary library;
  };
  Counted counted_;
  support::BeforeEnd before_end_;
  std::optional<support::EndFirstAgain> again_;
};

/// Has exit() in such a child leave out handlers of the library with this address, as far as its locks are taken there.
void let_children_end(const void* inside) noexcept;

/// Opens what find_library() finds, after `before` was called with its path. `advice` ends the message of the error.
/// Throws tj::Error(compile, not_found) with every place that was searched, or with the loader's reason.
RuntimeLibrary open_found(const LibrarySearch& search, const std::string& advice,
                          const std::function<void(const std::string& path)>& before = {});

/// Opens every file in the folder that matches the pattern and can be opened; none is no error.
void open_beside(const std::string& folder, const std::string& pattern);

}  // namespace tj::compile
