// Matrices of one warp: loads of 8x8 matrices from shared memory into fragments, and products of fragments.
//
// Decides which lane's address names which row, and which element each register holds. Invariant: all lanes ask for the
// same, else tj::Error(model_fault). Source: PTX ISA 8.7, "ldmatrix" and "Matrix Fragments for mma.m16n8k16".
#pragma once

#include <cstdint>

#include "model/thread.hpp"

namespace tj::model {

/// A lane's request; `words` are its registers.
struct LoadMatrices {
  std::uint32_t address;
  unsigned* words;
  int count;  ///< 1, 2 or 4
  bool transposed;
};

/// Both return once all lanes of the thread's warp have asked.
void load_matrices(Thread& thread, const LoadMatrices& request);
void multiply_fragments(Thread& thread, const tj_model_mma& request);

}  // namespace tj::model
