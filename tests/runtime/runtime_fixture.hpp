// Helpers of the tests of the runtime: a machine of fakes with a cache of its own, and attention arguments.
//
// Decides nothing about outcomes. Invariant: the addresses of arguments are never followed; kernels of the fake do
// nothing.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "fakes/fake_cuda.hpp"
#include "fakes/fake_nvrtc.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace tj::test {

/// A GPU, a driver and a compiler that are none, and an empty cache. Runtimes made from options() end before it.
struct Machine {
  FakeCuda cuda;
  FakeNvrtc nvrtc;
  tj::testing::Scratch scratch;
  std::mutex mutex;
  std::vector<std::string> warnings;  ///< what was logged at warn and above

  std::string cache_dir() const { return scratch / "cache"; }
  Options options() {
    Options options;
    options.cache_dir = cache_dir();
    options.target = "";  // whatever the environment says: by device
    options.dump_dir = "";
    options.log_level = LogLevel::warn;
    options.log_sink = [this](LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex);
      warnings.emplace_back(text);
    };
    return options;
  }
};

/// Memory order of q, k, v and o; the logical order is always [B, H, S, D].
enum class Layout { bhsd, bshd };

struct Shape {
  std::int64_t batches = 2, heads = 4, kv_heads = 2, queries = 300, keys = 600, head_dim = 128;
};

inline void* address(std::uint64_t value) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(value)); }
inline constexpr std::uint64_t kFirstAddress = 0x100000000000, kAddressStep = 0x10000000000;

inline Tensor tensor_at(int place, DType dtype, Layout layout, std::int64_t batches, std::int64_t heads,
                        std::int64_t rows, std::int64_t columns) {
  void* data = address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep);
  if (layout == Layout::bhsd)
    return Tensor::contiguous(data, {DeviceKind::cuda, 0}, dtype, {batches, heads, rows, columns});
  return Tensor::strided(data, {DeviceKind::cuda, 0}, dtype, {batches, heads, rows, columns},
                         {rows * heads * columns, columns, heads * columns, 1});
}

inline FmhaArgs attention(const Shape& s = {}, bool causal = false, Layout layout = Layout::bhsd,
                          DType dtype = DType::f16) {
  FmhaArgs args;
  args.q = tensor_at(0, dtype, layout, s.batches, s.heads, s.queries, s.head_dim);
  args.k = tensor_at(1, dtype, layout, s.batches, s.kv_heads, s.keys, s.head_dim);
  args.v = tensor_at(2, dtype, layout, s.batches, s.kv_heads, s.keys, s.head_dim);
  args.o = tensor_at(3, dtype, layout, s.batches, s.heads, s.queries, s.head_dim);
  args.causal = causal;
  return args;
}

/// A product of f16 matrices of so many rows and columns.
inline GemmArgs square_product(std::int64_t size) {
  const auto matrix = [&](int place) {
    return Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep),
                              {DeviceKind::cuda, 0}, DType::f16, {size, size});
  };
  GemmArgs args;
  args.a = matrix(0);
  args.b = matrix(1);
  args.d = matrix(2);
  return args;
}

inline Tensor lse_of(const Shape& s) {
  return Tensor::contiguous(address(kFirstAddress + 4 * kAddressStep), {DeviceKind::cuda, 0}, DType::f32,
                            {s.batches, s.heads, s.queries});
}

inline FmhaConfig config_of(bool causal = false, int head_dim = 128) { return {DType::f16, head_dim, causal, false}; }

using testing::error_of;
using testing::has;

/// Lines of the fake driver's log that begin with this call.
inline int count_calls(const FakeCuda& cuda, const std::string& call) {
  std::istringstream lines(cuda.log());
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.substr(0, line.find(' ')) == call ? 1 : 0;
  return count;
}

/// (call, which of its uses) for each line of a log.
inline std::vector<std::pair<std::string, int>> uses_of(const std::string& log) {
  std::map<std::string, int> seen;
  std::vector<std::pair<std::string, int>> uses;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const std::string call = line.substr(0, line.find(' '));
    uses.emplace_back(call, ++seen[call]);
  }
  return uses;
}

}  // namespace tj::test
