// The solved matrix A of each chunk alone: the bodies of the kernel of chunk_solve.
//
// Decides what is left of the kernel that makes records (solve.cuh, matrix.cuh). Gates come as running sums, and there
// are no queries. Rows of A go to the caller's tensor, which is o of the rule. Invariant: rows of no token are not
// written.
#pragma once

#include "ops/delta_chunks/matrix.cuh"

namespace tj::ops::delta_chunks {

template <class C_>
struct Lone : Solver<C_> {
  using C = C_;
  TJ_DEVICE Lone(const SolveParams& p, int which) : Solver<C_>(p, which) {}
};

/// Running sums in powers of two, then beta, of all tokens of a chunk: a warp does it, a lane two tokens.
template <class C>
TJ_DEVICE void take_sums(Lone<C>& lone, const Tile& tile, int, u32 gates) {
  if (lone.own != kGateWarp) return;
  const typename C::Element tag{};
  const gated_delta_rule::Params& rule = lone.params.rule;
  const int lane = static_cast<int>(dev::lane_index());
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool inside = lane + 32 * half < tile.place.rows;
    const float sum = dev::number_of(lone.numbers.gate[half]) * gated_delta_rule::kLog2E,
                beta = gated_delta_rule::beta_value(
                    rule,
                    gated_delta_rule::value_of(tag, lone.numbers.beta[half], has(rule, gated_delta_rule::kBetaHalf)));
    dev::store_shared(token_number(gates, lane + 32 * half), inside ? sum : 0.0f);
    dev::store_shared(token_number(beta_list<C>(gates), lane + 32 * half), inside ? beta : 0.0f);
  }
}

/// A goes to the caller's tensor.
template <class C>
TJ_DEVICE void put_rows(Lone<C>& lone, const Tile& tile, int, u32 gates) {
  const gated_delta_rule::Tokens& a = lone.params.rule.o;
  const int row = static_cast<int>(dev::lane_index() / 4);
  unsigned char* const matrix =
      gated_delta_rule::row_of(a, {tile.place.batch, tile.place.token, tile.head}, tile.head) + lone.own * 32;
  for_blocks(lone, gates, [&](int block, const u32(&words)[4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = block * kBlockRows + 8 * h + row;
      put_sixteen(matrix + at * a.token, dev::transpose_matrix(words[2 * h]), dev::transpose_matrix(words[2 * h + 1]),
                  at < tile.place.rows);
    }
  });
}

}  // namespace tj::ops::delta_chunks
