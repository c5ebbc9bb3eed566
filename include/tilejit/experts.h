/* Ops of mixture-of-experts layers in C, as grouped_gemm.hpp, quantise.hpp and combine.hpp have them.
 *
 * A part of tilejit.h, which includes it. */
#include <tilejit/tilejit.h> /* before the guard: it includes this file, in its order */

#ifndef TILEJIT_EXPERTS_H
#define TILEJIT_EXPERTS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Matrix products of groups of rows; shapes, lists and meaning as tj::GroupedGemmArgs (grouped_gemm.hpp) says. */
enum { TJ_GROUPING_ENDS = 0, TJ_GROUPING_COUNTS = 1, TJ_GROUPING_ROWS = 2, TJ_GROUPING_DEPTHS = 3 };
typedef struct tj_grouped_gemm_args {
  uint64_t size;
  const tj_tensor* a;       /* [M, K], or [G, R, K] with counts */
  const tj_tensor* b;       /* [G, N, K]; with depths [N, K], and d is [G, M, N] */
  const tj_tensor* d;       /* [M, N], or [G, R, N] with counts, written; with a gate N / 2 columns */
  const tj_tensor* groups;  /* i32 [G], or [M] with rows */
  const tj_tensor* bias;    /* [G, N]; null: none */
  const tj_tensor* scale_a; /* f32, or i32 of four exponents, with TJ_E4M3 only; null: none */
  const tj_tensor* scale_b;
  int64_t expected_rows; /* of a group: decides the tile; 0: not known */
  float alpha;           /* 1 for plain products */
  int32_t grouping;      /* TJ_GROUPING_ENDS, ... */
  int32_t activation;    /* TJ_ACTIVATION_NONE, ... */
  int32_t max_sms;       /* multiprocessors that the call may fill; 0: all */
  const tj_tensor* c;    /* as d; null: none */
  float beta;            /* factor of c; 0 leaves c out */
  int32_t gate;          /* as tj_gemm_args */
  int32_t gate_interleaved;
  int32_t powers_of_two;    /* as tj_gemm_args */
  const tj_tensor* scale_d; /* as tj_gemm_args, with counts [G, R, ceil(N / 128)] */
  const char* end_text;     /* as tj_gemm_args */
  const tj_tensor* end_params;
} tj_grouped_gemm_args;

/* Elements of 8 bits with scales of blocks; shapes and meaning as tj::QuantiseArgs (quantise.hpp) says. */
typedef struct tj_quantise_args {
  uint64_t size;
  const tj_tensor* x;      /* [M, K] or [B, M, K]; 2 K columns with a gate */
  const tj_tensor* q;      /* e4m3 [M, K] or [B, M, K], written */
  const tj_tensor* scales; /* f32 [M, ceil(K / 128)] or [ceil(M / 128), ceil(K / 128)], with a batch as q, written */
  int32_t gate;            /* TJ_ACTIVATION_NONE: x is quantised; else that of its first K columns times the others */
  int32_t powers_of_two;   /* not 0: scales are rounded up to powers of two */
  int32_t max_sms;         /* multiprocessors that the call may fill; 0: all */
  int32_t transposed;      /* not 0: q is [K, M] and scales [K, ceil(M / 128)] */
  const tj_tensor* row_indices; /* i32 [M]: rows of x [X, K], -1 for zeros; null: x has q's rows */
} tj_quantise_args;

/* Weighted sums of rows that a list names; shapes and meaning as tj::CombineArgs (combine.hpp) says. */
typedef struct tj_combine_args {
  uint64_t size;
  const tj_tensor* y;        /* [S, H] */
  const tj_tensor* d;        /* [T, H], written */
  const tj_tensor* slots;    /* i32 [T, J]: rows of y; -1 is skipped */
  const tj_tensor* weights;  /* f32 [T, J]; null: all are 1 */
  const tj_tensor* residual; /* [T, H] of d's type; null: none */
  int32_t max_sms;           /* multiprocessors that the call may fill; 0: all */
  int32_t reserved;          /* 0 */
} tj_combine_args;

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_EXPERTS_H */
