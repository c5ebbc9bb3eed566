// The tokens of ops over chunks: [.., T, H] and [.., T, H, X] of a batch, or of sequences by a list.
//
// Decides the checks that such ops share, and how many chunks' slots a call has (ops/chunks/params.cuh). Does not
// decide which tensors there are. Invariant: passing allocates nothing.
#pragma once

#include <initializer_list>
#include <optional>

#include <tilejit/tensor.hpp>

#include "ops/chunks/params.cuh"
#include "ops/common/empty.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// A call's tokens, as its first tensor has them: of this rank without a batch.
struct ChunkTokens {
  const char* op;
  const char* name;
  const Tensor& first;
  int rank;
  const std::optional<Tensor>& ends;
  bool batched() const { return first.rank == rank + 1; }
  int first_axis() const { return batched() ? 0 : 1; }  ///< of names that begin with a batch
  unsigned from_zero() const { return batched() ? axis_bits({0, 1}) : axis_bits({0}); }  ///< B and T, for check_form()
  Size tokens() const { return first.shape[batched() ? 1 : 0]; }
  Size sequences() const { return ends ? ends->shape[0] - 1 : batched() ? first.shape[0] : 1; }
  /// Tokens behind the last bound belong to no sequence: without sequences nothing is written.
  bool nothing() const { return is_empty(first) || sequences() == 0; }
};

/// A tensor beside the first: names of its axes begin with those of a batch, rank is that without one.
Named named_of(const ChunkTokens& tokens, const char* name, const Tensor& tensor, const char* const* axes, int rank,
               const char* batched_form, const char* form);

/// The list of bounds, and the first tensor's form, place and rank with it. Its type is the op's to check.
void check_tokens(const ChunkTokens& tokens, const Named& first, bool on_model);
/// The form, the device and the tokens of another tensor.
void check_beside(const ChunkTokens& tokens, const Named& other);
/// Elements one by one: strides and addresses of whole elements.
void check_elements(const Named& t);
/// Rows of 16 bytes and more, whose last dimension is contiguous.
void check_rows(const Named& t);
/// Beta, or running sums: f32, or of another type where that is given.
void check_token_numbers(const ChunkTokens& tokens, const Named& t, Size heads, const char* like,
                         std::optional<DType> other);
/// Results overlap neither themselves nor any other tensor of the call.
void check_written(std::initializer_list<const Named*> written, std::initializer_list<const Named*> read,
                   const std::optional<Tensor>& ends);
/// Slots times heads, and whatever else there is for each of them, are counted in 32 bits.
void check_chunk_units(const ChunkTokens& tokens, Size heads, Size each);

/// Parameters of launches.
chunks::Sequences sequences_of(const ChunkTokens& tokens);
Size slots_of(const ChunkTokens& tokens);
/// TJ_CHECK: refuses the first bad bound.
void check_token_ends(const ChunkTokens& tokens, const ReadList& read);

}  // namespace tj::ops
