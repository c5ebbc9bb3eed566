// Protects how users write tensors down: strides in elements, the rank bound, and the names in messages.
#include <tilejit/tensor.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <tilejit/error.hpp>

using tj::Device;
using tj::DeviceKind;
using tj::DType;
using tj::Tensor;

TEST_CASE("contiguous strides are in elements and leave the rest zero") {
  int value = 0;
  const Tensor t = Tensor::contiguous(&value, Device{DeviceKind::cpu, 0}, DType::bf16, {2, 3, 5, 7});
  CHECK(t.data == &value);
  CHECK(t.rank == 4);
  CHECK(t.shape == std::array<std::int64_t, tj::kMaxRank>{2, 3, 5, 7, 0});
  CHECK(t.strides == std::array<std::int64_t, tj::kMaxRank>{105, 35, 7, 1, 0});
  CHECK(t.dtype == DType::bf16);
  CHECK(Tensor::contiguous(nullptr, {}, DType::f16, {}).rank == 0);
}

TEST_CASE("an empty dimension keeps the outer strides") {
  const Tensor t = Tensor::contiguous(nullptr, {}, DType::f32, {4, 0, 6});
  CHECK(t.strides == std::array<std::int64_t, tj::kMaxRank>{6, 6, 1, 0, 0});
}

TEST_CASE("strided takes the strides as they are") {
  const Tensor t = Tensor::strided(nullptr, {}, DType::f16, {2, 8, 64}, {64, 128, 1});
  CHECK(t.rank == 3);
  CHECK(t.strides == std::array<std::int64_t, tj::kMaxRank>{64, 128, 1, 0, 0});
}

TEST_CASE("too many dimensions, unequal lengths and overflow are named") {
  CHECK_THROWS_WITH_AS(Tensor::contiguous(nullptr, {}, DType::f16, {1, 1, 1, 1, 1, 1}),
                       doctest::Contains("shape has 6 dimensions; at most 5"), tj::Error);
  CHECK_THROWS_WITH_AS(Tensor::strided(nullptr, {}, DType::f16, {1}, {1, 1, 1, 1, 1, 1}),
                       doctest::Contains("strides has 6 dimensions; at most 5"), tj::Error);
  CHECK_THROWS_WITH_AS(Tensor::strided(nullptr, {}, DType::f16, {1, 2}, {1}),
                       doctest::Contains("shape has 2 dimensions and strides 1"), tj::Error);
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_WITH_AS(Tensor::contiguous(nullptr, {}, DType::f16, {2, large, 2}),
                       doctest::Contains("does not fit in 64 bits"), tj::Error);
  CHECK(Tensor::contiguous(nullptr, {}, DType::f16, {large, large}).strides[0] == large);  // nobody's stride is larger
  CHECK(Tensor::contiguous(nullptr, {}, DType::f16, {1, 1, 1, 1, 1}).rank == tj::kMaxRank);
}

TEST_CASE("names and sizes") {
  CHECK(tj::size_of(DType::f16) == 2);
  CHECK(tj::size_of(DType::bf16) == 2);
  CHECK(tj::size_of(DType::f32) == 4);
  CHECK(tj::size_of(DType::i32) == 4);
  CHECK(tj::size_of(DType::e4m3) == 1);
  CHECK(tj::size_of(static_cast<DType>(77)) == 0);
  CHECK(std::string(tj::to_string(DType::f16)) == "f16");
  CHECK(std::string(tj::to_string(DType::bf16)) == "bf16");
  CHECK(std::string(tj::to_string(DType::f32)) == "f32");
  CHECK(std::string(tj::to_string(DType::i32)) == "i32");
  CHECK(std::string(tj::to_string(DType::e4m3)) == "e4m3");
  CHECK(std::string(tj::to_string(static_cast<DType>(77))) == "unknown");
  CHECK(tj::to_string(Device{DeviceKind::cpu, 0}) == "cpu");
  CHECK(tj::to_string(Device{DeviceKind::cpu, 1}) == "cpu:1");  // there is none, as messages say
  CHECK(tj::to_string(Device{DeviceKind::cuda, 3}) == "cuda:3");
  CHECK(tj::to_string(Device{DeviceKind::hip, 1}) == "hip:1");
  CHECK(tj::to_string(Device{static_cast<DeviceKind>(9), 2}) == "unknown:2");
}
