// See object.hpp.
#include "model/object.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "model/thread.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/private_directory.hpp"

namespace tj::model {
namespace {

using support::cat;
using support::fail;

void require_cpu() {
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return;
  fail(Stage::load, Code::unsupported,
       "the CPU model's units are built for x86-64-v3 (AVX2, FMA, F16C), which this CPU does not have; run on another "
       "machine or use a GPU");
}

/// Is a library of this name loaded? The loader would give that one, whatever the file is now. Example: dlclose()
/// unloads nothing while the loader ends a process, and the unit's number is free again.
bool name_is_taken(const std::string& name) {
  const support::NoFork whole;
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

// No file system is involved, so none that is mounted noexec can be in the way.
std::shared_ptr<support::DynamicLibrary> open_in_memory(std::string_view bytes, support::FileDescriptor& memory,
                                                        std::string& problem, int& error) {
  memory = support::FileDescriptor(::memfd_create("tilejit-unit", MFD_CLOEXEC));
  error = memory ? support::write_all(memory.get(), bytes) : errno;
  if (error != 0) {
    problem = cat("memfd_create: ", support::errno_text(error));
    return nullptr;
  }
  // The calling thread's: /proc/self has no descriptors any more where main() has ended by pthread_exit().
  const auto name = [&] { return cat("/proc/thread-self/fd/", memory.get()); };
  while (name_is_taken(name())) {
    support::FileDescriptor next(::fcntl(memory.get(), F_DUPFD_CLOEXEC, memory.get() + 1));
    if (!next) {
      error = errno;
      problem = cat("fcntl: ", support::errno_text(error));
      return nullptr;
    }
    memory = std::move(next);
  }
  return support::DynamicLibrary::open_first({name()}, &problem);
}

// For systems where memory files may not be executed or /proc is absent. The file is gone again before this returns.
std::shared_ptr<support::DynamicLibrary> open_from_disk(std::string_view bytes, std::string& problem) {
  try {
    const support::PrivateDirectory directory;
    std::string reason;
    auto library = support::DynamicLibrary::open_first({directory.write("unit.so", bytes)}, &reason);
    if (!library) problem += "\n" + reason;
    return library;
  } catch (const Error& error) {
    problem += "\n" + error.message;
    return nullptr;
  }
}

}  // namespace

Object::Object(std::string_view bytes, const std::string& symbol, const tj_model_api& api) {
  require_cpu();
  std::string problem;
  int error = 0;
  library_ = open_in_memory(bytes, memory_, problem, error);
  if (!library_) library_ = open_from_disk(bytes, problem);
  if (!library_) {
    const std::string limit = support::next_step(error, {});  // one made anew would meet it, too
    fail(Stage::load, limit.empty() ? Code::unsupported : Code::io,
         cat("the CPU model cannot load a unit's shared object; ",
             limit.empty() ? "clear the kernel cache, or set TMPDIR to a directory that is not noexec" : limit),
         problem);
  }
  kernel_ = static_cast<const tj_model_kernel*>(library_->symbol((symbol + TJ_MODEL_SUFFIX).c_str()));
  if (kernel_ == nullptr)
    fail(Stage::load, Code::unsupported,
         cat("the unit's shared object has no kernel \"", symbol, "\"; clear the kernel cache"));
  if (kernel_->version != TJ_MODEL_ABI_VERSION)
    fail(Stage::load, Code::unsupported,
         cat("the unit was made for version ", kernel_->version, " of the model, this is ", TJ_MODEL_ABI_VERSION,
             "; clear the kernel cache"));
  if (kernel_->warp_threads != kWarpThreads && kernel_->warp_threads != kMaxWarpThreads)
    fail(Stage::load, Code::unsupported,
         cat("the unit has warps of ", kernel_->warp_threads, " threads; the model has warps of ", kWarpThreads,
             " and ", kMaxWarpThreads, "; clear the kernel cache"));
  kernel_->bind(&api);
}

}  // namespace tj::model
