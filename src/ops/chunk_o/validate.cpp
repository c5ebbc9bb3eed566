// The checks behind ops::validate(ChunkOArgs); the words of those that every op makes are tensor_checks.hpp's.
//
// Decides the order of the checks. Invariant: a request that passes needs no further check before its tensor maps are
// built.
#include <cmath>

#include "ops/chunk_o/chunk_o.hpp"
#include "ops/chunk_o/fields.hpp"
#include "ops/chunk_o/params.cuh"
#include "ops/common/empty.hpp"
#include "ops/common/tensor_checks.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using chunk_o::kWidth;
using support::cat;
static_assert(chunk_o::kChunk == kChunkTokens);

constexpr const char* kOp = "chunk_o";
constexpr const char *kQ[] = {"T", "H", "D"}, *kO[] = {"T", "Hv", "D"}, *kV[] = {"R", "Hv", "D"}, *kG[] = {"T", "Hv"},
                     *kN[] = {"N + 1"}, *kIndices[] = {"n", "2"}, *kOne[] = {"1"};
constexpr const char *kStates[] = {"C", "Hv", "V", "K"}, *kStatesTransposed[] = {"C", "Hv", "K", "V"};

/// Checks a tensor that the copy engine brings: bf16, rows at multiples of 16 bytes.
void check_copied(const Named& t, const Device& device, unsigned may_be_empty) {
  check_form(t, may_be_empty);
  check_dtype(t, DType::bf16, "");
  check_device(t, device, "q");
  check_strides(t, kCopyAlignmentBytes, t.rank - 1);
  check_alignment(t, kCopyAlignmentBytes);
}

/// A dense list of i32 that the device reads.
void check_list(const Named& t, const Device& device, unsigned may_be_empty) {
  check_form(t, may_be_empty);
  check_dtype(t, DType::i32, "");
  check_device(t, device, "q");
  Size dense = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    if (t.at(i) > 1 && t.stride(i) != dense)
      refuse(kOp, Code::unsupported,
             cat(t.name, ".strides[", i, "] (", t.axes[i], ") is ", t.stride(i), "; allowed: ", dense,
                 " (a contiguous list)"));
    dense *= t.at(i);
  }
  check_alignment(t, size_of(DType::i32));
}

void check_lists(const ChunkOArgs& args, const Named& o, const Range& o_range) {
  const bool any = args.cu_seqlens || args.chunk_indices || args.total_chunks,
             all = args.cu_seqlens && args.chunk_indices && args.total_chunks;
  if (any && !all) {
    const char* missing = !args.cu_seqlens ? "cu_seqlens" : !args.chunk_indices ? "chunk_indices" : "total_chunks";
    refuse(kOp, Code::invalid_argument,
           cat(missing,
               " is absent; allowed: cu_seqlens, chunk_indices and total_chunks together, or none of them and a "
               "seq_length"));
  }
  if (!any) return;
  if (args.seq_length != 0)
    refuse(kOp, Code::invalid_argument,
           cat("seq_length is ", args.seq_length, "; allowed with cu_seqlens: 0 (which gives the lengths)"));
  const Named lists[] = {
      {kOp, "cu_seqlens", *args.cu_seqlens, kN, 1, "[N + 1]"},
      {kOp, "chunk_indices", *args.chunk_indices, kIndices, 2, "[n, 2]"},
      {kOp, "total_chunks", *args.total_chunks, kOne, args.total_chunks->rank == 0 ? 0 : 1, "[1], or rank 0"}};
  for (const Named& t : lists) {
    check_list(t, args.q.device, chunk_o_nothing(args) ? axis_bits({0}) : 0);
    check_apart(o, o_range, t, range_of(t));
  }
  check_same(lists[1], 1, 2, "a sequence and a chunk of it");
  if (lists[2].rank == 1) check_same(lists[2], 0, 1, "one number");
}

/// Chunks of sequences of one length, and whether there is a state and a block of rows for each.
void check_length(const ChunkOArgs& args) {
  const Size tokens = args.q.shape[0], length = args.seq_length;
  if (length < 1 || length > tokens || tokens % length != 0)
    refuse(kOp, Code::invalid_argument,
           cat("seq_length is ", length, "; allowed without cu_seqlens: 1 to ", tokens, ", of which q.shape[0] (T) ",
               tokens, " is a multiple"));
  const Size chunks = tokens / length * ((length + chunk_o::kChunk - 1) / chunk_o::kChunk);
  if (args.h.shape[0] < chunks)
    refuse(kOp, Code::invalid_argument,
           cat("h.shape[0] (C) is ", args.h.shape[0], "; allowed: at least ", chunks, ", the chunks"));
  if (args.v_new.shape[0] / chunk_o::kChunk < chunks)
    refuse(kOp, Code::invalid_argument,
           cat("v_new.shape[0] (R) is ", args.v_new.shape[0], "; allowed: at least ", chunks * chunk_o::kChunk, ", ",
               chunk_o::kChunk, " rows for each of ", chunks, " chunks"));
}

/// Items are counted in 32 bits.
void check_items(const ChunkOArgs& args) {
  const Size chunks = args.v_new.shape[0] / chunk_o::kChunk, heads = args.o.shape[1];
  if (chunks > kMaxSize / heads)
    refuse(kOp, Code::invalid_argument,
           cat("v_new.shape[0] (R) is ", args.v_new.shape[0], " with ", heads, " heads; allowed: R / ", chunk_o::kChunk,
               " * Hv of at most ", kMaxSize));
}

void check_gates(const ChunkOArgs& args, const Named& o, const Range& o_range) {
  const Named g{kOp, "g_cu", *args.g_cu, kG, 2, "[T, Hv]"};
  check_form(g, axis_bits({0}));
  check_dtype(g, DType::f32, "");
  check_device(g, args.q.device, "q");
  check_same(g, 0, args.q.shape[0], "q.shape[0]");
  check_same(g, 1, args.o.shape[1], "o.shape[1]");
  check_strides(g, size_of(DType::f32), 1);
  check_alignment(g, size_of(DType::f32));
  check_apart(o, o_range, g, range_of(g));
}

void check_shapes(const Named& q, const Named& k, const Named& v, const Named& h, const Named& o, bool nothing) {
  check_same(q, 2, kWidth, "the only size there are kernels for");
  for (int i = 0; i < 3; ++i) check_same(k, i, q.at(i), "q's shape");
  check_same(o, 0, q.at(0), "q.shape[0]");
  check_same(o, 2, kWidth, "the only size there are kernels for");
  if (o.at(1) % q.at(1) != 0)
    refuse(kOp, Code::invalid_argument,
           cat("o.shape[1] (Hv) is ", o.at(1), "; allowed: multiples of q.shape[1] (H), ", q.at(1)));
  check_same(v, 1, o.at(1), "o.shape[1]");
  check_same(v, 2, kWidth, "the only size there are kernels for");
  if (v.at(0) < chunk_o::kChunk && !nothing)
    refuse(kOp, Code::invalid_argument,
           cat("v_new.shape[0] (R) is ", v.at(0), "; allowed: at least ", chunk_o::kChunk, ", the rows of a chunk"));
  if (v.at(0) > 1 && v.stride(0) >= kMaxStrideBytes / (2 * chunk_o::kChunk))
    refuse(kOp, Code::unsupported,
           cat("v_new.strides[0] (R) is ", v.stride(0), "; allowed: below ", kMaxStrideBytes / (2 * chunk_o::kChunk),
               " elements (", chunk_o::kChunk, " rows within 2^40 bytes)"));
  check_same(h, 1, o.at(1), "o.shape[1]");
  for (const int i : {2, 3}) check_same(h, i, kWidth, "the only size there are kernels for");
}

void check_stages(int stages) {
  if (stages < 0 || stages > kMostChunkOStages)
    refuse(kOp, Code::invalid_argument,
           cat("num_stages is ", stages, "; allowed: 0 (as many as fit), and of 1 to ", kMostChunkOStages,
               " those that fit the shared memory of the target's blocks"));
}

}  // namespace

bool chunk_o_nothing(const ChunkOArgs& args) {
  return is_empty(args.o) || (args.cu_seqlens && args.cu_seqlens->shape[0] == 1);
}

void validate(const ChunkOConfig& config) {
  if (config.v_heads_per_head < 1 || config.v_heads_per_head > kMaxSize)
    refuse(kOp, Code::invalid_argument,
           cat("v_heads_per_head is ", config.v_heads_per_head, "; allowed: 1 to ", kMaxSize));
  check_stages(config.num_stages);
}

void validate(const ChunkOArgs& args, bool on_model) {
  const Named q{kOp, "q", args.q, kQ, 3, "[T, H, 128]"}, k{kOp, "k", args.k, kQ, 3, "[T, H, 128]"},
      v{kOp, "v_new", args.v_new, kV, 3, "[R, Hv, 128]"},
      h{kOp, "h", args.h, args.h_transposed ? kStatesTransposed : kStates, 4, "[C, Hv, 128, 128]"},
      o{kOp, "o", args.o, kO, 3, "[T, Hv, 128]"};
  // Without tokens or sequences there need be neither rows nor states.
  const bool nothing = chunk_o_nothing(args);
  const unsigned first = nothing ? axis_bits({0}) : 0;
  check_form(q, first);
  check_place(q, on_model);
  for (const Named* t : {&q, &k, &v, &h, &o}) check_copied(*t, args.q.device, first);
  check_shapes(q, k, v, h, o, nothing);
  check_items(args);
  const Range o_range = range_of(o);
  check_no_self_overlap(o);
  for (const Named* t : {&q, &k, &v, &h}) check_apart(o, o_range, *t, range_of(*t));
  if (args.g_cu) check_gates(args, o, o_range);
  check_lists(args, o, o_range);
  if (!args.cu_seqlens && !is_empty(args.o)) check_length(args);
  if (args.scale && !std::isfinite(*args.scale))
    refuse(kOp, Code::invalid_argument, cat("scale is ", *args.scale, "; allowed: any finite value"));
  check_max_sms(kOp, args.max_sms);
  check_stages(args.num_stages);
}

}  // namespace tj::ops
