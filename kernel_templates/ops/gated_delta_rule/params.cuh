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
};
/// A pool of states, strides in bytes; null: none.
struct States {
  void* data;
  const int* slots;           ///< null: the slot of a sequence is its number
  long long slot, head, row;  ///< row: of a matrix as it is stored
  int count;
  int unused;     ///< 0: no byte of a parameter is left to chance, as plans compare them
  float* scales;  ///< of rows of V, one behind the other, with states of e4m3
  long long scale_slot, scale_head;
};
/// The states after every so many tokens, or chunks; strides in bytes; null: none.
struct TokenStates {
  void* data;
  long long sequence, token, head, row;
  int tokens;  ///< there is room for so many states
  int every;
  Divisor by_every;
  float* scales;  ///< of rows of V, one behind the other, with states of e4m3
  long long scale_sequence, scale_token, scale_head;
};

/// Options of a call, bits of one number.
enum Option : int {
  kGateExp = 1,  ///< a gate is the decay; else its logarithm
  kGateRaw = 2,  ///< ... or what that is made of
  kBetaRaw = 4,
  kWithoutDelta = 8,
  kNormalise = 16,
  kGateHalf = 32,  ///< gates are of q's type; else f32
  kBetaHalf = 64,
  kBiasHalf = 128,
};

struct Params {
  Tokens q, k, v, o;
  Numbers gate, beta;  ///< a gate of key channels has a number for each of them, one behind the other
  const float* a_log;
  const void* dt_bias;
  States initial, final;
  TokenStates each;
  const int* cu_seqlens;  ///< null: sequences of all tokens
  float scale;
  int options;
  int tokens, heads;  ///< of q in a sequence without lists, or in all; of states
  int parts, tiles;   ///< tiles of a sequence; all
  Divisor by_parts, by_q, by_k, by_v;
};

}  // namespace tj::ops::gated_delta_rule
