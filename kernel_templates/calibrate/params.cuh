// Parameters of the kernels by which tj-bench --calibrate measures a card, by value: written by the host, read by the
// device.
#pragma once

#include "types.cuh"

namespace tj::calibrate {

inline constexpr int kRowBytes = 128;                ///< of the map's boxes: 64 elements of 16 bits
inline constexpr int kBoxRows = 64;                  ///< of a box
inline constexpr int kMapRows = 2048;                ///< of the tensor that boxes are cut from
inline constexpr int kChains = 16;                   ///< values of a thread that do not wait for each other
inline constexpr int kStepsOfChain = 8;              ///< of each, in a repeat
inline constexpr unsigned kLoadedBytes = 72 * 1024;  ///< of shared memory, that loads of matrices read
inline constexpr int kMatrixSteps = 64;              ///< steps of K in a long group of products

struct Params {
  TensorMap map;  ///< of `in`, for probes that copy by the engine; else zeros
  unsigned* out;  ///< begin and end by the clock: of each round and warp of the first block
  const char* in;
  char* to;
  unsigned long long bytes;  ///< of `in` and of `to` each, where a probe moves all of them
  float one;                 ///< 1, which no compiler knows
  int rounds, repeats;
  int size;  ///< of a copy, in pieces of the probe's own
};

}  // namespace tj::calibrate
