/* Recurrences over tokens in C, as gated_delta_rule.hpp and the headers of its stages have them.
 *
 * A part of tilejit.h, which includes it. */
#include <tilejit/tilejit.h> /* before the guard: it includes this file, in its order */

#ifndef TILEJIT_RECURRENCE_H
#define TILEJIT_RECURRENCE_H

#ifdef __cplusplus
extern "C" {
#endif

/* The gated delta rule; shapes and meaning as tj::GatedDeltaRuleArgs (gated_delta_rule.hpp) says. */
enum { TJ_GATE_LOG = 0, TJ_GATE_EXP = 1, TJ_GATE_RAW = 2 };
typedef struct tj_gated_delta_rule_args {
  uint64_t size;
  const tj_tensor* q;              /* f16 or bf16 [T, Hq, K] or [B, T, Hq, K] */
  const tj_tensor* k;              /* [.., T, Hk, K] */
  const tj_tensor* v;              /* [.., T, Hv, V] */
  const tj_tensor* o;              /* [.., T, H, V], written */
  const tj_tensor* gate;           /* [.., T, H] or [.., T, H, K]; null: the decay is 1 */
  const tj_tensor* a_log;          /* f32 [H], with TJ_GATE_RAW */
  const tj_tensor* dt_bias;        /* [H] or [H, K], as the gate, with TJ_GATE_RAW; null: 0 */
  const tj_tensor* beta;           /* [.., T, H]; null: 1 */
  const tj_tensor* initial_state;  /* [slots, H, V, K]; null: zeros */
  const tj_tensor* final_state;    /* as initial_state, written; null: none */
  const tj_tensor* token_states;   /* [N, L, H, V, K], written; null: none */
  const tj_tensor* read_slots;     /* i32 [N]; null: 0, 1, ... */
  const tj_tensor* write_slots;    /* i32 [N]; null: 0, 1, ... */
  const tj_tensor* cu_seqlens;     /* i32 [N + 1]; null: sequences of T tokens */
  const tj_tensor* initial_scales; /* f32 [slots, H, V], with an initial_state of e4m3; else null */
  const tj_tensor* final_scales;   /* the same of final_state, written */
  const tj_tensor* token_scales;   /* f32 [N, L, H, V], of token_states, written */
  float scale;                     /* looked at only when has_scale is not 0; else K^-1/2 */
  int32_t has_scale;
  int32_t gate_form;        /* TJ_GATE_LOG, ... */
  int32_t beta_raw;         /* not 0: beta is the logistic function of what is given */
  int32_t without_delta;    /* not 0: what is added is beta v k^T */
  int32_t normalise;        /* not 0: q and k are normalised first */
  int32_t state_transposed; /* not 0: matrices of states are stored [K, V] */
  int32_t max_sms;          /* multiprocessors that the call may fill; 0: all */
  int32_t token_every;      /* tokens from one of token_states to the next; 0: 1 */
  float negligible;         /* above 0: segments of a sequence forget what decays leave so little of; 0: exact */
} tj_gated_delta_rule_args;

/* Running sums of gates inside chunks; shapes and meaning as tj::ChunkCumsumArgs (chunk_cumsum.hpp) says. */
typedef struct tj_chunk_cumsum_args {
  uint64_t size;
  const tj_tensor* gate;       /* f32, f16 or bf16 [T, H] or [B, T, H] */
  const tj_tensor* g_cu;       /* f32, as gate, written */
  const tj_tensor* a_log;      /* f32 [H], with TJ_GATE_RAW */
  const tj_tensor* dt_bias;    /* [H], with TJ_GATE_RAW; null: 0 */
  const tj_tensor* cu_seqlens; /* i32 [N + 1]; null: sequences of T tokens */
  int32_t gate_form;           /* TJ_GATE_LOG, ... */
  int32_t max_sms;             /* multiprocessors that the call may fill; 0: all */
} tj_chunk_cumsum_args;

/* The solved matrix of each chunk; shapes and meaning as tj::ChunkSolveArgs (chunk_solve.hpp) says. */
typedef struct tj_chunk_solve_args {
  uint64_t size;
  const tj_tensor* k;          /* f16 or bf16 [T, Hk, K] or [B, T, Hk, K] */
  const tj_tensor* a;          /* [.., T, H, 64], written */
  const tj_tensor* beta;       /* [.., T, H]; null: 1 */
  const tj_tensor* g_cu;       /* f32 [.., T, H]; null: 0 */
  const tj_tensor* cu_seqlens; /* i32 [N + 1]; null: sequences of T tokens */
  int32_t max_sms;             /* multiprocessors that the call may fill; 0: all */
  int32_t reserved;            /* 0 */
} tj_chunk_solve_args;

/* Products of each chunk's solved matrix; shapes and meaning as tj::ChunkWuArgs (chunk_wu.hpp) says. */
typedef struct tj_chunk_wu_args {
  uint64_t size;
  const tj_tensor* k;          /* f16 or bf16 [T, Hk, K] or [B, T, Hk, K] */
  const tj_tensor* v;          /* [.., T, Hv, V] */
  const tj_tensor* a;          /* [.., T, H, 64] */
  const tj_tensor* w;          /* [.., T, H, K], written */
  const tj_tensor* u;          /* [.., T, H, V], written */
  const tj_tensor* beta;       /* [.., T, H]; null: 1 */
  const tj_tensor* g_cu;       /* f32 [.., T, H]; null: 0 */
  const tj_tensor* cu_seqlens; /* i32 [N + 1]; null: sequences of T tokens */
  int32_t max_sms;             /* multiprocessors that the call may fill; 0: all */
  int32_t reserved;            /* 0 */
} tj_chunk_wu_args;

/* States before each chunk; shapes and meaning as tj::ChunkStatesArgs (chunk_states.hpp) says. */
typedef struct tj_chunk_states_args {
  uint64_t size;
  const tj_tensor* k;             /* f16 or bf16 [T, Hk, K] or [B, T, Hk, K] */
  const tj_tensor* w;             /* [.., T, H, K] */
  const tj_tensor* u;             /* [.., T, H, V] */
  const tj_tensor* h;             /* [C, H, V, K], written */
  const tj_tensor* v_new;         /* [R, H, V], or as u; written; null: none */
  const tj_tensor* g_cu;          /* f32 [.., T, H]; null: 0 */
  const tj_tensor* initial_state; /* [N, H, V, K]; null: zeros */
  const tj_tensor* final_state;   /* as initial_state, written; null: none */
  const tj_tensor* cu_seqlens;    /* i32 [N + 1]; null: sequences of T tokens */
  int32_t state_transposed;       /* not 0: matrices of h and of states are stored [K, V] */
  int32_t values_by_tokens;       /* not 0: v_new has a row for each token */
  int32_t max_sms;                /* multiprocessors that the call may fill; 0: all */
  int32_t reserved;               /* 0 */
} tj_chunk_states_args;

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_RECURRENCE_H */
