// Opening shared libraries at run time.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tj::support {

class DynamicLibrary {
 public:
  /// Tries each name or path in turn; returns null when none opens and then fills `searched` with one line a try
  /// (name: the loader's reason).
  static std::shared_ptr<DynamicLibrary> open_first(const std::vector<std::string>& names, std::string* searched);
  /// The first that the process has loaded already, by whomever; null when it has none.
  static std::shared_ptr<DynamicLibrary> loaded(const std::vector<std::string>& names);
  /// The library's file; empty when there is none.
  static std::string loaded_path(const std::vector<std::string>& names);
  /// A symbol of the program itself, or of a library that it is linked with; null when there is none.
  static void* global_symbol(const char* name) noexcept;
  ~DynamicLibrary();
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;

  /// Null when the symbol is not there.
  void* symbol(const char* name) const noexcept;
  /// The file that was opened, as the loader resolved it.
  const std::string& path() const noexcept { return path_; }

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_;
  std::string path_;
};

/// Keeps the library open for ever. Drivers and compilers keep threads and exit handlers of their own, and the loader
/// would run their exit code while those may still be at work. Thread safe.
void keep_open(std::shared_ptr<DynamicLibrary> library);

}  // namespace tj::support
