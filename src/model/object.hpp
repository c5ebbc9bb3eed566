// A compiled unit in memory.
//
// Decides how the bytes of a shared object become a callable kernel. Does not run it.
// Invariant: the object stays open, and its name taken, as long as this lives.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "model/abi.h"
#include "support/dynamic_library.hpp"
#include "support/file_descriptor.hpp"

namespace tj::model {

class Object {
 public:
  /// Throws tj::Error(load): the loader's reason, a missing symbol, another ABI version, or a CPU that lacks what units
  /// use.
  Object(std::string_view bytes, const std::string& symbol, const tj_model_api& api);

  const tj_model_kernel& kernel() const noexcept { return *kernel_; }

 private:
  support::FileDescriptor memory_;  // outlives library_: the loader knows the object by this descriptor's name
  std::shared_ptr<support::DynamicLibrary> library_;
  const tj_model_kernel* kernel_ = nullptr;
};

}  // namespace tj::model
