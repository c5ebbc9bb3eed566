// See tvm_api.hpp.
#include "ffi/tvm_api.hpp"

#include <memory>

#include "support/dynamic_library.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ffi {
namespace {

constexpr const char* kLibrary = "libtvm_ffi.so";

/// A program that links libtvm_ffi has it in the global scope; Python loads it for itself.
class Lookup {
 public:
  template <class Function>
  void find(Function& function, const char* name) {
    void* found = support::DynamicLibrary::global_symbol(name);
    if (found == nullptr) found = in_library(name);
    function = reinterpret_cast<Function>(found);
  }

 private:
  void* in_library(const char* name) {
    if (library_ == nullptr) library_ = support::DynamicLibrary::loaded({kLibrary});
    if (library_ == nullptr)
      support::fail(Stage::load, Code::not_found,
                    support::cat(kLibrary, " is not loaded in this process, and ", name,
                                 " is nowhere else; import tvm_ffi, or link libtvm_ffi, before the first call"));
    support::keep_open(library_);
    void* found = library_->symbol(name);
    if (found == nullptr)
      support::fail(Stage::load, Code::not_found,
                    support::cat(library_->path(), " has no ", name, "; needed: tvm-ffi 0.1.x, such as apache-tvm-ffi ",
                                 TVM_FFI_VERSION_MAJOR, ".", TVM_FFI_VERSION_MINOR, ".", TVM_FFI_VERSION_PATCH));
    return found;
  }

  std::shared_ptr<support::DynamicLibrary> library_;
};

TvmApi look_up() {
  Lookup lookup;
  TvmApi api;
  lookup.find(api.raise, "TVMFFIErrorSetRaisedFromCStr");
  lookup.find(api.stream, "TVMFFIEnvGetStream");
  lookup.find(api.allocator, "TVMFFIEnvGetDLPackManagedTensorAllocator");
  lookup.find(api.allocate, "TVMFFIEnvTensorAlloc");
  lookup.find(api.drop, "TVMFFIObjectDecRef");
  return api;
}

}  // namespace

const TvmApi& tvm_api() {
  static constinit support::Lasting<const TvmApi> api;
  return api.get(look_up);
}

}  // namespace tj::ffi
