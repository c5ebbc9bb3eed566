// Protects the bad-input contract of tj::fmha: every refusal names the argument, its value and what is allowed, and
// comes before any kernel is looked up; and that what the docstring allows is not refused.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <tuple>

#include <tilejit/error.hpp>

#include "ops/fmha/fmha.hpp"
#include "ops/fmha/params.cuh"
#include "ops/fmha/validate.hpp"
#include "support/allocations.hpp"

namespace {

using tj::Code;
using tj::DType;
using tj::Tensor;
constexpr tj::Device kGpu{tj::DeviceKind::cuda, 0};

// Nothing reads through these addresses; they are far apart so that no ranges meet.
void* place(int index) {
  return reinterpret_cast<void*>(std::uintptr_t{0x1000000000} * static_cast<std::uintptr_t>(index + 1));
}

/// B 2, H 8, Hkv 2, Sq 33, Sk 65, D 128.
tj::FmhaArgs good() {
  tj::FmhaArgs args;
  args.q = Tensor::contiguous(place(0), kGpu, DType::f16, {2, 8, 33, 128});
  args.k = Tensor::contiguous(place(1), kGpu, DType::f16, {2, 2, 65, 128});
  args.v = Tensor::contiguous(place(2), kGpu, DType::f16, {2, 2, 65, 128});
  args.o = Tensor::contiguous(place(3), kGpu, DType::f16, {2, 8, 33, 128});
  args.lse = Tensor::contiguous(place(4), kGpu, DType::f32, {2, 8, 33});
  return args;
}

/// Expects a refusal whose text has every given part.
void refused(Code code, std::initializer_list<const char*> parts, const std::function<void(tj::FmhaArgs&)>& change,
             bool on_model = false) {
  tj::FmhaArgs args = good();
  change(args);
  try {
    tj::ops::validate(args, on_model);
    FAIL("not refused");
  } catch (const tj::Error& error) {
    CHECK(error.stage == tj::Stage::argument);
    CHECK_MESSAGE(error.code == code, error.message);
    for (const char* part : parts)
      CHECK_MESSAGE(error.message.find(part) != std::string::npos, "'", std::string(part),
                    "' is not in: ", error.message);
    CHECK_MESSAGE(error.message.find("allowed") != std::string::npos, error.message);
  }
}

TEST_CASE("a launch is told the scale's size, never 0, and its sign apart") {
  const auto told = [](float scale) {
    tj::FmhaArgs args = good();
    args.scale = scale;
    tj::ops::LaunchPlan plan;
    tj::ops::fmha_plan(args, tj::ops::FmhaLaunch{.rows_per_block = 128, .block_n = 64}, plan);
    tj::ops::fmha::Params params;
    std::memcpy(&params, plan.params.data(), sizeof params);
    return params;
  };
  constexpr float kLeast = std::numeric_limits<float>::min(), kMost = std::numeric_limits<float>::max();
  for (const auto& [scale, size, sign] :
       {std::tuple{0.5f, 0.5f, 1.0f}, {-0.25f, 0.25f, -1.0f}, {0.0f, kLeast, 1.0f}, {-kMost, kMost, -1.0f}}) {
    const tj::ops::fmha::Params params = told(scale);
    CHECK(params.scale == size);
    CHECK(params.sign == sign);
    CHECK(params.scale_log2 <= kMost);
    CHECK((size == kMost || params.scale_log2 == doctest::Approx(size * 1.442695f)));
  }
  const tj::ops::fmha::Params params = told(1);
  CHECK(params.heads == 8);
  CHECK(params.batches == 2);
  CHECK(params.heads_per_kv_head == 4);
  CHECK(params.row_blocks == 1);
  CHECK(params.tiles == 16);
}

TEST_CASE("a legal request passes without an allocation") {
  tj::FmhaArgs args = good();
  const long before = tj::testing::thread_allocations();  // the hot path may not allocate
  tj::ops::validate(args, false);
  CHECK(tj::testing::thread_allocations() == before);
  args.lse.reset();
  args.scale = -3.5f;
  CHECK_NOTHROW(tj::ops::validate(args, false));
}

TEST_CASE("the [B, S, H, D] layout passes through strides") {
  tj::FmhaArgs args = good();
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.o})
    t->strides = {t->shape[1] * t->shape[2] * 128, 128, t->shape[1] * 128, 1};
  CHECK_NOTHROW(tj::ops::validate(args, false));
}

TEST_CASE("strides of dimensions of size 1 carry no meaning") {
  tj::FmhaArgs args = good();
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.o, &*args.lse}) {
    t->shape[0] = 1;
    t->strides[0] = -7;
  }
  CHECK_NOTHROW(tj::ops::validate(args, false));
}

TEST_CASE("outputs need only the alignment of their elements") {
  tj::FmhaArgs args = good();
  args.o.data = static_cast<char*>(place(3)) + 2;
  args.o.strides = {8 * 33 * 131, 33 * 131, 131, 1};
  args.lse->data = static_cast<char*>(place(4)) + 4;
  CHECK_NOTHROW(tj::ops::validate(args, false));
}

TEST_CASE("packed q, k and v may interleave, they are only read") {
  tj::FmhaArgs args = good();
  args.q = Tensor::strided(place(0), kGpu, DType::f16, {2, 8, 33, 128}, {33 * 3072, 128, 3072, 1});
  args.k = Tensor::strided(static_cast<char*>(place(0)) + 2048, kGpu, DType::f16, {2, 8, 33, 128},
                           {33 * 3072, 128, 3072, 1});
  args.v = Tensor::strided(static_cast<char*>(place(0)) + 4096, kGpu, DType::f16, {2, 8, 33, 128},
                           {33 * 3072, 128, 3072, 1});
  CHECK_NOTHROW(tj::ops::validate(args, false));
}

TEST_CASE("null pointers") {
  refused(Code::invalid_argument, {"q.data", "null"}, [](auto& a) { a.q.data = nullptr; });
  refused(Code::invalid_argument, {"k.data", "null"}, [](auto& a) { a.k.data = nullptr; });
  refused(Code::invalid_argument, {"v.data", "null"}, [](auto& a) { a.v.data = nullptr; });
  refused(Code::invalid_argument, {"o.data", "null"}, [](auto& a) { a.o.data = nullptr; });
  refused(Code::invalid_argument, {"lse.data", "null"}, [](auto& a) { a.lse->data = nullptr; });
  refused(Code::invalid_argument, {"q.data"}, [](auto& a) { a = tj::FmhaArgs{}; });
}

TEST_CASE("rank") {
  refused(Code::invalid_argument, {"q.rank is 3", "4"}, [](auto& a) { a.q.rank = 3; });
  refused(Code::invalid_argument, {"v.rank is -1"}, [](auto& a) { a.v.rank = -1; });
  refused(Code::invalid_argument, {"o.rank is 99"}, [](auto& a) { a.o.rank = 99; });
  refused(Code::invalid_argument, {"lse.rank is 4", "3"}, [](auto& a) { a.lse->rank = 4; });
}

TEST_CASE("dtype") {
  refused(Code::unsupported, {"q.dtype is f32", "f16, bf16"}, [](auto& a) { a.q.dtype = DType::f32; });
  refused(Code::unsupported, {"q.dtype is e4m3", "f16, bf16"}, [](auto& a) { a.q.dtype = DType::e4m3; });
  refused(Code::invalid_argument, {"k.dtype is bf16", "f16"}, [](auto& a) { a.k.dtype = DType::bf16; });
  refused(Code::invalid_argument, {"o.dtype is bf16", "f16, as q.dtype, or f32"},
          [](auto& a) { a.o.dtype = DType::bf16; });
  refused(Code::invalid_argument, {"lse.dtype is f16", "f32"}, [](auto& a) { a.lse->dtype = DType::f16; });
}

TEST_CASE("head dim and head groups") {
  refused(Code::unsupported, {"q.shape[3] (D) is 84", "multiples of 8 up to 256"}, [](auto& a) {
    for (Tensor* t : {&a.q, &a.k, &a.v, &a.o}) t->shape[3] = 84;
  });
  refused(Code::unsupported, {"v.shape[3] (Dv) is 264", "multiples of 8 up to 256"},
          [](auto& a) { a.v.shape[3] = a.o.shape[3] = 264; });
  refused(Code::invalid_argument, {"o.shape[3] (Dv) is 128", "64", "v.shape[3]"}, [](auto& a) { a.v.shape[3] = 64; });
  refused(Code::invalid_argument, {"(H) is 8", "(Hkv) is 3", "multiple"},
          [](auto& a) { a.k.shape[1] = a.v.shape[1] = 3; });
  refused(Code::invalid_argument, {"multiple"}, [](auto& a) { a.k.shape[1] = a.v.shape[1] = 16; });
}

TEST_CASE("shapes that disagree") {
  refused(Code::invalid_argument, {"k.shape[0] (B) is 3", "2"}, [](auto& a) { a.k.shape[0] = 3; });
  refused(Code::invalid_argument, {"k.shape[3] (D) is 64", "128"}, [](auto& a) { a.k.shape[3] = 64; });
  refused(Code::invalid_argument, {"v.shape[2] (Sk) is 66", "65"}, [](auto& a) { a.v.shape[2] = 66; });
  refused(Code::invalid_argument, {"o.shape[2] (Sq) is 65", "33"}, [](auto& a) { a.o.shape[2] = 65; });
  refused(Code::invalid_argument, {"lse.shape[2] (Sq) is 34", "33"}, [](auto& a) { a.lse->shape[2] = 34; });
}

TEST_CASE("sizes out of range") {
  refused(Code::invalid_argument, {"q.shape[2] (Sq) is -1"}, [](auto& a) { a.q.shape[2] = -1; });
  refused(Code::invalid_argument, {"k.shape[2] (Sk) is -5"}, [](auto& a) { a.k.shape[2] = -5; });
  refused(Code::invalid_argument, {"k.shape[2] (Sk) is 2147483648"},
          [](auto& a) { a.k.shape[2] = a.v.shape[2] = std::int64_t{1} << 31; });
  // Rows that overlap make such a length possible in 32 GiB: the last block of keys would end beyond 31 bits.
  refused(Code::invalid_argument, {"k.shape[2] (Sk) is 2147483647", "0 to 1073741824"}, [](auto& a) {
    a.k.shape[2] = a.v.shape[2] = 2147483647;
    a.k.strides[2] = a.v.strides[2] = 8;
  });
  refused(Code::invalid_argument, {"B * H"}, [](auto& a) {
    for (Tensor* t : {&a.q, &a.k, &a.v, &a.o, &*a.lse}) t->shape[0] = std::int64_t{1} << 30;
  });
  refused(Code::invalid_argument, {"q.shape is [65536, 8, 262144, 128]", "B * H * ceil(Sq / 64)"}, [](auto& a) {
    for (Tensor* t : {&a.q, &a.k, &a.v, &a.o, &*a.lse}) t->shape[0] = 65536;
    for (Tensor* t : {&a.q, &a.o, &*a.lse}) t->shape[2] = 262144;
  });
}

TEST_CASE("strides") {
  refused(Code::unsupported, {"q.strides[3] (D) is 2", "1"}, [](auto& a) { a.q.strides[3] = 2; });
  refused(Code::unsupported, {"o.strides[3] (Dv) is 0"}, [](auto& a) { a.o.strides[3] = 0; });
  refused(Code::unsupported, {"k.strides[1] (Hkv) is 0"}, [](auto& a) { a.k.strides[1] = 0; });
  refused(Code::unsupported, {"v.strides[2] (Sk) is -128"}, [](auto& a) { a.v.strides[2] = -128; });
  refused(Code::unsupported, {"q.strides[2] (Sq) is 132", "264 bytes", "16 bytes"},
          [](auto& a) { a.q.strides[2] = 132; });
  refused(Code::unsupported, {"q.strides[2] (Sq) is 1 "}, [](auto& a) { a.q.strides[2] = 1; });
  refused(Code::unsupported, {"o.strides[1] (H) is 0"}, [](auto& a) { a.o.strides[1] = 0; });
  refused(Code::unsupported, {"lse.strides[2] (Sq) is -1"}, [](auto& a) { a.lse->strides[2] = -1; });
}

TEST_CASE("addresses") {
  refused(Code::unsupported, {"q.data is 0x", "16 bytes"},
          [](auto& a) { a.q.data = static_cast<char*>(a.q.data) + 8; });
  refused(Code::unsupported, {"v.data is 0x", "16 bytes"},
          [](auto& a) { a.v.data = static_cast<char*>(a.v.data) + 2; });
  refused(Code::unsupported, {"o.data is 0x", "2 bytes"}, [](auto& a) { a.o.data = static_cast<char*>(a.o.data) + 1; });
  refused(Code::unsupported, {"lse.data is 0x", "4 bytes"},
          [](auto& a) { a.lse->data = static_cast<char*>(a.lse->data) + 2; });
}

TEST_CASE("offsets that overflow") {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  refused(Code::unsupported, {"q.strides[0]", "2^40"}, [](auto& a) { a.q.strides[0] = kHuge - 7; });
  refused(Code::unsupported, {"k.strides[2]", "2^40"}, [](auto& a) { a.k.strides[2] = std::int64_t{1} << 39; });
  refused(Code::invalid_argument, {"k ", "address space"}, [](auto& a) {
    a.k.shape[2] = a.v.shape[2] = std::int64_t{1} << 30;
    for (Tensor* t : {&a.k, &a.v})
      t->strides = {std::int64_t{1} << 38, std::int64_t{1} << 38, std::int64_t{1} << 38, 1};
  });
  refused(Code::invalid_argument, {"o ", "address space"},
          [](auto& a) { a.o.data = reinterpret_cast<void*>(~std::uintptr_t{0} - 15); });
}

TEST_CASE("devices") {
  refused(Code::invalid_argument, {"v.device is cuda:1", "cuda:0"}, [](auto& a) { a.v.device.index = 1; });
  refused(Code::invalid_argument, {"lse.device is cpu", "cuda:0"},
          [](auto& a) { a.lse->device = {tj::DeviceKind::cpu, 0}; });
  refused(Code::invalid_argument, {"q.device is cuda:0", "cpu"}, [](auto&) {}, true);
  refused(Code::invalid_argument, {"q.device is cpu", "model"}, [](auto& a) {
    for (Tensor* t : {&a.q, &a.k, &a.v, &a.o, &*a.lse}) t->device = {tj::DeviceKind::cpu, 0};
  });
}

TEST_CASE("scale") {
  refused(Code::invalid_argument, {"scale is inf", "finite"},
          [](auto& a) { a.scale = std::numeric_limits<float>::infinity(); });
  refused(Code::invalid_argument, {"scale is", "finite"},
          [](auto& a) { a.scale = std::numeric_limits<float>::quiet_NaN(); });
  tj::FmhaArgs args = good();
  for (float scale : {0.0f, -1.0f, 1e30f}) {
    args.scale = scale;
    CHECK_NOTHROW(tj::ops::validate(args, false));
  }
}

TEST_CASE("outputs that share memory") {
  refused(Code::unsupported, {"o.strides[1] (H) is 4096", "at least 4224"}, [](auto& a) { a.o.strides[1] = 4096; });
  refused(Code::unsupported, {"lse.strides[1] (H) is 32", "share memory"}, [](auto& a) { a.lse->strides[1] = 32; });
  refused(Code::unsupported, {"o at", "overlaps q"}, [](auto& a) { a.o.data = a.q.data; });
  refused(Code::unsupported, {"o at", "overlaps k"},
          [](auto& a) { a.o.data = static_cast<char*>(a.k.data) + 2 * (2 * 2 * 65 * 128 - 8); });
  refused(Code::unsupported, {"o at", "overlaps v"}, [](auto& a) { a.o.data = static_cast<char*>(a.v.data) - 16; });
  refused(Code::unsupported, {"lse at", "overlaps o"}, [](auto& a) { a.lse->data = a.o.data; });
  tj::FmhaArgs args = good();  // touching is not overlapping
  args.o.data = static_cast<char*>(args.q.data) + 2 * 2 * 8 * 33 * 128;
  CHECK_NOTHROW(tj::ops::validate(args, false));
}

TEST_CASE("what is prepared ahead follows the same rules") {
  CHECK_NOTHROW(tj::ops::validate(tj::FmhaConfig{}));
  CHECK_THROWS_AS(tj::ops::validate(tj::FmhaConfig{DType::f32, 128, false, false}), tj::Error);
  CHECK_THROWS_AS(tj::ops::validate(tj::FmhaConfig{DType::f16, 84, false, false}), tj::Error);
}

}  // namespace

TEST_CASE("windows, softcap, slopes and sinks are refused by name") {
  const float huge = std::numeric_limits<float>::infinity();
  refused(Code::invalid_argument, {"window.left is -2", "-1 for all"}, [](auto& a) { a.window.left = -2; });
  refused(Code::invalid_argument, {"window.right is -7"}, [](auto& a) { a.window.right = -7; });
  refused(Code::invalid_argument, {"softcap is -1", "0 (off)"}, [](auto& a) { a.softcap = -1; });
  refused(Code::invalid_argument, {"softcap is inf"}, [&](auto& a) { a.softcap = huge; });
  refused(Code::invalid_argument, {"softcap is nan"}, [](auto& a) { a.softcap = NAN; });
  const auto slopes = [](std::initializer_list<std::int64_t> shape, DType dtype = DType::f32) {
    return Tensor::contiguous(place(5), kGpu, dtype, shape);
  };
  refused(Code::invalid_argument, {"alibi_slopes.shape[0] (H) is 7", "allowed: 8"},
          [&](auto& a) { a.alibi_slopes = slopes({7}); });
  refused(Code::invalid_argument, {"alibi_slopes.shape[0] (B) is 3", "allowed: 2"},
          [&](auto& a) { a.alibi_slopes = slopes({3, 8}); });
  refused(Code::invalid_argument, {"alibi_slopes.rank is 3", "[H] or [B, H]"},
          [&](auto& a) { a.alibi_slopes = slopes({1, 2, 8}); });
  refused(Code::invalid_argument, {"alibi_slopes.dtype is f16", "f32"},
          [&](auto& a) { a.alibi_slopes = slopes({8}, DType::f16); });
  refused(Code::invalid_argument, {"sinks.rank is 2", "[H]"}, [&](auto& a) { a.sinks = slopes({2, 8}); });
  refused(Code::invalid_argument, {"sinks.shape[0] (H) is 2", "allowed: 8"}, [&](auto& a) { a.sinks = slopes({2}); });
  refused(Code::unsupported, {"sinks", "lse"}, [&](auto& a) {
    a.sinks = slopes({8});
    a.sinks->data = a.lse->data;
  });
  refused(Code::unsupported, {"alibi_slopes", "o"}, [&](auto& a) {
    a.alibi_slopes = slopes({8});
    a.alibi_slopes->data = a.o.data;
  });
  tj::FmhaArgs args = good();
  args.window = {0, 1000000000000};
  args.top_left = true;
  args.softcap = 1e-30f;
  args.alibi_slopes = slopes({2, 8});
  args.sinks = Tensor::contiguous(place(6), kGpu, DType::f32, {8});
  const long before = tj::testing::thread_allocations();  // the hot path may not allocate
  CHECK_NOTHROW(tj::ops::validate(args, false));
  CHECK(tj::testing::thread_allocations() == before);
}

TEST_CASE("values that are as wide as keys make one kernel, whoever says so") {
  tj::FmhaConfig same;
  same.value_dim = same.head_dim;
  CHECK(tj::ops::fmha_request(same).name == tj::ops::fmha_request(tj::FmhaConfig{}).name);
  CHECK(tj::ops::fmha_small_key(same) == tj::ops::fmha_small_key(tj::FmhaConfig{}));
  tj::FmhaConfig other;
  other.head_dim = 192, other.value_dim = 128;
  CHECK(tj::ops::fmha_request(other).name == "fmha_f16_d192_v128");
  CHECK(tj::ops::fmha_small_key(other) != tj::ops::fmha_small_key(tj::FmhaConfig{}));
}
