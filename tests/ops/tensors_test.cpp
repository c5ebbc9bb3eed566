// Protects which tensors of a call each op reads and writes: what plans set addresses of, under which names, and the
// memory that a launch may touch.
#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <string>

#include <tilejit/ops.hpp>

#include "ops/common/tensor_list.hpp"
#include "ops/common/touched.hpp"
#include "ops/copy_rows/copy_rows.hpp"
#include "ops/limits.hpp"
#include "ops/op.hpp"
#include "ops/sum_parts/sum_parts.hpp"

namespace {

using namespace tj;
using testing::dense;

/// "q k >o": of a written tensor with a sign; "c=d" where the two may be one.
template <class Args>
std::string listed(const char* op, const Args& args) {
  const std::shared_ptr<void> copy = ops::find(op)->copy(&args);
  ops::TensorList list;
  ops::find(op)->tensors(copy.get(), list);
  std::string text;
  for (const ops::ListedTensor& each : list.entries()) {
    text += std::string(text.empty() ? "" : " ") + (each.written ? ">" : "") + each.name;
    if (each.may_be >= 0) text += std::string("=") + list.entries()[static_cast<std::size_t>(each.may_be)].name;
  }
  return text;
}

/// "0+48": bytes of the tensor at each place, as they begin in 2^50 bytes; ">" where they are written.
std::string touched(const char* op, const void* args) {
  const ops::Touched memory(ops::find(op), args);
  std::string text;
  for (const support::MemoryRange& range : memory.ranges()) {
    const std::uintptr_t place = range.begin >> 50, offset = range.begin - (place << 50);
    text += std::string(text.empty() ? "" : " ") + (range.written ? ">" : "") + std::to_string(place - 1) + ":";
    text += (offset > 0 ? std::to_string(offset) : "") + "+" + std::to_string(range.end - range.begin);
  }
  return text;
}

}  // namespace

TEST_CASE("attention") {
  FmhaArgs args;
  args.q = dense(0, DType::f16, {2, 4, 8, 64});
  args.k = dense(1, DType::f16, {2, 2, 16, 64});
  args.v = dense(2, DType::f16, {2, 2, 16, 64});
  args.o = dense(3, DType::f16, {2, 4, 8, 64});
  CHECK(listed("fmha", args) == "q k v >o");
  CHECK(touched("fmha", &args) == "0:+8192 1:+8192 2:+8192 >3:+8192");
  args.lse = dense(4, DType::f32, {2, 4, 8});
  CHECK(listed("fmha", args) == "q k v >o >lse");
  CHECK(touched("fmha", &args) == "0:+8192 1:+8192 2:+8192 >3:+8192 >4:+256");
}

TEST_CASE("products: what is added counts where it is multiplied by more than 0") {
  GemmArgs args;
  args.a = dense(0, DType::f16, {24, 32});
  args.b = dense(1, DType::f16, {40, 32});
  args.d = dense(2, DType::f32, {24, 40});
  CHECK(listed("gemm", args) == "a b >d");
  CHECK(touched("gemm", &args) == "0:+1536 1:+2560 >2:+3840");
  args.c = dense(3, DType::f32, {24, 40});
  args.bias = dense(4, DType::f32, {40});
  CHECK(listed("gemm", args) == "a b >d bias");
  args.beta = 0.5f;
  CHECK(listed("gemm", args) == "a b >d=c c=d bias");
  CHECK(touched("gemm", &args) == "0:+1536 1:+2560 >2:+3840 3:+3840 4:+160");
  args.c->strides[0] = 44;
  CHECK(listed("gemm", args) == "a b >d c bias");
  args.scale_a = dense(5, DType::f32, {1});
  args.scale_b = dense(6, DType::f32, {1});
  args.bias.reset();
  CHECK(listed("gemm", args) == "a b >d c scale_a scale_b");
  CHECK(touched("gemm", &args) == "0:+1536 1:+2560 >2:+3840 3:+4208 5:+4 6:+4");
}

TEST_CASE("chunk output and its lists") {
  ChunkOArgs args;
  args.q = dense(0, DType::bf16, {64, 1, 128});
  args.k = dense(1, DType::bf16, {64, 1, 128});
  args.v_new = dense(2, DType::bf16, {64, 2, 128});
  args.h = dense(3, DType::bf16, {1, 2, 128, 128});
  args.o = dense(4, DType::bf16, {64, 2, 128});
  CHECK(listed("chunk_o", args) == "q k v_new h >o");
  args.g_cu = dense(5, DType::f32, {64, 2});
  CHECK(listed("chunk_o", args) == "q k v_new h >o g_cu");
  args.cu_seqlens = dense(6, DType::i32, {2});
  args.chunk_indices = dense(7, DType::i32, {1, 2});
  args.total_chunks = dense(8, DType::i32, {1});
  CHECK(listed("chunk_o", args) == "q k v_new h >o g_cu cu_seqlens chunk_indices total_chunks");
  CHECK(touched("chunk_o", &args) == "0:+16384 1:+16384 2:+32768 3:+65536 >4:+32768 5:+512 6:+8 7:+8 8:+4");
  ChunkIndicesArgs lists;
  lists.cu_seqlens = dense(0, DType::i32, {4});
  lists.chunk_indices = dense(1, DType::i32, {8, 2});
  lists.total_chunks = dense(2, DType::i32, {1});
  CHECK(listed("chunk_indices", lists) == "cu_seqlens >chunk_indices >total_chunks");
  CHECK(touched("chunk_indices", &lists) == "0:+16 >1:+64 >2:+4");
}

TEST_CASE("the gated delta rule and its states, which change in place") {
  GatedDeltaRuleArgs args;
  args.q = args.k = dense(0, DType::bf16, {2, 1, 64});
  args.v = dense(1, DType::bf16, {2, 1, 64});
  args.o = dense(2, DType::bf16, {2, 1, 64});
  CHECK(listed("gated_delta_rule", args) == "q k v >o");
  args.gate = args.beta = dense(3, DType::f32, {2, 1});
  args.a_log = args.dt_bias = dense(4, DType::f32, {1});
  args.initial_state = args.final_state = dense(5, DType::f32, {3, 1, 64, 64});
  args.token_states = dense(6, DType::f32, {1, 2, 1, 64, 64});
  args.initial_scales = args.final_scales = dense(9, DType::f32, {3, 1, 64});
  args.token_scales = dense(10, DType::f32, {1, 2, 1, 64});
  args.read_slots = args.write_slots = dense(7, DType::i32, {1});
  args.cu_seqlens = dense(8, DType::i32, {2});
  CHECK(listed("gated_delta_rule", args) ==
        "q k v >o gate a_log dt_bias beta initial_state=final_state >final_state=initial_state >token_states "
        "initial_scales=final_scales >final_scales=initial_scales >token_scales read_slots "
        "write_slots cu_seqlens");
  CHECK(
      touched("gated_delta_rule", &args) ==
      "0:+256 0:+256 1:+256 >2:+256 3:+8 4:+4 4:+4 3:+8 5:+49152 >5:+49152 >6:+32768 9:+768 >9:+768 >10:+512 7:+4 7:+4 "
      "8:+8");
}

TEST_CASE(
    "ops that other ops' kernels are made of: whole words are read, and the rest of a row's last 16 bytes written") {
  ops::CopyRowsArgs rows{dense(0, DType::f16, {3, 41}), dense(1, DType::f16, {3, 41})};
  rows.destination.strides[0] = 48;
  testing::move(rows.source, 2);
  CHECK(touched("copy_rows", &rows) == "0:+248 >1:+288");
  GemmArgs call;
  call.d = dense(2, DType::f16, {5, 7});
  call.c = dense(3, DType::f16, {5, 7});
  ops::SumPartsArgs sums{call, dense(0, DType::f32, {4, 5, 8}), 4};
  CHECK(touched("sum_parts", &sums) == "0:+640 >2:+70");
  call.beta = 1;
  call.bias = dense(4, DType::f16, {7});
  CHECK(touched("sum_parts", &sums) == "0:+640 3:+70 4:+14 >2:+70");
  CHECK(ops::Touched().ranges().empty());
  CHECK(ops::Touched(nullptr, nullptr).ranges().empty());
}
