// An item's rows in registers, what is computed with them, and how they come to o: for families whose sums a warp has
// as a matrix instruction's fragment.
//
// Decides weights, rounding, and which rows are stored. A thread holds rows row0 and row0 + 8 of the chunk, columns 8j
// + 2(lane % 4) + {0, 1}. Invariant: of o only rows that a token has are written.
#pragma once

#include "fragments.cuh"
#include "ops/chunk_o/items.cuh"

namespace tj::ops::chunk_o {

/// The first of the chunk's elements that a thread has in its fragments. The consumer of a head is four warps.
TJ_DEVICE int first_row() { return static_cast<int>((dev::warp_index() & 3u) * 16u + dev::lane_index() / 4u); }
TJ_DEVICE int first_column() { return static_cast<int>(dev::lane_index() & 3u) * 2; }

/// The gates of tokens lane and lane + 32: 0 where there is no token.
template <class C>
TJ_DEVICE void load_gates(const Params& params, const Place& place, int head, float (&gates)[2]) {
  const int lane = static_cast<int>(dev::lane_index());
  const float* from = params.gates + (place.token + lane) * params.gates_stride + head;
  gates[0] = lane < place.rows ? dev::load_global(from) : 0.0f;
  gates[1] = lane + 32 < place.rows ? dev::load_global(from + 32 * params.gates_stride) : 0.0f;
}

inline constexpr float kLog2E = 1.44269504088896f;

/// weights = scores, faded from each token to the row's, of tokens up to the row's. Above the diagonal the fading may
/// be infinite: a choice, not a factor, leaves it out. gates: see load_gates; of_row: those of the thread's rows.
template <class C>
TJ_DEVICE void weigh_scores(const float (&scores)[kChunk / 2], const float (&gates)[2], const float (&of_row)[2],
                            int row0, int column0, u32 (&weights)[kChunk / 4]) {
#pragma unroll
  for (int j = 0; j < kChunk / 8; ++j) {
    float gate[2] = {};
    if constexpr (C::kGates) {
#pragma unroll
      for (int e = 0; e < 2; ++e) gate[e] = dev::shuffle_from(gates[j / 4], 8 * (j % 4) + column0 + e);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float weight[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float value = scores[4 * j + 2 * half + e];
        if constexpr (C::kGates) value *= dev::exp2_approx((of_row[half] - gate[e]) * kLog2E);
        weight[e] = 8 * j + column0 + e <= row0 + 8 * half ? value : 0.0f;
      }
      weights[2 * j + half] = dev::pack(dev::Bf16{}, weight[0], weight[1]);
    }
  }
}
/// All rows of a warp are in one half of the chunk.
TJ_DEVICE float gate_of_row(const float (&gates)[2], int row0, int half) {
  return dev::shuffle_from(row0 < 32 ? gates[0] : gates[1], (row0 + 8 * half) % 32);
}

/// Stores 8 * Groups columns of the item's rows from group `first` on, rounded, straight to memory: the rows that a
/// token has. What lies behind them belongs to another sequence. The four lanes of a row trade words, so that a lane
/// stores 16 bytes.
template <int Groups>
TJ_DEVICE void store_rows_to_memory(const Params& params, const Place& place, int head, int first,
                                    const u32 (&words)[2][Groups]) {
  static_assert(Groups % 4 == 0, "a group for each lane of a row");
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row() + 8 * half;
    unsigned short* to = static_cast<unsigned short*>(params.o_data) + (place.token + row) * params.o_stride_token +
                         head * params.o_stride_head + 8 * (first + static_cast<int>(dev::lane_index() & 3u));
#pragma unroll
    for (int j = 0; j < Groups; j += 4) {
      u32 eight[4] = {words[half][j], words[half][j + 1], words[half][j + 2], words[half][j + 3]};
      dev::transpose_quad(eight);
      if (row < place.rows) dev::store_global(to + 8 * j, eight[0], eight[1], eight[2], eight[3]);
    }
  }
}
/// The same of 8 * Groups columns. Those of a whole chunk go into shared memory as the copy engine wants them, those of
/// other chunks straight to memory.
template <int Groups>
TJ_DEVICE void store_rows(const Params& params, const Place& place, int head, int first, const u32 (&words)[2][Groups],
                          u32 slot) {
  if (place.rows != kChunk) return store_rows_to_memory(params, place, head, first, words);
  const int lane = static_cast<int>(dev::lane_index()), row = first_row() - lane / 4 + lane % 16;
#pragma unroll
  for (int pair = 0; pair < Groups / 2; ++pair) {  // two groups of 8 columns, both halves of the rows
    const int group = first + 2 * pair + lane / 16;
    const u32 address = slot + (group / 8 * kChunk + row) * kSwizzleRowBytes + ((group % 8) ^ (row % 8)) * 16;
    dev::store_matrices(address,
                        {words[0][2 * pair], words[1][2 * pair], words[0][2 * pair + 1], words[1][2 * pair + 1]});
  }
}

/// Brings to o what a consumer has left in shared memory.
template <class C_>
struct Writer {
  using C = C_;
  const Params& params;
  const int copy;  ///< the consumer's
  Places<C> places;
  TJ_DEVICE Writer(const Params& p, int which) : params(p), copy(which), places(p) { dev::prefetch_map(&p.o); }
};

/// A whole chunk; of others nothing is in shared memory.
template <class C>
TJ_DEVICE void put_chunk(Writer<C>& writer, const Tile&, int i, u32 slot) {
  const Place place = writer.places.at(writer.params, i);
  const int head = item_at<C>(writer.params, i).head + writer.copy;
  if (place.rows < kChunk) return;
#pragma unroll 1
  for (int d = 0; d < kWidth; d += kSwizzleColumns, slot += kChunkBlockBytes)
    dev::store_box_4d(&writer.params.o, slot, d, place.token, head, 0);
}

}  // namespace tj::ops::chunk_o
