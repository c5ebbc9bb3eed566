// A fuzz target under two names: libFuzzer's own where it is built for that (-DTJ_FUZZ=ON), and one that ordinary tests
// call, so that each build compiles and runs it.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef TJ_FUZZING
#define TJ_FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput
#else
#define TJ_FUZZ_TARGET(name) int name
#endif

namespace tj::testing {

// Each aborts when its reader breaks a promise.
int fuzz_json(const std::uint8_t* data, std::size_t size);
int fuzz_entry(const std::uint8_t* data, std::size_t size);
int fuzz_pack(const std::uint8_t* data, std::size_t size);
int fuzz_remote(const std::uint8_t* data, std::size_t size);
int fuzz_manifest(const std::uint8_t* data, std::size_t size);
int fuzz_tuning(const std::uint8_t* data, std::size_t size);
int fuzz_alias(const std::uint8_t* data, std::size_t size);

}  // namespace tj::testing
