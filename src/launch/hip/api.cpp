// Opening the HIP runtime, and the words for its errors.
#include "launch/hip/api.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "support/dynamic_library.hpp"
#include "support/fail.hpp"
#include "support/installations.hpp"
#include "support/text_stream.hpp"

namespace tj::launch {
namespace {

using support::cat;
using support::DynamicLibrary;

const char* next_step(int result) {
  switch (result) {
    case kHipNotInitialized:
      return "a process that was forked from one that had used HIP cannot use it: fork before the first call, or start "
             "a program (exec) instead";
    case kHipOutOfMemory:
      return "free device memory or use smaller tensors";
    case kHipNoDevice:
    case kHipInvalidDevice:
      return "check with rocminfo that the device is there, that the user is in the groups render and video, and "
             "HIP_VISIBLE_DEVICES";
    case kHipNoBinaryForGpu:
    case kHipInvalidImage:
    case kHipSharedObjectInitFailed:
      return "the binary is for another architecture, or of a compiler that is newer than this runtime: check "
             "TJ_TARGET against the device, and that ROCM_PATH has both of one release";
    case kHipInvalidDeviceFunction:
    case kHipNotFound:
      return "the binary lacks the symbol: clear the kernel cache";
    case kHipInvalidValue:
    case kHipInvalidConfiguration:
      return "check the grid, the shared memory and the pointers against the device's limits";
    case kHipInvalidHandle:
      return "use a stream of this device that still exists, made by the same HIP runtime";
    case kHipLaunchOutOfResources:
      return "the kernel needs more registers or shared memory than the device has";
    case kHipIllegalAddress:
    case kHipLaunchFailure:
    case kHipLaunchTimeOut:
      return "an earlier kernel of this process failed: run it with AMD_SERIALIZE_KERNEL=3, restart the process";
    case kHipStreamCaptureUnsupported:
    case kHipStreamCaptureInvalidated:
    case kHipStreamCaptureImplicit:
    case kHipStreamCaptureWrongThread:
      return "a graph is being captured: make this call outside of the capture";
    case kHipDeinitialized:
      return "the process is ending: finish GPU work before main returns";
    case kHipNotSupported:
      return "this release or device does not have it: install a newer ROCm";
    default:
      return "check with rocminfo that the device works, and that the amdgpu driver fits the ROCm";
  }
}

/// First the libraries that somebody loaded, then the user's choice. Then the newest that the loader finds or that lies
/// in ROCm's folders: a distribution's is often older than that. The order is that of compile/library_search.cpp, so
/// that both are of one release.
std::shared_ptr<DynamicLibrary> open_library(const std::vector<std::string>& names, std::string* searched) {
  std::vector<std::string> everything = names;
  everything.emplace_back("libamdhip64.so");  // as frameworks bring it along
  if (auto loaded = DynamicLibrary::loaded(everything)) return loaded;
  everything.clear();
  for (const auto& folders : support::rocm_chosen_folders())
    for (const std::string& name : names)
      for (const std::string& folder : folders) everything.push_back(cat(folder, "/", name));
  const std::vector<std::string> roots = support::rocm_roots();
  for (const std::string& name : names) {
    everything.push_back(name);
    for (const std::string& root : roots) everything.push_back(cat(root, "/lib/", name));
  }
  // Most of those files are not there. Words about them would hide the files that are.
  std::erase_if(everything, [](const std::string& path) {
    return path.find('/') != std::string::npos && ::access(path.c_str(), F_OK) != 0;
  });
  return DynamicLibrary::open_first(everything, searched);
}

/// The reason why nothing opens: the places searched, then the errors of files that are there, then the fault of the
/// user's own choice.
std::string none_opens(const std::vector<std::string>& names, const std::string& searched) {
  std::string list, folders, faults;
  for (const std::string& name : names) list += cat(list.empty() ? "" : ", ", name);
  for (const std::string& root : support::rocm_roots()) folders += cat(folders.empty() ? "" : ", ", root, "/lib");
  support::TextReader lines(searched);
  for (std::string line; std::getline(lines, line);) {
    const bool absent = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return line == cat(name, ": cannot open shared object file: No such file or directory");
    });
    if (!absent) faults += cat("; ", line);
  }
  const std::string unused = support::unused_rocm(names);
  return cat("no HIP runtime: libamdhip64 does not open; install ROCm 6 or newer or set ROCM_PATH to its folder",
             unused.empty() ? "" : cat(" (", unused, ")"), "; looked for ", list, " where the loader looks and in ",
             folders, faults);
}

template <class Function>
bool find(const DynamicLibrary& library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(library.symbol(name));
  return function != nullptr;
}

}  // namespace

std::string HipApi::explain(int result) const {
  const char* name = get_error_name(result);
  const char* text = get_error_string(result);
  const std::string known = name != nullptr ? name : "unknown HIP error";
  // Early releases give the name as the text.
  return cat(known, " (", result, ")", text != nullptr && known != text ? cat(": ", text) : std::string());
}

void HipApi::fail_call(int result, const char* call, Stage stage) const {
  forget_failure();
  const bool refused = result == kHipInvalidImage || result == kHipNoBinaryForGpu || result == kHipNotFound ||
                       result == kHipInvalidDeviceFunction || result == kHipSharedObjectInitFailed;
  const Code code = result == kHipOutOfMemory               ? Code::out_of_memory
                    : refused || result == kHipNotSupported ? Code::unsupported
                                                            : Code::driver_error;
  support::fail(stage, code, cat(call, " failed with ", explain(result), "; ", next_step(result)));
}

std::unique_ptr<HipApi> open_hip_api(std::string* reason) {
  std::string searched;
  const std::vector<std::string> names = support::rocm_library_names("libamdhip64");
  auto library = open_library(names, &searched);
  if (!library) {
    *reason = none_opens(names, searched);
    return nullptr;
  }
  auto api = std::make_unique<HipApi>();
  api->path = library->path();
  if (const std::string unused = support::unused_rocm(names); !unused.empty())
    api->remark = cat(unused, "; ", api->path, " is used instead");
  std::string missing;
#define TJ_HIP_FIND(member, symbol, parameters) \
  if (!find(*library, api->member, #symbol)) missing = #symbol;
  TJ_HIP_REQUIRED_CALLS(TJ_HIP_FIND)
#undef TJ_HIP_FIND
  if (!find(*library, api->get_error_name, "hipGetErrorName")) missing = "hipGetErrorName";
  if (!find(*library, api->get_error_string, "hipGetErrorString")) missing = "hipGetErrorString";
#define TJ_HIP_FIND(member, symbol, parameters) find(*library, api->member, #symbol);
  TJ_HIP_OPTIONAL_CALLS(TJ_HIP_FIND)
#undef TJ_HIP_FIND
  if (!api->get_properties_r0600 && !api->get_properties) missing = "hipGetDeviceProperties";
  if (!missing.empty()) {
    *reason = cat("the HIP runtime at ", api->path, " has no ", missing, "; install ROCm 5 or newer",
                  api->remark.empty() ? "" : cat(" (", api->remark, ")"));
    return nullptr;
  }
  support::keep_open(std::move(library));
  return api;
}

}  // namespace tj::launch
