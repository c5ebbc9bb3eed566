// Rows and heads of tensors [B, H, S, D], and copies between them.
//
// Decides which heads a rank gets, and how a copy becomes runs of bytes, a pitch of as many bytes or more apart. Moves
// nothing.
#pragma once

#include <cstdint>
#include <functional>

#include <tilejit/tensor.hpp>

#include "dist/split.hpp"
#include "launch/peer_memory.hpp"

namespace tj::dist {

/// May heads be dealt out to ranks? Each gets as many heads of queries. Heads of keys are a rank's own, or shared with
/// others.
bool heads_suffice(std::int64_t heads, std::int64_t key_heads, int ranks);
Range query_heads(std::int64_t heads, int ranks, int rank);
Range key_heads(std::int64_t heads, std::int64_t key_heads, int ranks, int rank);

/// Bytes of some elements, at a multiple of what parts of a rank's memory lie at.
std::int64_t rounded_bytes(std::int64_t elements, DType type);
/// [B, heads, rows, D] without gaps, D, B and type of another tensor. Memory is [B, rows, heads, D], or
/// [B, heads, rows, D] with heads_first.
Tensor dense_rows(const Tensor& like, std::int64_t heads, std::int64_t rows, bool heads_first, void* at);
/// f32 [B, heads, rows] without gaps.
Tensor lse_rows(const Tensor& like, std::int64_t heads, std::int64_t rows, void* at);

/// Parts of a tensor [B, H, S, D] or [B, H, S].
Tensor heads_of(const Tensor& t, Range heads);
/// Rows that a rank holds, of its own tensor; and of one that has the rows of all ranks.
Tensor own_of(const Tensor& t, const HeldRows& held);
Tensor places_of(const Tensor& t, const HeldRows& held);
/// A tensor [1, ...] of it.
Tensor one_state(const Tensor& t);

/// Throws tj::Error(argument) where runs of rows or heads overlap, which attention reads, but no copy engine.
void check_apart(const char* name, const Tensor& t);
/// The copies that bring one tensor to another of its shape, both with any strides. The last of four dimensions has no
/// gaps.
void copies_between(const Tensor& from, const Tensor& to, const std::function<void(const launch::RowsToCopy&)>& copy);

}  // namespace tj::dist
