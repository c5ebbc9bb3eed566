// Helpers that tests of limits share: a table of values that pass and values that do not, and tensors where nothing
// lies.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/tensor.hpp>

#include "support/expect.hpp"

namespace tj::testing {

inline constexpr Device kGpu{DeviceKind::cuda, 0};
inline constexpr std::int64_t kMost = std::int64_t{1} << 30;
inline constexpr std::int64_t kMostStride = std::int64_t{1} << 40;  // bytes, exclusive

/// Addresses so far apart that no two tensors of any legal size meet; nothing reads there.
inline void* place(int index, std::uint64_t offset = 0) {
  return reinterpret_cast<void*>((std::uint64_t{1} << 50) * static_cast<std::uint64_t>(index + 1) + offset);
}

/// One limit: values that pass, values that do not, and the name that the refusal begins with.
template <class Args>
struct Limit {
  const char* name;
  std::vector<std::int64_t> passes, refused;
  std::function<void(Args&, std::int64_t)> set;
};

template <class Args>
void check_limits(const Args& good, const std::function<void(const Args&)>& validate,
                  const std::vector<Limit<Args>>& limits) {
  CHECK_NOTHROW(validate(good));
  for (const Limit<Args>& limit : limits) {
    CAPTURE(limit.name);
    for (const bool passes : {true, false})
      for (const std::int64_t value : passes ? limit.passes : limit.refused) {
        CAPTURE(value);
        Args args = good;
        limit.set(args, value);
        if (passes) {
          CHECK_NOTHROW(validate(args));
          continue;
        }
        const Error error = error_of([&] { validate(args); });
        CHECK(error.stage == Stage::argument);
        CHECK_MESSAGE(has(error.message, limit.name), error.message);
      }
  }
}

inline Tensor dense(int index, DType dtype, std::initializer_list<std::int64_t> shape) {
  return Tensor::contiguous(place(index), kGpu, dtype, shape);
}

/// With a size changed, and the strides of a dense tensor.
inline void resize(Tensor& tensor, int axis, std::int64_t size) {
  tensor.shape[static_cast<std::size_t>(axis)] = size;
  std::int64_t stride = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    tensor.strides[static_cast<std::size_t>(i)] = stride;
    stride *= tensor.shape[static_cast<std::size_t>(i)];
  }
}
inline void move(Tensor& tensor, std::int64_t bytes) { tensor.data = static_cast<char*>(tensor.data) + bytes; }

}  // namespace tj::testing
