// Copying rows that begin anywhere to where the copy engine can read them, as an op: a step of others.
#pragma once

#include <tilejit/tensor.hpp>

#include "ops/op.hpp"

namespace tj::ops {

/// Matrices of [rows, columns] or [batch, rows, columns], the last dimension contiguous, of any type; the same shape in
/// both. The destination is dense but for the distance of its rows, a multiple of 16 bytes as is its address, and has
/// room for whole 16 bytes.
struct CopyRowsArgs {
  Tensor source, destination;
  int max_sms = 0;  ///< as GemmArgs::max_sms
};

const Op& copy_rows_op();
/// draws: its blocks draw their tiles.
Kernel copy_rows_kernel(bool draws);

}  // namespace tj::ops
