// The tiles of a matrix product, whichever family of instructions multiplies.
//
// Decides which tiles are shipped, and in which order equals are preferred. Which family serves which is family.hpp's
// to say, and which suits a problem choose.cpp's. Invariant: no two have one name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>

namespace tj::ops {

/// One tile shape: block_m / 64 consumer roles of 64 rows each, block_k of K an iteration. With block_m below 64 one
/// consumer leaves the rest of its rows unused: they are not even copied. cluster_m x cluster_n blocks with
/// neighbouring tiles run together: those below each other share the copies of b, those beside each other those of a. A
/// tile is for one size of operands' elements. A swapped tile multiplies b by a: a consumer has 64 columns of d, and
/// block_m may be any multiple of 8, so that 141 rows are two tiles of 72; of the widest, it has 128 columns. cluster_k
/// blocks do one tile together, each a slice of K; a cluster of four may be two tiles that share copies, in two slices.
struct GemmTile {
  int block_m = 128, block_n = 256, block_k = 64;
  int cluster_m = 1, cluster_n = 1;
  int element_bytes = 2;
  bool swapped = false;
  int cluster_k = 1;
  bool reads = false;  ///< threads read b, and few rows of a, so that rows may begin anywhere
  /// Do threads read a as well? More rows are copied: each block of columns would read them again.
  constexpr bool reads_left() const { return reads && block_m <= 32; }
  constexpr int blocks() const { return cluster_m * cluster_n * cluster_k; }
  constexpr bool sliced() const { return cluster_k > 1; }
  /// Do blocks of other tiles share the copies of a slice?
  constexpr bool shares_slices() const { return sliced() && cluster_m * cluster_n > 1; }
  /// Rows of a that copies bring to a block: where M is contiguous they come in boxes of 64.
  constexpr int left_rows(bool mn_major) const { return mn_major ? (block_m + 63) / 64 * 64 : block_m; }
  /// Rows and columns of a block's sums.
  constexpr int sum_rows() const { return swapped ? block_n : block_m; }
  constexpr int sum_columns() const { return swapped ? block_m : block_n; }
  /// Rows of sums of a consumer: the widest swapped tiles have two products of 64 rows for each.
  constexpr int consumer_rows() const { return swapped && block_n >= 256 ? 128 : 64; }
  constexpr int consumers() const { return sum_rows() < 64 ? 1 : sum_rows() / consumer_rows(); }
  /// Sums of 8-bit elements that the matrix unit makes over each 128 bytes of K are added to others in f32.
  constexpr bool promotes() const { return element_bytes == 1; }
  constexpr int partial_sums() const { return block_k * element_bytes / 128; }
  /// Do halves of a consumer's columns take turns on one set of partial sums? Two sets of more columns leave no
  /// registers.
  constexpr bool takes_turns() const { return promotes() && sum_columns() > 192; }
  bool operator==(const GemmTile&) const = default;
};

/// Those that are not swapped.
inline constexpr GemmTile kPlainTiles[] = {
    {128, 256, 64},
    {128, 192, 64},
    {128, 128, 64},
    {64, 256, 64},
    {128, 64, 64},
    {64, 128, 64},
    {64, 64, 128},
    {64, 32, 128},
    {16, 32, 128},
    {16, 64, 128},
    // Tiles of warps' products: where shared memory is small, rings of half as much K for each of two blocks.
    {128, 128, 32},
    {128, 256, 32},
    {256, 192, 32},
    // Tiles of products in tensor memory: two of 128 rows share what is copied of b.
    {256, 128, 64},
    {256, 256, 64},
    // Tiles of two blocks, which share most of their copies.
    {128, 256, 64, 1, 2},
    {128, 256, 64, 2, 1},
    {128, 192, 64, 2, 1},
    {128, 192, 64, 1, 2},
    {128, 128, 64, 2, 1},
    {128, 128, 64, 1, 2},
    {64, 256, 64, 2, 1},
    {128, 64, 64, 1, 2},
    {64, 128, 64, 2, 1},
    // Tiles of pairs of blocks whose products in tensor memory have 256 rows. Two products lie in the columns of one
    // set of sums, or of two.
    {256, 256, 64, 2, 1},
    {256, 128, 64, 2, 1},
    // Tiles of four blocks, each of which shares a with one and b with another.
    {128, 128, 64, 2, 2},
    {128, 64, 64, 2, 2},
    // Tiles of other heights and widths, so that more sizes come out even.
    {192, 64, 64},
    {192, 96, 64},
    {192, 128, 64},
    {192, 160, 64},
    {64, 96, 64},
    {64, 160, 64},
    {64, 192, 64},
    {64, 224, 64},
    {128, 96, 64},
    {128, 160, 64},
    {128, 224, 64},
    {192, 128, 64, 2, 1},
    {192, 128, 64, 1, 2},
    {192, 160, 64, 1, 2},
    {192, 160, 64, 2, 1},
    {128, 224, 64, 2, 1},
    {128, 224, 64, 1, 2},
    {128, 160, 64, 2, 1},
    {128, 160, 64, 1, 2},
    {64, 192, 64, 2, 1},
    {128, 104, 64},
    {128, 136, 64},
    {128, 152, 64},
    {128, 168, 64},
    {128, 176, 64},
    {128, 152, 64, 1, 2},
    {128, 176, 64, 1, 2},
    // Tiles of few columns: problems of few rows have one for nearly each SM. N of 5120 is 128 tiles of 40.
    {16, 40, 128},
    {64, 24, 128},
    {64, 40, 128},
    {64, 48, 128},
    {64, 56, 128},
    {64, 80, 64},
    // Tiles that two or four blocks do together.
    {64, 64, 128, 1, 1, 2, false, 2},
    {64, 64, 128, 1, 1, 2, false, 4},
    // 8-bit elements: two sets of sums leave no room for more columns. Two consumers of 64 columns with one block of K
    // an iteration would share a role. There ptxas (13.0) serialises products whose sums are read while others are
    // under way.
    {128, 192, 128, 1, 1, 1},
    {128, 128, 128, 1, 1, 1},
    {128, 64, 256, 1, 1, 1},
    {64, 128, 128, 1, 1, 1},
    {64, 64, 256, 1, 1, 1},
    {64, 32, 256, 1, 1, 1},
    {16, 32, 256, 1, 1, 1},
    {16, 64, 256, 1, 1, 1},
    {128, 192, 128, 2, 1, 1},
    {128, 192, 128, 1, 2, 1},
    {128, 128, 128, 2, 1, 1},
    {128, 128, 128, 1, 2, 1},
    // Tiles of other widths, so that more sizes come out even.
    {128, 160, 128, 1, 1, 1},
    {128, 96, 128, 1, 1, 1},
    {64, 192, 128, 1, 1, 1},
    {64, 160, 128, 1, 1, 1},
    {64, 96, 128, 1, 1, 1},
    {64, 80, 128, 1, 1, 1},
    // Tiles whose columns take turns on one set of partial sums: with a gate they have 128 columns of d.
    {128, 256, 128, 1, 1, 1},
    {64, 256, 128, 1, 1, 1},
    {128, 256, 128, 2, 1, 1},
    {128, 256, 128, 1, 2, 1},
};

/// Swapped tiles of a width and a kind of cluster, by their rows.
struct SwappedTiles {
  int block_n, block_k, cluster_m, cluster_n;
  std::array<int, 24> rows;  ///< the rest are 0
  int cluster_k = 1;
  bool reads = false;
  int element_bytes = 2;
};
inline constexpr SwappedTiles kSwappedTiles[] = {
    {64, 128, 1, 1, {16, 24, 32, 40, 48, 56, 72, 80, 88, 96, 112, 128}},
    {64, 64, 1, 1, {144, 160, 176, 192, 208, 240}},
    {128, 64, 1, 1, {24, 40, 56, 72, 80, 88, 96, 104, 112, 120, 144, 160, 176, 192, 208}},
    {192, 64, 1, 1, {48, 96, 112, 144}},
    {192, 64, 2, 1, {144}},
    {256, 64, 1, 1, {104, 112, 120, 136, 144, 152, 160}},
    {256, 64, 2, 1, {104, 112, 120, 136, 144, 152, 160}},
    // Blocks below each other share what is copied of b, those beside each other of a.
    {64, 128, 2, 1, {40, 48, 56, 72, 80}},
    {64, 64, 2, 1, {144, 208, 240}},
    {128, 64, 2, 1, {56, 104, 120, 136, 144, 176, 192, 208}},
    {64, 128, 1, 2, {32, 48, 64, 80}},
    {128, 64, 1, 2, {48, 144, 176, 192, 208}},
    {64, 128, 2, 2, {48}},
    {128, 64, 2, 2, {96}},
    {64, 128, 1, 4, {64, 96, 128}},
    {128, 64, 1, 4, {160, 192}},
    // Blocks do a tile together.
    {64, 128, 1, 1, {16, 24, 32, 48, 80, 112}, 2},
    {64, 128, 1, 1, {16, 32}, 4},
    // Two tiles that share copies, in two slices each.
    {64, 128, 2, 1, {40}, 2},
    {128, 64, 2, 1, {64, 80, 104, 128}, 2},
    // Few rows that the copy engine cannot read as they lie. Of more, it brings a, which is copied before.
    {64, 128, 1, 1, {16, 24, 32, 48, 64}, 1, true},
    {64, 128, 1, 2, {64, 80, 96}, 1, true},
    // 8-bit elements: a consumer has two sets of sums. Two of few rows with one block of K an iteration would share a
    // role, where ptxas (13.0) serialises their products.
    {64, 256, 1, 1, {16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128}, 1, false, 1},
    {128, 256, 1, 1, {40, 56, 64, 72, 80}, 1, false, 1},
    {128, 128, 1, 1, {88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168, 176, 192}, 1, false, 1},
    {128, 128, 2, 1, {96, 104, 112, 120, 128, 144, 160, 176, 192}, 1, false, 1},
    {128, 128, 1, 2, {96, 112, 128, 144, 160, 176, 192}, 1, false, 1},
    {64, 256, 1, 1, {16, 32, 56}, 2, false, 1},
    {64, 256, 1, 1, {16}, 4, false, 1},
};

inline constexpr auto kGemmTiles = [] {
  constexpr std::size_t count = [] {
    std::size_t all = std::size(kPlainTiles);
    for (const SwappedTiles& tiles : kSwappedTiles)
      for (const int rows : tiles.rows) all += rows > 0 ? 1 : 0;
    return all;
  }();
  std::array<GemmTile, count> all;
  std::size_t next = 0;
  for (const GemmTile& tile : kPlainTiles) all[next++] = tile;
  for (const SwappedTiles& tiles : kSwappedTiles)
    for (const int rows : tiles.rows)
      if (rows > 0)
        all[next++] = {rows, tiles.block_n,   tiles.block_k, tiles.cluster_m, tiles.cluster_n, tiles.element_bytes,
                       true, tiles.cluster_k, tiles.reads};
  return all;
}();
inline constexpr std::size_t kGemmTileCount = std::size(kGemmTiles);
static_assert(kGemmTileCount <= 256, "a tile's place is kept in eight bits");

/// The tile's place among them; for a constant expression, which a tile that is none of them does not compile in.
consteval int place_of(const GemmTile& tile) {
  for (std::size_t t = 0; t < kGemmTileCount; ++t)
    if (kGemmTiles[t] == tile) return static_cast<int>(t);
  throw "no such tile";
}

/// Rows of a box of a, or columns of b: `parts` blocks share those of a tile, `size` is the matrix's. Smaller boxes
/// leave fewer rows outside the matrix to be filled. With more than kHiding tiles the last one's rows do not matter.
constexpr int gemm_box(std::int64_t size, int block, int parts, bool skips) {
  constexpr int kPattern = 8;  // rows of a swizzle pattern
  constexpr int kLeast = 32;   // rows: each box is a copy of its own, and few rows more take no time (estimate)
  constexpr int kHiding = 8;   // tiles (estimate)
  const int share = block / parts;
  if (!skips || size > std::int64_t{kHiding} * block) return share;
  if (size <= share) return static_cast<int>((size + kPattern - 1) / kPattern * kPattern);
  const int last = static_cast<int>(size % block);
  int box = share;
  while (last % box != 0 && box - last % box >= kLeast && box % (2 * kPattern) == 0 && box / 2 >= kLeast) box /= 2;
  return box;
}

/// All shipped ones, in the order in which equals are preferred.
inline std::span<const GemmTile> gemm_tiles() { return kGemmTiles; }
/// "128x256x64", "128x256x64c2x1" in clusters of two below each other, "72x64x64s" swapped, "64x64x128c1x1x2" in two
/// slices, "32x64x128sr" where threads read a and b, "96x64x128c1x2sr" b alone.
std::string gemm_tile_name(const GemmTile& tile);

}  // namespace tj::ops
