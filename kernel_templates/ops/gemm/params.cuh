// The one parameter of a gemm kernel, by value: written by the host, read by the device.
#pragma once

#include "divisor.cuh"
#include "ops/scales/params.cuh"
#include "types.cuh"

namespace tj::ops::gemm {

inline constexpr int kRowsPerConsumer = 64;  ///< rows of d that one consumer role owns
inline constexpr int kWideColumns = 256;     ///< swapped tiles so wide have two products for each consumer
inline constexpr int kSwizzleColumns = 64;   ///< 128 bytes of 16-bit elements: the width of a block in shared memory
inline constexpr int kSwizzleBytes = 128;

/// The elements that one scale of an 8-bit operand serves.
enum Scales : int {
  kScaledTensor = 0,  ///< all of a; all of b
  kScaledBlocks = 1,  ///< 128 elements of K of a row of a; as many of 128 rows of b
  kScaledRows = 2     ///< 128 elements of K of a row of either
};
inline constexpr int kScaledElements = kScaleBlock;
inline constexpr int kScalesTogether = 4;            ///< words of a row, that the copy engine brings: 16 bytes
inline constexpr int kPackedBlocks = kScalesPacked;  ///< of K, whose exponents of 8 bits make a word
/// Columns of a tile that have one scale of a block of b: tiles begin at multiples of so many.
constexpr int scale_columns(int columns) {
  const int power = columns & -columns;  // the largest one that divides them
  return power < kScaledElements ? power : kScaledElements;
}
/// The most scales of blocks of b that a tile of so many columns needs: it may begin in the middle of one.
constexpr int scaled_blocks(int columns) {
  return (2 * kScaledElements - 1 - scale_columns(columns) + columns) / kScaledElements;
}
/// Where the columns' scales begin in a slot, behind so many bytes: the copy engine writes to multiples of 128 bytes.
constexpr unsigned scale_place(int bytes) { return static_cast<unsigned>(bytes + 127) / 128u * 128u; }

/// How each matrix of b comes to its rows of a and d.
enum Groups : int {
  kNoGroups = 0,     ///< by the batch
  kGroupEnds = 1,    ///< each group names the row behind its last
  kGroupCounts = 2,  ///< each group names how many rows it has, of a matrix of its own
  kGroupOfRow = 3,   ///< each row names its group
  kGroupDepths = 4   ///< each group names the place of K behind its last; its matrix is one of d
};
/// Rows that name their groups do so together, so many of them.
inline constexpr int kRowsTogether = 128;
/// Scales that the copy engine brings beside those of a tile's rows, where the tile may begin at any row: it takes
/// places at multiples of 16 bytes.
inline constexpr int kScalesBefore = 4;

inline constexpr int kReaders = 128;   ///< threads that read an operand where the copy engine does not
inline constexpr int kReadsAhead = 8;  ///< 16-byte loads that each of them has under way

/// An operand as ordinary loads see it: elements of its contiguous dimension, then the other one.
struct Operand {
  const void* data;
  long long stride_batch, stride_down;  ///< in elements; a matrix that serves all batches has 0
  int across, down;
  int wide;  ///< rows may be read 16 bytes at a time
};
struct Operands {
  Operand a, b;
};

/// How d leaves.
enum Store : int {
  kDirect = 0,  ///< from the consumers' registers
  kCopied = 1,  ///< through shared memory by the copy engine, which wants rows at multiples of 16 bytes
  kRows = 2     ///< through shared memory by a warp of its own, wherever rows begin
};

/// Strides of scales of blocks, in scales or words.
struct ScaleStrides {
  long long batch, row, block;
};

struct Params {
  /// Rank 4: the contiguous dimension, the other one, batch, 1. d's is read by kernels with Store::kCopied.
  TensorMap a, b, d;
  TensorMap left_scales, right_scales;  ///< of blocks, likewise: read by kernels with kScales
  void* d_data;                         ///< strides below in elements; rows are contiguous
  const void* c;                        ///< read by kernels with kAddC
  const void* bias;                     ///< read by kernels with kBias
  long long d_stride_batch, d_stride_row;
  long long c_stride_batch, c_stride_row;
  long long bias_stride_batch;
  int m, n;
  int k_blocks;  ///< iterations of all of K; 0 when alpha is 0
  int part_blocks,
      batches;  ///< read by kernels with kParts: iterations of a part but the last, and the batches of d in each part
  int a_batched, b_batched;     ///< 0: one matrix serves all batches
  int a_box, b_box;             ///< rows of d, columns of d, in a box that the copy engine brings; kernels with kSkips
  int a_last, b_last;           ///< rows and columns that boxes bring of a tile that is only partly inside; likewise
  int row_tiles, column_tiles;  ///< a cluster's blocks take one of these together, each its part
  int group_rows;               ///< row tiles that clusters with neighbouring numbers share
  int tiles;                    ///< of all batches and parts
  int wave, dealt_over;         ///< clusters that begin together, and groups of multiprocessors that get them in turn
  Divisor by_wave, by_dealt;    ///< those two; not read where dealt_over is 0
  Divisor by_matrix, by_group, by_batches;  ///< row_tiles * column_tiles, group_rows * column_tiles, batches
  Divisor by_rows, by_last_rows;            ///< group_rows; the rows of the last group
  int wide_d, wide_c, wide_bias;            ///< rows may be accessed 16 bytes at a time (f32: 8)
  int bias_step, bias_other;  ///< read by kernels with kGate: from a column's bias to the next column's, and to that of
                              ///< the sum that is multiplied
  float alpha, beta;
  const float *scale_a, *scale_b;  ///< read by kernels on e4m3, where not null; further factors of the product
  Operands operands;               ///< read by kernels whose threads read a and b, or b alone
  const int* groups;               ///< read by kernels with kGroups, as those four say; m is a group's rows with counts
  int group_count;
  Divisor by_columns, by_box;  ///< likewise: column_tiles, a_box
  int k;                       ///< of all groups; read by kernels with kGroupDepths
  union {
    BlockScales d_scales;  ///< written by kernels whose Output is e4m3
    ScaleStrides
        scale_strides[2];  ///< of scale_a and scale_b: read by other kernels with kScales whose threads read these
  };
  const unsigned* end_params;  ///< numbers that a user's text reads, and the place of the last of them (own_end.cuh)
  unsigned last_end_param;
};

}  // namespace tj::ops::gemm
