// Protects the numbers in what ops allow: of each limit the last value that passes and the first that does not, on both
// sides. One table an op; what the words of a refusal are is for <op>_validate_test.cpp.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/ops.hpp>

#include "arch/arch.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "ops/common/trial.hpp"
#include "ops/copy_rows/copy_rows.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/scores.hpp"
#include "ops/fmha/validate.hpp"
#include "ops/limits.hpp"
#include "ops/op.hpp"
#include "ops/sum_parts/sum_parts.hpp"
#include "support/expect.hpp"

using namespace tj;
using namespace tj::testing;

TEST_CASE("attention") {
  FmhaArgs good;
  good.q = dense(0, DType::f16, {1, 2, 3, 64});
  good.k = dense(1, DType::f16, {1, 1, 5, 64});
  good.v = dense(2, DType::f16, {1, 1, 5, 64});
  good.o = dense(3, DType::f16, {1, 2, 3, 64});
  good.lse = dense(4, DType::f32, {1, 2, 3});
  const auto queries = [](FmhaArgs& args, int axis, std::int64_t size) {
    for (Tensor* each : {&args.q, &args.o, &*args.lse}) resize(*each, axis, size);
  };
  const auto keys = [](FmhaArgs& args, int axis, std::int64_t size) {
    for (Tensor* each : {&args.k, &args.v}) resize(*each, axis, size);
  };
  const std::int64_t rows = 2 * 3 * 64 * 2;  // bytes of o
  check_limits<FmhaArgs>(
      good, [](const FmhaArgs& args) { ops::validate(args, false); },
      {
          {"(Sk)", {0, 1, kMost}, {-1, kMost + 1}, [&](auto& a, auto value) { keys(a, 2, value); }},
          {"(Sq)", {0, 1, 64, 65}, {-1}, [&](auto& a, auto value) { queries(a, 2, value); }},
          {"(H)", {1, kMost}, {0, kMost + 1}, [&](auto& a, auto value) { queries(a, 1, value); }},
          {"(B)",
           {0, 1, kMost / 2},
           {-1, kMost + 1},
           [&](auto& a, auto value) {
             queries(a, 0, value);
             keys(a, 0, value);
           }},
          {"B * H * ceil(Sq / 64)",
           {kMost / 2},
           {kMost / 2 + 1},
           [&](auto& a, auto value) {
             queries(a, 0, value);
             keys(a, 0, value);
           }},
          {"B * H * ceil(Sq / 64)",
           {64},
           {65},
           [&](auto& a, auto value) {
             queries(a, 1, kMost);
             queries(a, 2, value);
           }},
          {"q.strides[2]",
           {64, 72, (kMostStride - 16) / 2},
           {-64, 0, 65, 68, 71, kMostStride / 2},
           [](auto& a, auto value) {
             a.q.strides[1] = 8;
             a.q.strides[2] = value;
           }},
          {"v.strides[1]",
           {8, (kMostStride - 16) / 2},
           {0, 4, kMostStride / 2},
           [&](auto& a, auto value) {
             queries(a, 1, 2);
             keys(a, 1, 2);
             a.v.strides[1] = value;
           }},
          {"o.strides[2]",
           {64, 65, (kMostStride - 2) / 2},
           {63, kMostStride / 2},
           [](auto& a, auto value) {
             a.o.strides[1] = 1 << 10;
             if (value > 1000) a.o.strides[1] = 64;
             a.o.strides[2] = value;
           }},
          {"o.strides[1]", {192, 193}, {191, 129}, [](auto& a, auto value) { a.o.strides[1] = value; }},
          {"lse.strides[1]",
           {3, 4, kMostStride / 4 - 1},
           {2, 0, kMostStride / 4},
           [](auto& a, auto value) { a.lse->strides[1] = value; }},
          {"q.data", {0, 16, -16, 32}, {1, 2, 8, 15, 17, 24}, [](auto& a, auto value) { move(a.q, value); }},
          {"k.data", {16}, {8}, [](auto& a, auto value) { move(a.k, value); }},
          {"v.data", {16}, {8}, [](auto& a, auto value) { move(a.v, value); }},
          {"o.data", {2, 6, 16}, {1, 3}, [](auto& a, auto value) { move(a.o, value); }},
          {"lse.data", {4, 8}, {1, 2, 3, 6}, [](auto& a, auto value) { move(*a.lse, value); }},
          {"o at",
           {rows, -rows, rows + 2},
           {rows - 2, 2 - rows, 0},
           [](auto& a, auto value) {
             a.o.data = a.q.data;
             move(a.o, value);
           }},
          {"lse at",
           {24, -24},
           {20, -20, 0},
           [](auto& a, auto value) {
             a.o.data = place(6);
             a.lse->data = a.k.data;
             move(*a.lse, value < 0 ? value : value + 5 * 64 * 2 - 24);
           }},
          {"address space",
           {rows + 2, rows + 4},
           {rows, rows - 2, 2},
           [](auto& a, auto value) {
             a.o.data = reinterpret_cast<void*>(~std::uint64_t{0} - static_cast<std::uint64_t>(value) + 1);
           }},
      });
  check_limits<FmhaConfig>(
      {}, [](const FmhaConfig& config) { ops::validate(config); },
      {
          {"head_dim is",
           {8, 64, 72, 128, 192, 256},
           {-8, 0, 4, 63, 65, 127, 129, 260, 264},
           [](auto& c, auto value) { c.head_dim = static_cast<int>(value); }},
          {"value_dim is",
           {0, 8, 64, 248, 256},
           {-8, 4, 100, 264},
           [](auto& c, auto value) { c.value_dim = static_cast<int>(value); }},
          {"dtype is", {0, 1}, {2, 3, 4}, [](auto& c, auto value) { c.dtype = static_cast<DType>(value); }},
      });
  // Scales of the fast form, and the form of a call.
  for (const auto& [value, general] : {std::pair{1e-6f, false},
                                       {1.0f, false},
                                       {0.5f, false},
                                       {9.9e-7f, true},
                                       {1.0000001f, true},
                                       {0.0f, true},
                                       {-1.0f, true},
                                       {1e-7f, true}}) {
    const float scale = value;  // clang 14 captures no binding
    CAPTURE(scale);
    FmhaArgs args;
    args.scale = scale;
    CHECK(ops::fmha_needs_general_scale(args) == general);
  }
  // Behind a softcap it is the cap that counts.
  for (const auto& [value, general] : {std::pair{1e-6f, false}, {1024.0f, false}, {9.9e-7f, true}, {1024.5f, true}}) {
    const float cap = value;
    CAPTURE(cap);
    FmhaArgs args;
    args.scale = -5.0f;
    args.softcap = cap;
    CHECK(ops::fmha_needs_general_scale(args) == general);
  }
}

TEST_CASE("chunk output and the list of chunks") {
  check_limits<ChunkOConfig>({}, [](const ChunkOConfig& config) { ops::validate(config); },
                             {{"v_heads_per_head is", {1, kMost}, {0, -1, kMost + 1}, [](auto& c, auto value) {
                                 c.v_heads_per_head = static_cast<int>(value);
                               }}});
  ChunkOArgs good;
  good.q = dense(0, DType::bf16, {192, 1, 128});
  good.k = dense(1, DType::bf16, {192, 1, 128});
  good.v_new = dense(2, DType::bf16, {256, 2, 128});
  good.h = dense(3, DType::bf16, {4, 2, 128, 128});
  good.o = dense(4, DType::bf16, {192, 2, 128});
  good.g_cu = dense(5, DType::f32, {192, 2});
  good.seq_length = 96;  // two sequences of two chunks
  check_limits<ChunkOArgs>(
      good, [](const ChunkOArgs& args) { ops::validate(args, false); },
      {
          {"seq_length is",
           {192, 96, 64},
           {0, -96, 193, 95, 97, 384},
           [](auto& a, auto value) { a.seq_length = value; }},
          {"h.shape[0]", {4, 5}, {3, 1}, [](auto& a, auto value) { resize(a.h, 0, value); }},
          {"v_new.shape[0]", {256, 257}, {255, 192, 64, 63}, [](auto& a, auto value) { resize(a.v_new, 0, value); }},
          {"v_new.shape[0]",
           {64},
           {63, 1},
           [](auto& a, auto value) {
             a.seq_length = 64;
             for (Tensor* each : {&a.q, &a.k, &a.o, &*a.g_cu}) resize(*each, 0, 64);
             resize(a.v_new, 0, value);
           }},
          {"R / 64 * Hv",
           {64},
           {65},
           [](auto& a, auto value) {
             for (Tensor* each : {&a.o, &a.v_new, &a.h, &*a.g_cu}) resize(*each, 1, value);
             resize(a.v_new, 0, kMost);
           }},
          {"v_new.strides[0]",
           {256, kMostStride / 128 - 8},
           {kMostStride / 128, 128 * 2 + 4, 0},
           [](auto& a, auto value) { a.v_new.strides[0] = value; }},
          {"q.strides[0]",
           {128, 136, kMostStride / 2 - 8},
           {132, 0, kMostStride / 2},
           [](auto& a, auto value) { a.q.strides[0] = value; }},
          {"g_cu.strides[0]",
           {2, 3, kMostStride / 4 - 1},
           {0, kMostStride / 4},
           [](auto& a, auto value) { a.g_cu->strides[0] = value; }},
          {"g_cu.data", {4}, {2, 1}, [](auto& a, auto value) { move(*a.g_cu, value); }},
          {"(Hv)",
           {2, 4},
           {1, 3, 5},
           [](auto& a, auto value) {
             for (Tensor* each : {&a.q, &a.k}) resize(*each, 1, 2);
             resize(a.o, 1, value);
             resize(a.v_new, 1, value);
             resize(a.h, 1, value);
             resize(*a.g_cu, 1, value);
           }},
          {"overlaps",
           {192 * 2 * 128 * 2, -192 * 2 * 4},
           {192 * 2 * 128 * 2 - 16, 4 - 192 * 2 * 4},
           [](auto& a, auto value) {
             a.g_cu->data = a.o.data;
             move(*a.g_cu, value);
           }},
      });
  ChunkIndicesArgs lists;
  lists.cu_seqlens = dense(0, DType::i32, {4});
  lists.chunk_indices = dense(1, DType::i32, {8, 2});
  lists.total_chunks = dense(2, DType::i32, {1});
  check_limits<ChunkIndicesArgs>(
      lists, [](const ChunkIndicesArgs& args) { ops::find("chunk_indices")->validate(&args, false); },
      {
          {"cu_seqlens.shape[0]",
           {1, kMost},
           {0, kMost + 1},
           [](auto& a, auto value) { resize(a.cu_seqlens, 0, value); }},
          {"chunk_indices.shape[0]",
           {0, 1, kMost},
           {-1, kMost + 1},
           [](auto& a, auto value) { resize(a.chunk_indices, 0, value); }},
          {"chunk_indices.shape[1]", {2}, {1, 3}, [](auto& a, auto value) { resize(a.chunk_indices, 1, value); }},
          {"total_chunks.shape[0]", {1}, {0, 2}, [](auto& a, auto value) { resize(a.total_chunks, 0, value); }},
          {"chunk_indices.strides[0]",
           {2, 4, kMostStride / 4 - 2},
           {0, 1, 3, kMostStride / 4},
           [](auto& a, auto value) { a.chunk_indices.strides[0] = value; }},
          {"chunk_indices.data", {8, 16}, {4, 2}, [](auto& a, auto value) { move(a.chunk_indices, value); }},
          {"cu_seqlens.data", {4}, {2}, [](auto& a, auto value) { move(a.cu_seqlens, value); }},
          {"total_chunks.data", {4}, {2}, [](auto& a, auto value) { move(a.total_chunks, value); }},
          {"overlaps",
           {16, -64},
           {8, -56},
           [](auto& a, auto value) {
             a.chunk_indices.data = a.cu_seqlens.data;
             move(a.chunk_indices, value);
           }},
          {"overlaps",
           {64, -4},
           {60, 0},
           [](auto& a, auto value) {
             a.total_chunks.data = a.chunk_indices.data;
             move(a.total_chunks, value);
           }},
          {"overlaps",
           {16, -4},
           {12, 0},
           [](auto& a, auto value) {
             a.total_chunks.data = a.cu_seqlens.data;
             move(a.total_chunks, value);
           }},
      });
}

TEST_CASE("what serves products: copies of rows and sums of parts") {
  ops::CopyRowsArgs rows{dense(0, DType::f16, {3, 40}), dense(1, DType::f16, {3, 40})};
  rows.source.strides[0] = 41;
  const auto both = [](ops::CopyRowsArgs& args, int axis, std::int64_t size) {
    resize(args.source, axis, size), resize(args.destination, axis, size);
  };
  check_limits<ops::CopyRowsArgs>(
      rows, [](const ops::CopyRowsArgs& args) { ops::find("copy_rows")->validate(&args, false); },
      {
          {"copy_rows", {1, kMost}, {0, -1, kMost + 1}, [&](auto& a, auto value) { both(a, 0, value); }},
          {"copy_rows", {8, kMost}, {0, kMost + 8}, [&](auto& a, auto value) { both(a, 1, value); }},
          {"copy_rows",
           {kMost / 2},
           {kMost / 2 + 1, kMost},
           [](auto& a, auto value) {
             a.source = dense(0, DType::f16, {2, value, 8});
             a.destination = dense(1, DType::f16, {2, value, 8});
           }},
          {"ranks",
           {2, 3},
           {1, 4},
           [](auto& a, auto value) {
             for (Tensor* each : {&a.source, &a.destination})
               each->rank = static_cast<int>(value), each->shape = {1, 1, 8, 8, 1}, each->strides = {64, 64, 8, 1, 1},
               each->shape[static_cast<std::size_t>(value - 1)] = 8,
               each->strides[static_cast<std::size_t>(value - 1)] = 1;
           }},
          {"copy_rows", {1}, {2, 40}, [](auto& a, auto value) { a.source.strides[1] = value; }},
          {"16 bytes", {40, 48}, {41, 44, 36}, [](auto& a, auto value) { a.destination.strides[0] = value; }},
          {"16 bytes", {16}, {8, 2}, [](auto& a, auto value) { move(a.destination, value); }},
          {"copy_rows", {0, 2, 8}, {}, [](auto& a, auto value) { move(a.source, value); }},
          {"equal shapes",
           {0},
           {1, 2, 3},
           [](auto& a, auto value) {
             if (value == 1) a.source.dtype = DType::bf16;
             if (value == 2) a.source.device.index = 1;
             if (value == 3) a.source.shape[0] = 2;
           }},
          {"copy_rows",
           {0},
           {1, 2},
           [](auto& a, auto value) {
             if (value > 0) (value == 1 ? a.source : a.destination).data = nullptr;
           }},
      });
  GemmArgs call;
  call.d = dense(2, DType::f16, {5, 7});
  ops::SumPartsArgs sums{call, dense(3, DType::f32, {4, 5, 8}), 4};
  sums.sums.shape[2] = 7;
  check_limits<ops::SumPartsArgs>(
      sums, [](const ops::SumPartsArgs& args) { ops::find("sum_parts")->validate(&args, false); },
      {
          {"parts", {4}, {3, 5, -4, 0}, [](auto& a, auto value) { a.parts = static_cast<int>(value); }},
          {"sums are", {5}, {4, 6}, [](auto& a, auto value) { a.sums.shape[1] = value; }},
          {"sums are", {7}, {6, 8}, [](auto& a, auto value) { a.sums.shape[2] = value; }},
          {"sums are", {8, 12, 16}, {7, 9, 10}, [](auto& a, auto value) { a.sums.strides = {5 * value, value, 1}; }},
          {"sums are", {40}, {39, 41, 44}, [](auto& a, auto value) { a.sums.strides[0] = value; }},
          {"sums are", {1}, {2}, [](auto& a, auto value) { a.sums.strides[2] = value; }},
          {"sums are", {16}, {8, 4}, [](auto& a, auto value) { move(a.sums, value); }},
          {"sums are", {3}, {2}, [](auto& a, auto value) { a.sums.rank = static_cast<int>(value); }},
          {"sums are",
           {0},
           {1, 2},
           [](auto& a, auto value) {
             if (value == 1) a.sums.dtype = DType::f16;
             if (value == 2) a.sums.device.index = 1;
           }},
      });
}

TEST_CASE("sizes on a command line, which the model runs") {
  const arch::Arch& arch = *arch::find("sm_90a");
  for (const auto& [op_name, flag, least] :
       {std::tuple{"copy_rows", "rows", 1}, {"sum_parts", "n", 1}, {"chunk_indices", "lengths", 0}}) {
    const char* op = op_name;
    CAPTURE(op);
    const auto said = [&, name = op, key = flag](std::int64_t value) {
      try {
        ops::find(name)->trials({{key, {std::to_string(value)}}}, arch);
      } catch (const Error& error) {
        return error.message;
      }
      return std::string();
    };
    CHECK(said(least) == "");
    CHECK(said(1 << 20) == "");
    CHECK(has(said(least - 1), "allowed: "));
    CHECK(has(said((1 << 20) + 1), "allowed: "));
  }
}
