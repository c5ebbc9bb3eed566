/* Groups of ranks in C, as dist.hpp has them.
 *
 * A part of tilejit.h, which includes it. */
#include "tilejit.h" /* before the guard: it includes this file, in its order */

#ifndef TILEJIT_DIST_H
#define TILEJIT_DIST_H

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's member of a group, as tj::dist::Group. */
typedef struct tj_group tj_group;

/* The rows that each rank holds: the numbers of tj::dist::Split, which has an example of each. */
enum { TJ_SPLIT_CONTIGUOUS = 0, TJ_SPLIT_ZIGZAG = 1, TJ_SPLIT_STRIPED = 2 };
/* The bytes that travel in attention: numbers of tj::dist::Exchange. */
enum { TJ_EXCHANGE_AUTO = 0, TJ_EXCHANGE_KEYS = 1, TJ_EXCHANGE_HEADS = 2 };
#define TJ_GROUP_ID_BYTES 128

/* Attention over a split sequence; shapes and meaning as tj::dist::ContextFmhaArgs says. */
typedef struct tj_context_fmha_args {
  uint64_t size;
  const tj_tensor* q;            /* [B, H, S, D], rows of this rank */
  const tj_tensor* k;            /* [B, Hkv, S, D] */
  const tj_tensor* v;            /* [B, Hkv, S, Dv] */
  const tj_tensor* o;            /* [B, H, S, Dv], written */
  const tj_tensor* lse;          /* f32 [B, H, S], written; null: not wanted */
  const tj_tensor* alibi_slopes; /* f32 [H] or [B, H], with cu_seqlens [N, H]; null: none */
  const tj_tensor* sinks;        /* f32 [H]; null: none */
  const int64_t* lengths;        /* rows of each rank; null: as many as this one's */
  uint64_t lengths_count;        /* of these numbers: the group's size, or 0 */
  int64_t window_left;           /* looked at only when has_window is not 0: keys that a query sees before its place */
  float scale;                   /* looked at only when has_scale is not 0; else D^-1/2 */
  int32_t has_scale;
  int32_t has_window;
  int32_t causal;
  int32_t split;        /* TJ_SPLIT_CONTIGUOUS, ... */
  int32_t max_sms;      /* multiprocessors that the launches may fill; 0: all */
  float softcap;        /* 0: off */
  int32_t heads_first;  /* memory of k and v: not 0: [B, Hkv, S, D], else [B, S, Hkv, D] */
  int64_t window_right; /* looked at only when has_window is not 0: keys behind its place; -1: all, and 0 is none */
  const tj_tensor* cu_seqlens; /* i32 [N + 1]; null: none. B is 1 with it, and heads are exchanged */
  int32_t exchange;            /* TJ_EXCHANGE_AUTO, ... */
  int32_t reserved;            /* 0 */
} tj_context_fmha_args;

/* Attention over a cache that ranks hold together; meaning as tj::dist::ContextDecodeArgs says. */
typedef struct tj_context_decode_args {
  uint64_t size;
  const tj_fmha_args* attention; /* over this rank's keys alone */
} tj_context_decode_args;

/* Products beside their collectives; shapes and meaning as tj::dist::AllGatherGemmArgs and GemmReduceScatterArgs say.
 */
typedef struct tj_split_gemm_args {
  uint64_t size;
  const tj_gemm_args* product;
  const int64_t* lengths; /* rows of each rank; null: as many as this one's */
  uint64_t lengths_count; /* of these numbers: the group's size, or 0 */
} tj_split_gemm_args;

/* Writes an id of TJ_GROUP_ID_BYTES bytes, which one rank makes and brings to all others. */
TJ_C_API tj_status tj_group_unique_id(void* id);
/* Joins a group by NCCL; returns when all ranks have joined. On failure *out is null. The runtime must live longer. */
TJ_C_API tj_status tj_group_create(tj_runtime* runtime, const void* id, int32_t rank, int32_t ranks, tj_device device,
                                   tj_group** out);
/* A member that sends by the caller's ncclComm_t, which must live longer. */
TJ_C_API tj_status tj_group_of_comm(tj_runtime* runtime, void* nccl_comm, tj_device device, tj_group** out);
/* Writes `ranks` members on the CPU model into `out`, each for a thread of its own. */
TJ_C_API tj_status tj_group_on_model(tj_runtime* runtime, int32_t ranks, tj_group** out);
/* Null is ignored. Work of this rank has ended. The member meets those of the other ranks: up to 25 s pass where one
 * does not come. Members of one process by NCCL are destroyed in threads of their own. */
TJ_C_API void tj_group_destroy(tj_group* group);
/* Gets the kernels of a call ready. Sends nothing. */
TJ_C_API tj_status tj_group_prepare(tj_group* group, const tj_context_fmha_args* args);
/* Every rank's call together is one call of attention. stream: as tj_run() takes it. */
TJ_C_API tj_status tj_group_fmha(tj_group* group, const tj_context_fmha_args* args, void* stream);
/* Attention over a split cache. Waits, errors and streams are those of tj_group_fmha(). */
TJ_C_API tj_status tj_group_prepare_decode(tj_group* group, const tj_context_decode_args* args);
TJ_C_API tj_status tj_group_decode(tj_group* group, const tj_context_decode_args* args, void* stream);
/* The same of products: rows of a are gathered, or sums over parts of K are scattered. */
TJ_C_API tj_status tj_group_prepare_all_gather_gemm(tj_group* group, const tj_split_gemm_args* args);
TJ_C_API tj_status tj_group_all_gather_gemm(tj_group* group, const tj_split_gemm_args* args, void* stream);
TJ_C_API tj_status tj_group_prepare_gemm_reduce_scatter(tj_group* group, const tj_split_gemm_args* args);
TJ_C_API tj_status tj_group_gemm_reduce_scatter(tj_group* group, const tj_split_gemm_args* args, void* stream);
/* Fails when NCCL has met an error since, or when bytes of a rank have not come in time. Never waits. */
TJ_C_API tj_status tj_group_check(tj_group* group);
/* *out tells how keys and values travel, or why not by copies; valid until the next call for this member. */
TJ_C_API tj_status tj_group_description(tj_group* group, const char** out);

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_DIST_H */
