// Opening shared libraries at run time.
//
// Decides the loader flags: everything is resolved at once (a broken library fails here and not in a later call) and
// nothing leaks into the global symbol scope. Does not decide which names are tried.
// Invariant: no fork comes in the middle of the loader's work. A child would find its lock taken and its lists half
// changed.
#include "support/dynamic_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <mutex>
#include <utility>

#include "support/fork_safe.hpp"
#include "support/lasting.hpp"

namespace tj::support {
namespace {

/// The loader's reason, always starting with the name that was tried.
std::string last_reason(const std::string& name) {
  const char* text = ::dlerror();  // per thread
  const std::string reason = text != nullptr ? text : "unknown reason";
  return reason.rfind(name + ": ", 0) == 0 ? reason : name + ": " + reason;
}

void* open(const std::string& name, int flags) {
  const NoFork whole;
  return ::dlopen(name.c_str(), flags);
}

std::string resolved_path(void* handle, const std::string& name) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) return name;
  return map->l_name[0] != '\0' ? map->l_name : name;
}

}  // namespace

std::shared_ptr<DynamicLibrary> DynamicLibrary::open_first(const std::vector<std::string>& names,
                                                           std::string* searched) {
  std::string tries;
  for (const std::string& name : names) {
    // The empty name would be the program itself, which is never what was looked for.
    if (name.empty()) continue;
    if (void* handle = open(name, RTLD_NOW | RTLD_LOCAL)) {
      return std::shared_ptr<DynamicLibrary>(new DynamicLibrary(handle, resolved_path(handle, name)));
    }
    if (!tries.empty()) tries += '\n';
    tries += last_reason(name);
  }
  if (searched != nullptr) *searched = tries;
  return nullptr;
}

std::shared_ptr<DynamicLibrary> DynamicLibrary::loaded(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* handle = open(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD))
      return std::shared_ptr<DynamicLibrary>(new DynamicLibrary(handle, resolved_path(handle, name)));
  return nullptr;
}

std::string DynamicLibrary::loaded_path(const std::vector<std::string>& names) {
  const auto library = loaded(names);
  return library ? library->path() : std::string();
}

void* DynamicLibrary::global_symbol(const char* name) noexcept { return ::dlsym(RTLD_DEFAULT, name); }

void keep_open(std::shared_ptr<DynamicLibrary> library) {
  static constinit Mutex mutex;
  static constinit Lasting<std::vector<std::shared_ptr<DynamicLibrary>>> kept;
  auto& all = kept.get();
  const std::lock_guard lock(mutex);
  all.push_back(std::move(library));
}

DynamicLibrary::~DynamicLibrary() {
  const NoFork whole;
  ::dlclose(handle_);
}

void* DynamicLibrary::symbol(const char* name) const noexcept { return ::dlsym(handle_, name); }

}  // namespace tj::support
