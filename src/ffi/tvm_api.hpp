// The functions of libtvm_ffi that are called, looked up in the process's own copy.
//
// Decides where they are looked for. Decides nothing about calls. Invariant: nothing of tvm-ffi is linked, and a
// library that the process has not loaded is not loaded here.
#pragma once

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

namespace tj::ffi {

struct TvmApi {
  decltype(&TVMFFIErrorSetRaisedFromCStr) raise = nullptr;
  decltype(&TVMFFIEnvGetStream) stream = nullptr;
  decltype(&TVMFFIEnvGetDLPackManagedTensorAllocator) allocator = nullptr;
  decltype(&TVMFFIEnvTensorAlloc) allocate = nullptr;
  decltype(&TVMFFIObjectDecRef) drop = nullptr;
};

/// Looks them up at the first call. Throws tj::Error(load, not_found) where the process has no libtvm_ffi, or one
/// without these functions; the next call then looks anew.
const TvmApi& tvm_api();

}  // namespace tj::ffi
