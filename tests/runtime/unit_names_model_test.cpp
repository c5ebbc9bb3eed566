// Protects: a unit of the CPU model that the loader keeps, though its kernel was let go, never answers for another one.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <link.h>

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/ops.hpp>
#include <tilejit/tilejit.hpp>

#include "support/scratch.hpp"

namespace {

constexpr tj::Device kCpu{tj::DeviceKind::cpu, 0};

/// One row, twice 1, as the bits of the result.
unsigned two(tj::Runtime& runtime, tj::DType type, std::uint16_t one) {
  std::vector<std::uint16_t> y(2 * 16, one), d(16);
  std::vector<std::int32_t> slots = {0, 1};
  tj::CombineArgs args;
  args.y = tj::Tensor::contiguous(y.data(), kCpu, type, {2, 16});
  args.slots = tj::Tensor::contiguous(slots.data(), kCpu, tj::DType::i32, {1, 2});
  args.d = tj::Tensor::contiguous(d.data(), kCpu, type, {1, 16});
  runtime.run(args);
  return d[0];
}

int keep_unit(dl_phdr_info* library, std::size_t, void* count) {
  const std::string name = library->dlpi_name;
  if (name.starts_with("/proc/thread-self/fd/") && ::dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr)
    ++*static_cast<int*>(count);
  return 0;
}

}  // namespace

TEST_CASE("a unit that stays loaded does not answer for a kernel whose unit gets its descriptor's number") {
  const tj::testing::Scratch scratch;
  tj::Options options;
  options.cache_dir = scratch / "cache";
  tj::Runtime runtime(options);
  constexpr unsigned kTwo = 0x4000;  // in both types
  CHECK(two(runtime, tj::DType::f16, 0x3c00) == kTwo);
  int kept = 0;
  ::dl_iterate_phdr(&keep_unit, &kept);
  REQUIRE(kept >= 1);
  runtime.trim();
  CHECK(two(runtime, tj::DType::bf16, 0x3f80) == kTwo);
  runtime.trim();
  CHECK(two(runtime, tj::DType::f16, 0x3c00) == kTwo);
}
