// Calls with sequences of different lengths on the host: their tensors, what they decide of a kernel, their lists.
//
// Decides how rows of all sequences become a batch of one, and what lists may say. Does not decide which rows a tile
// has: the device reads the lists (kernel_templates/ops/fmha/sequences.cuh). Invariant: nothing here looks into memory
// but check_lists().
#pragma once

#include <tilejit/fmha.hpp>

#include "ops/fmha/fmha.hpp"
#include "ops/fmha/params.cuh"
#include "support/tensor_map.hpp"

namespace tj::ops {

/// Does the call say where its sequences lie?
inline bool has_sequences(const FmhaArgs& args) { return args.cu_seqlens_q.has_value(); }
/// Of a call that does.
inline std::int64_t fmha_sequences(const FmhaArgs& args) { return args.cu_seqlens_q->shape[0] - 1; }

/// The call with tensors [B, H, S, D], B and lse's 1. Pages of keys are such a batch.
FmhaArgs as_batch(const FmhaArgs& args);

/// Sets the fields of a kernel that lists ask for.
void set_sequences(FmhaConfig& config, const FmhaArgs& args);
/// Sets the members of the kernel's parameter that are lists. args: as as_batch() gives it.
void set_sequences(fmha::Params& params, const FmhaArgs& args);
/// The blocks of rows of one head, enough for all sequences whatever their lengths.
std::int64_t fmha_row_blocks(std::int64_t rows, std::int64_t sequences, int rows_per_block);

/// Rows from one page to the next, as a row of the same head counts: their stride is a multiple of a row's.
std::int64_t page_rows_apart(const Tensor& pages);
/// Pages [pages, H, page size, D] as one tensor [1, H, rows, D], with what lies between them.
Tensor pages_as_rows(const Tensor& pages);

/// The map of a tensor [1, H, S, D] whose boxes end with a sequence: box_place() of sequences.cuh has its coordinates.
support::TensorMapDesc sequence_map(const Tensor& tensor, int rows);

/// The checks of a call with lists, behind which its tensors and lists are as fmha.hpp says. Passing allocates nothing.
void validate_sequences(const FmhaArgs& args, bool on_model);
/// Reads the lists of a valid call, and throws tj::Error(argument) for the first number that it may not have.
void check_sequences(const FmhaArgs& args, const ReadList& read);

}  // namespace tj::ops
