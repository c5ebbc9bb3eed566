// Parameters of the gated delta rule, by value: written by the host, read by the device.
#pragma once

#include "divisor.cuh"
#include "types.cuh"

namespace tj::ops::gated_delta_rule {

inline constexpr int kUnits = 4;            ///< of a tile, each of 32 lanes
inline constexpr int kUnitElements = 2048;  ///< of a state, 64 for each lane

/// A tensor of tokens and heads, strides in bytes.
struct Tokens {
  void* data;
  long long batch, token, head;
};
/// A number for each token and head, strides in bytes; null: none.
struct Numbers {
  const void* data;
  long long batch, token, head;
  int half;  ///< of q's type; else f32
};
/// A pool of states, strides in elements; null: none.
struct States {
  void* data;
  const int* slots;  ///< null: the slot of a sequence is its number
  long long slot, head, row, slot_step;
  int count;
};
/// The states after tokens; null: none.
struct TokenStates {
  void* data;
  long long sequence, token, head, row;
  int tokens;
};

enum GateForm : int { kLog = 0, kExp = 1, kRaw = 2 };

struct Params {
  Tokens q, k, v, o;
  Numbers gate, beta;
  const float* a_log;
  const void* dt_bias;
  long long a_log_step, dt_bias_step;  ///< in elements; in bytes
  States initial, final;
  TokenStates each;
  const int* cu_seqlens;  ///< null: sequences of all tokens
  long long cu_seqlens_step;
  float scale;
  int dt_bias_half;
  int gate_form, beta_raw, delta, normalise;
  int tokens, heads;  ///< of q in a sequence without lists, or in all; of states
  int parts, tiles;   ///< tiles of a sequence; all
  Divisor by_parts, by_q, by_k, by_v;
};

}  // namespace tj::ops::gated_delta_rule
