// A fake library of tests in this process, in front of a real one.
//
// Decides how it is opened and how its calls are found. Invariant: it stays open, as the product keeps such a library
// for the life of the process, too.
#pragma once

#include <dlfcn.h>

#include <doctest/doctest.h>

#include <string>

namespace tj::test {

class FakeLibrary {
 protected:
  /// file: below TJ_FAKES_DIR. A made object comes before anything opens a library of that name.
  explicit FakeLibrary(const std::string& file)
      : handle_(::dlopen((TJ_FAKES_DIR "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE_MESSAGE(handle_ != nullptr, ::dlerror());
  }
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    const bool found = function != nullptr;
    REQUIRE_MESSAGE(found, name);
  }

 private:
  void* const handle_;
};

}  // namespace tj::test
