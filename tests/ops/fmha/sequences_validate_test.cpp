// Protects the bad-input contract of calls with lists: every refusal names the argument, its value and what is allowed;
// what the docstring allows is not refused, and passing allocates nothing. And how pages become a kernel's field.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>

#include <tilejit/error.hpp>

#include "ops/fmha/fmha.hpp"
#include "ops/fmha/sequences.hpp"
#include "ops/fmha/validate.hpp"
#include "support/allocations.hpp"

using namespace tj;

namespace {

constexpr Device kGpu{DeviceKind::cuda, 0};

void* place(int index) {
  return reinterpret_cast<void*>(std::uintptr_t{0x1000000000} * static_cast<std::uintptr_t>(index + 1));
}

/// Three sequences, T 50, Tk 70, H 8, Hkv 2, D 128.
FmhaArgs good() {
  FmhaArgs args;
  args.q = Tensor::contiguous(place(0), kGpu, DType::f16, {50, 8, 128});
  args.k = Tensor::contiguous(place(1), kGpu, DType::f16, {70, 2, 128});
  args.v = Tensor::contiguous(place(2), kGpu, DType::f16, {70, 2, 64});
  args.o = Tensor::contiguous(place(3), kGpu, DType::f16, {50, 8, 64});
  args.lse = Tensor::contiguous(place(4), kGpu, DType::f32, {8, 50});
  args.cu_seqlens_q = Tensor::contiguous(place(5), kGpu, DType::i32, {4});
  args.cu_seqlens_k = Tensor::contiguous(place(6), kGpu, DType::i32, {4});
  args.seqused_k = Tensor::contiguous(place(7), kGpu, DType::i32, {3});
  return args;
}
/// The same with 20 pages of 48 keys.
FmhaArgs paged() {
  FmhaArgs args = good();
  args.k = Tensor::contiguous(place(1), kGpu, DType::f16, {20, 48, 2, 128});
  args.v = Tensor::contiguous(place(2), kGpu, DType::f16, {20, 48, 2, 64});
  args.cu_seqlens_k.reset();
  args.block_table = Tensor::contiguous(place(8), kGpu, DType::i32, {3, 6});
  return args;
}

std::string said(FmhaArgs args, const std::function<void(FmhaArgs&)>& change) {
  change(args);
  try {
    ops::validate(args, false);
  } catch (const Error& error) {
    CHECK(error.stage == Stage::argument);
    return error.message;
  }
  return "";
}

void refused(const std::string& part, const FmhaArgs& args, const std::function<void(FmhaArgs&)>& change) {
  const std::string message = said(args, change);
  CHECK_MESSAGE(message.find(part) != std::string::npos, "'", part, "' is not in: ", message);
  CHECK_MESSAGE(message.find("allowed") != std::string::npos, message);
}

}  // namespace

TEST_CASE("what is allowed passes and allocates nothing") {
  CHECK(said(good(), [](FmhaArgs&) {}) == "");
  CHECK(said(good(), [](FmhaArgs& a) { a.seqused_k.reset(); }) == "");
  CHECK(said(paged(), [](FmhaArgs&) {}) == "");
  CHECK(said(paged(), [](FmhaArgs& a) { a.cu_seqlens_k = a.cu_seqlens_q, a.seqused_k.reset(); }) == "");
  CHECK(said(paged(), [](FmhaArgs& a) { a.block_table->strides[0] = 100; }) == "");
  const auto heads_first = [](FmhaArgs& a) { a.k.strides[1] = 128, a.k.strides[2] = 48 * 128; };
  CHECK(said(paged(), heads_first) == "");
  const FmhaArgs args = paged();
  const long before = testing::thread_allocations();
  ops::validate(args, false);
  CHECK(testing::thread_allocations() == before);
}

TEST_CASE("lists that are missing, of another type, length or place") {
  refused("cu_seqlens_q is absent", good(), [](FmhaArgs& a) { a.cu_seqlens_q.reset(); });
  refused("cu_seqlens_k is absent", good(), [](FmhaArgs& a) { a.cu_seqlens_k.reset(); });
  refused("seqused_k is absent", paged(), [](FmhaArgs& a) { a.seqused_k.reset(); });
  refused("cu_seqlens_q.dtype is f32", good(), [](FmhaArgs& a) { a.cu_seqlens_q->dtype = DType::f32; });
  refused("cu_seqlens_k.shape[0] (B + 1) is 5", good(), [](FmhaArgs& a) { a.cu_seqlens_k->shape[0] = 5; });
  refused("seqused_k.shape[0] (B) is 4", good(), [](FmhaArgs& a) { a.seqused_k->shape[0] = 4; });
  refused("cu_seqlens_q.shape[0] (B + 1) is 0", good(), [](FmhaArgs& a) { a.cu_seqlens_q->shape[0] = 0; });
  refused("seqused_k.device is cpu", good(), [](FmhaArgs& a) { a.seqused_k->device = {DeviceKind::cpu, 0}; });
  refused("cu_seqlens_q.strides[0]", good(), [](FmhaArgs& a) { a.cu_seqlens_q->strides[0] = 2; });
  refused("overlaps cu_seqlens_k", good(), [](FmhaArgs& a) { a.cu_seqlens_k->data = a.o.data; });
  refused("block_table.shape[0] (B) is 2", paged(), [](FmhaArgs& a) { a.block_table->shape[0] = 2; });
  refused("block_table.shape[1] (pages) is 100000000", paged(),
          [](FmhaArgs& a) { a.block_table->shape[1] = 100000000, a.block_table->strides[0] = 100000000; });
  refused("overlaps block_table", paged(), [](FmhaArgs& a) { a.block_table->data = a.lse->data; });
}

TEST_CASE("tensors of another form") {
  refused("q.rank is 4; allowed: 3 ([T, H, D], with cu_seqlens_q)", good(),
          [](FmhaArgs& a) { a.q = Tensor::contiguous(place(0), kGpu, DType::f16, {1, 50, 8, 128}); });
  refused("k.rank is 3; allowed: 4 ([pages, page size, Hkv, D], with block_table)", paged(),
          [](FmhaArgs& a) { a.k = good().k; });
  refused("k.shape[2] (D) is 64", good(), [](FmhaArgs& a) { a.k.shape[2] = 64; });
  refused("v.shape[1] (page size) is 16", paged(), [](FmhaArgs& a) { a.v.shape[1] = 16; });
  refused("k.shape[2] (Hkv) is 3", paged(), [](FmhaArgs& a) { a.k.shape[2] = a.v.shape[2] = 3; });
  refused("o.shape[2] (Dv) is 128", good(), [](FmhaArgs& a) { a.o.shape[2] = 128; });
  refused("lse.shape[0] (H) is 50", good(), [](FmhaArgs& a) { a.lse->shape[0] = 50; });
  refused("k.strides[0] (pages) is 12296", paged(), [](FmhaArgs& a) { a.k.strides[0] = 12296; });
  refused("alibi_slopes.shape[0] (B) is 2", good(),
          [](FmhaArgs& a) { a.alibi_slopes = Tensor::contiguous(place(9), kGpu, DType::f32, {2, 8}); });
}

TEST_CASE("pages become the power of two in them, and a kernel has one name") {
  CHECK(ops::fmha_kernel(good()).page_size == 0);
  CHECK(ops::fmha_kernel(good()).varlen);
  CHECK(ops::fmha_kernel(paged()).page_size == 16);
  FmhaConfig config;
  config.varlen = true;
  std::string names;
  for (const int size : {0, 1, 3, 48, 64, 192, 256}) {
    config.page_size = size;
    names += ops::fmha_request(config).name.substr(std::string("fmha_f16_d128").size()) + " ";
  }
  CHECK(names ==
        "_varlen _varlen_pages1 _varlen_pages1 _varlen_pages16 _varlen_pages64 _varlen_pages64 _varlen_pages64 ");
  config.varlen = false;
  CHECK_THROWS_AS(ops::validate(config), Error);
  CHECK(ops::fmha_row_blocks(300, 4, 128) == 6);
  CHECK(ops::fmha_box_rows(64, 160) == 32);
}
