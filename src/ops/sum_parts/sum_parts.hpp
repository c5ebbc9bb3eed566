// Adding a matrix product's sums over parts of K and finishing them, as an op: a step of gemm.
#pragma once

#include <tilejit/gemm.hpp>

#include "ops/op.hpp"

namespace tj::ops {

/// d of the call = activation(alpha * scales * (sums of part 0 + part 1 + ...) + beta * c + bias), in this order. With
/// a text it is end_text(alpha * scales * (..) + bias) + beta * c. sums: f32 [parts x batch, M, N], the batch's
/// matrices of one part behind each other, rows at multiples of 16 bytes.
/// Without parts the sums are 0. The call has passed gemm's validation; neither a nor b of it is read, nor a scale
/// where there are no parts.
struct SumPartsArgs {
  const GemmArgs& call;
  Tensor sums;
  int parts = 0;
};

const Op& sum_parts_op();
/// One kernel for each type of d and each text that ends the product. draws: its blocks draw their tiles.
Request sum_parts_request(DType out, bool draws = false);
std::uint64_t sum_parts_small_key(DType out, bool draws = false, const DeviceText& end_text = {});

/// Memory that adding moves, in bytes. addend_bytes: of an element of c, 0 where none is added.
double sum_parts_bytes(double elements, int parts, int out_bytes, int addend_bytes);
/// Round trips to memory that follow each other.
int sum_parts_trips(int parts);

}  // namespace tj::ops
