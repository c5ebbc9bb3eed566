// The time of a problem in one tile, by an arch's rates; see rates.hpp.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/common/tensor_checks.hpp"
#include "ops/gemm/params.cuh"
#include "ops/gemm/rates.hpp"
#include "ops/sum_parts/sum_parts.hpp"

namespace tj::ops {
namespace {

constexpr int kLineBytes = 128;  // of L2
std::int64_t up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// The share of an operand's copies of 128 bytes that lie in two lines. Rows that are copied first lie on whole lines,
/// unless they are shorter (copies.cpp).
double off_lines(std::int64_t row_elements, const GemmTile& tile) {
  const std::int64_t bytes = row_elements * tile.element_bytes;
  const bool direct = bytes % kCopyAlignmentBytes == 0 || bytes < kLineBytes;
  return direct ? 1 - static_cast<double>(std::gcd(bytes, std::int64_t{kLineBytes})) / kLineBytes : 0.0;
}

/// Copies of all tiles whose 128 bytes lie in two lines: they are asked for twice, and all SMs share the path. Blocks
/// that share a copy read it once. Rows that end 64 bytes behind a line make half of them so, at 16 bytes 7 of 8.
double unaligned_bytes(const GemmSizes& sizes, const GemmKernel& kernel, const GemmTile& tile, double iterations) {
  const double rows = off_lines(kernel.left_mn ? sizes.m : sizes.k, tile) *
                          static_cast<double>(std::min<std::int64_t>(sizes.m, tile.left_rows(kernel.left_mn))) /
                          tile.cluster_n +
                      off_lines(kernel.right_mn ? sizes.n : sizes.k, tile) *
                          static_cast<double>(std::min<std::int64_t>(sizes.n, tile.block_n)) / tile.cluster_m;
  return rows * tile.block_k * tile.element_bytes * iterations;
}

/// Columns of b that a block brings: of a pair, each brings half.
int own_columns(const GemmKernel& kernel, const GemmTile& tile, const GemmRates& rates) {
  GemmKernel of_tile = kernel;
  of_tile.tile = static_cast<int>(&tile - kGemmTiles.data());
  return gemm_pairs(of_tile, *rates.family) ? tile.block_n / 2 : tile.block_n;
}

int store_of(const GemmKernel& kernel, int tile) {
  GemmKernel of_tile = kernel;
  of_tile.tile = tile;
  return gemm_store(of_tile);
}

/// Rows (columns) outside the matrix that copies of an operand bring. Families that leave out no boxes have no cost for
/// them. Boxes of an operand whose M (N) is contiguous lie partly outside at most (partial_cycles).
double rows_outside(std::int64_t size, bool mn_major, int block, int parts) {
  if (mn_major) return 0;
  const std::int64_t box = gemm_box(size, block, parts, true), last = size % block;
  return static_cast<double>(std::min<std::int64_t>(block, up(last, box) * box) - last);
}

/// The copy engine's time for boxes that lie partly outside: of an operand whose M (N) is contiguous, and whose last
/// tile ends within a box. Each element of K is such a row. It is spread over all tiles, as few such boxes are not
/// seen. Example: 3 x 5064 x 2560, b transposed, takes 7.9 us in 32x64x128s (H100, 2026-11-27).
double partial_cycles(std::int64_t size, bool mn_major, int block, int parts, const GemmTile& tile,
                      const GemmRates& rates) {
  if (!mn_major || size % gemm::kSwizzleColumns == 0) return 0;
  return rates.copy_partial_row_cycles * tile.block_k / parts / static_cast<double>(up(size, block));
}

/// Rows outside the matrix cost no traffic, but more of the copy engine's time than those inside. Shared boxes are
/// read once, and arrive more slowly; of a pair, each block brings half of b.
double copy_cycles(const GemmSizes& sizes, const GemmKernel& kernel, const GemmTile& tile, const GemmRates& rates) {
  const int columns = own_columns(kernel, tile, rates);
  const std::int64_t inside_a = std::min<std::int64_t>(sizes.m, tile.left_rows(kernel.left_mn)),
                     inside_b = std::min<std::int64_t>(sizes.n, columns);
  const double outside = rows_outside(inside_a, kernel.left_mn, tile.block_m, tile.cluster_n) +
                         rows_outside(inside_b, kernel.right_mn, columns, tile.cluster_m);
  const double partial = partial_cycles(sizes.m, kernel.left_mn, tile.block_m, tile.cluster_n, tile, rates) +
                         partial_cycles(sizes.n, kernel.right_mn, columns, tile.cluster_m, tile, rates);
  const int row_bytes = tile.block_k * tile.element_bytes;
  // Each block asks for a part of a shared box.
  const auto asked = [&](std::int64_t row, int parts) {
    return 1 + (rates.unaligned_factor - 1) * off_lines(row, tile) / parts;
  };
  const double factor_a = (tile.cluster_n > 1 ? rates.multicast_factor : 1) *
                          asked(kernel.left_mn ? sizes.m : sizes.k, tile.cluster_n),
               factor_b = (tile.cluster_m > 1 && columns == tile.block_n ? rates.multicast_factor : 1) *
                          asked(kernel.right_mn ? sizes.n : sizes.k, tile.cluster_m);
  // The blocks of a cluster share a path, and those that do a tile together share no copies. Few of them find room. Two
  // tiles of a cluster share what is copied of b. Predicted, measured us of the fastest such tile (H200, 2026-11-30):
  // 199 x 3456 x 5120 16.9, 16.8; 589 x 1280 x 8192 25.2, 27.0; 410 x 1872 x 5120 17.0, 16.8; 141 x 2560 x 8136 21.7,
  // 21.7; 449 x 768 x 5072 14.3, 13.0.
  const double filled = std::min(
                   1.0, clusters_of(sizes, tile) * tile.blocks() / static_cast<double>(sizes.sms(*rates.arch))),
               factor = tile.shares_slices() ? rates.shared_slice_copy_factor : rates.slice_copy_factor,
               apart = tile.sliced() ? 1 + (factor - 1) * filled : 1;
  const double path = (static_cast<double>(inside_a) * factor_a + static_cast<double>(inside_b) * factor_b) *
                      row_bytes * rates.copy_cycles_per_byte * apart;
  const double brought = path + outside * (row_bytes / kLineBytes) * rates.copy_outside_row_cycles + partial;
  if (tile.reads) return std::max(brought, rates.row_read_cycles);
  // A thread for each operand asks for copies where one for both would take too long.
  return std::max(brought, tile.blocks() > 1 ? rates.shared_issue_cycles : rates.issue_cycles);
}

/// Reads of an operand that L2 answers at once, where so many blocks or clusters of a group of SMs share it: those that
/// come at about the same time.
double read_at_once(double sharers, const GemmRates& rates) {
  return 1 + std::max(0.0, sharers - 1) * rates.near_share;
}

/// One iteration of every tile by what all SMs read from L2, and by the rows outside the matrix that their copy engines
/// fill: two limits that add up. Blocks that share a copy read it once.
GemmPath joint_path(const GemmSizes& sizes, const GemmKernel& kernel, const GemmTile& tile, const GemmRates& rates) {
  if (rates.joint_bytes_per_cycle <= 0) return {};
  const auto m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n);
  const auto tiles = [](std::int64_t size, int block, int blocks) {
    return static_cast<double>(up(size, std::int64_t{block} * blocks)) * blocks;
  };
  const double down = tiles(sizes.m, tile.block_m, tile.cluster_m),
               across = tiles(sizes.n, tile.block_n, tile.cluster_n);
  // Blocks of a group of SMs do neighbouring tiles: some rows of them, and as many columns as that makes.
  const auto places = std::min(clusters_of(sizes, tile), static_cast<double>(cluster_places(sizes, tile, *rates.arch)));
  const double near = rates.near_sms / tile.blocks(),
               near_rows = std::min<double>(
                   near, gemm_group_rows(tile, static_cast<std::int64_t>(down / tile.cluster_m), places));
  const double reads_a =
                   across / tile.cluster_n / read_at_once(std::min(near / near_rows, across / tile.cluster_n), rates),
               reads_b = down / tile.cluster_m / read_at_once(near_rows, rates);
  const double columns = tile.block_n / own_columns(kernel, tile, rates);
  // Boxes of 64 rows bring low tiles some of the next one's.
  const double brought = m + (down - 1) * (tile.left_rows(kernel.left_mn) - tile.block_m),
               rows = brought * reads_a + n * reads_b / columns;
  // Each block fills its own: nothing is read that others could share. Example: 100 x 3072 x 5120 takes 27 us in
  // 88x64x128s and 14 in 80x64x128s (H200, 2026-11-29). 76 rows of 176 are filled there, 20 of 120 here.
  const double outside =
      rows_outside(sizes.m, kernel.left_mn, tile.block_m, tile.cluster_n) * across / tile.cluster_n +
      rows_outside(sizes.n, kernel.right_mn, tile.block_n, tile.cluster_m) * down / tile.cluster_m / columns;
  const int row_bytes = tile.block_k * tile.element_bytes;
  const double at_once = static_cast<double>(sizes.batch) * tile.cluster_k;
  const double bytes = at_once * rows * row_bytes, fills = at_once * outside * row_bytes / kLineBytes;
  const double apart = at_once * row_bytes * (brought * across / tile.cluster_n + n * down / tile.cluster_m / columns);
  return {bytes, bytes / rates.joint_bytes_per_cycle + fills / rates.joint_outside_rows_per_cycle,
          apart / rates.joint_bytes_per_cycle + fills / rates.joint_outside_rows_per_cycle};
}

/// The launches that copy operands whose rows begin anywhere (copies.cpp), each read and written once. They are
/// left out for archs that have no tile which reads such rows itself: all tiles have them alike there.
double copied_cycles(const GemmSizes& sizes, const GemmKernel& kernel, const GemmTile& tile, const GemmRates& rates) {
  if (rates.row_read_cycles <= 0 || tile.reads_left()) return 0;
  double cycles = 0;
  const auto add = [&](std::int64_t rows, std::int64_t row) {
    if ((rows == 1 && sizes.batch == 1) || row * tile.element_bytes % kCopyAlignmentBytes == 0) return;
    const double bytes = static_cast<double>(rows) * static_cast<double>(row * sizes.batch) * tile.element_bytes;
    cycles += rates.next_launch_cycles + 2 * bytes / rates.memory_bytes_per_cycle;
  };
  kernel.left_mn ? add(sizes.k, sizes.m) : add(sizes.m, sizes.k);
  if (!tile.reads) kernel.right_mn ? add(sizes.k, sizes.n) : add(sizes.n, sizes.k);
  return cycles;
}

/// The sixth power.
double sixth(double time) {
  const double cube = time * time * time;
  return cube * cube;
}
/// A time that limits give together: the longest one, and more where they lie close to each other. It is the sixth root
/// of the sum of their sixth powers, taken once: hot calls of new sizes wait for it.
double joined(double sixths) { return std::cbrt(std::sqrt(sixths)); }

/// An iteration of all SMs by what they read from L2 together, over several waves.
double shared_path_cycles(const GemmSizes& sizes, const GemmTile& tile, const GemmRates& rates) {
  const double rows =
      static_cast<double>(tile.block_m) / tile.cluster_n + static_cast<double>(tile.block_n) / tile.cluster_m;
  return static_cast<double>(sizes.sms(*rates.arch)) * rows * tile.block_k * tile.element_bytes /
         rates.sustained_bytes_per_cycle;
}

}  // namespace
GemmPrediction::GemmPrediction(const GemmSizes& sizes, const GemmKernel& kernel, int tile, const GemmRates& rates)
    : rates_(rates),
      tile_(kGemmTiles[static_cast<std::size_t>(tile)]),
      cycles_(rates.cycles[static_cast<std::size_t>(tile)]),
      out_bytes_(size_of(kernel.out)),
      addend_bytes_(kernel.add_c ? size_of(kernel.addend()) : 0),
      store_(store_of(kernel, tile)),
      scattered_(!kernel.d_aligned && store_ == gemm::kDirect),
      stored_(static_cast<double>(kernel.columns(tile_.block_n)) / tile_.block_n),
      sums_(rates.family->thread_sums(tile_, *rates.arch) * stored_),
      activation_((rates.activation_cycles[static_cast<std::size_t>(kernel.applied())] +
                   gemm_text_cycles(kernel.end_text, *rates.arch)) *
                  static_cast<double>(tile_.block_m * kernel.columns(tile_.block_n))),
      blocks_(up(up(sizes.k, tile_.block_k), tile_.cluster_k)),
      clusters_(clusters_of(sizes, tile_)),
      places_(cluster_places(sizes, tile_, *rates.arch)),
      beside_(rates.beside[static_cast<std::size_t>(tile)]),
      stores_beside_(rates.stores_beside[static_cast<std::size_t>(tile)]),
      matrix_(static_cast<double>(
          (kernel.scales == Scales::tensor ? rates.matrix : rates.scaled)[static_cast<std::size_t>(tile)])),
      rows_(static_cast<double>(sizes.m)),
      slots_(rates.slots[static_cast<std::size_t>(tile)]) {
  const auto m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n),
             batch = static_cast<double>(sizes.batch);
  elements_ = stored_ * m * n * batch;
  operand_bytes_ = (m + n) * static_cast<double>(sizes.k) * tile_.element_bytes * batch;
  share_ = static_cast<double>(rates.arch->sm_count) / static_cast<double>(sizes.sms(*rates.arch));
  own_ = std::max(matrix_, copy_cycles(sizes, kernel, tile_, rates));
  path_ = joint_path(sizes, kernel, tile_, rates);
  copied_ = copied_cycles(sizes, kernel, tile_, rates);
  shared_ = std::max(own_, shared_path_cycles(sizes, tile_, rates));
  lines_ = unaligned_bytes(sizes, kernel, tile_, clusters_ * tile_.blocks()) /
           rates.unaligned_bytes_per_cycle;  // tiles beyond the matrix included
}

/// The sixth powers of two limits: loops of an SM that alone take so long, of which the matrix unit is busy for a part;
/// what all SMs read in so many iterations of every tile. At the power limit products and copies take their time one
/// after the other.
double GemmPrediction::loop_sixths(double loop, double busy, double iterations, double path) const {
  const double kb = share_ * path_.bytes * iterations / 1024 / static_cast<double>(rates_.arch->sm_count);
  const double power = std::min(busy, loop) * rates_.slowed + kb * rates_.kb_power_cycles;
  return sixth(std::max(loop * rates_.slowed, power)) + sixth(path * iterations);
}

/// Tiles of two products a consumer take 4 to 12% more than they should where blocks do several and products are the
/// limit: 12326 x 7168 x 4608 took 1303 us, predicted were 1158; 208 x 128 took 1215 (1173) (H100, 2026-11-27).
double GemmPrediction::wide_loop() const {
  constexpr double kMore = 1.087, kFewWaves = 2;
  return tile_.consumer_rows() > gemm::kRowsPerConsumer && clusters_ > kFewWaves * places_ ? kMore : 1;
}

/// A tile's end, which the next loop waits for. Parts have their activations in the launch that adds them.
double GemmPrediction::end_cycles(int parts) const { return store_cycles(parts) + (parts == 1 ? activation_ : 0); }

/// The stores of a tile. Blocks that began together end together: where limits were measured jointly, memory takes what
/// all of them write at once. Rows through shared memory leave beside, and so do quantised ones (estimate).
double GemmPrediction::store_cycles(int parts) const {
  const bool wide = out_bytes_ == size_of(DType::f32) || parts > 1;
  const GemmStoreRates& stores = rates_.stores;
  if (parts == 1 && (store_ != gemm::kDirect || out_bytes_ == 1) && stores.staged_cycles > 0)
    return rates_.turn_cycles + sums_ * stores.staged_cycles;
  if (parts == 1 && scattered_ && stores.scattered_cycles > 0)
    return rates_.turn_cycles + sums_ * stores.scattered_cycles;
  const double sum = tile_.swapped ? stores.swapped_wide_cycles : stores.wide_cycles;
  const double alone =
      wide && sum > 0 ? rates_.turn_cycles + sums_ * sum : stored_ * static_cast<double>(cycles_[wide ? 1 : 0].end);
  if (path_.cycles <= 0) return alone;
  const double bytes =
      stored_ * std::min<double>(rows_, tile_.block_m) * tile_.block_n * (wide ? size_of(DType::f32) : out_bytes_);
  const double blocks = std::min(clusters_ * parts, places_) * tile_.blocks();
  return alone + bytes * blocks / (rates_.memory_bytes_per_cycle * rates_.slowed);
}

/// A consumer's rows of d, where one warp brings them from shared memory: it does so beside the next tile's loop. Its
/// loads of a row come before its stores, and a row's before the next one's.
double GemmPrediction::put_cycles(int parts) const {
  if (parts > 1 || store_ != gemm::kRows) return 0;
  return std::min<double>(rows_, tile_.swapped ? tile_.block_m : tile_.consumer_rows()) * rates_.stores.row_cycles;
}

/// An iteration by how many copies are under way: a slot's next copy begins when the one before has come and was read.
/// Example: 96 x 5120 x 17920 takes 53.9 us in five slots of 96x64x128s and 62.7 in four of 112x64x128s, which bring as
/// much, and 70.0 in eight of half as much (64x80x64); 51 to 54 were predicted without this (H200, 2026-11-30). Nobody
/// timed 8-bit elements for it.
double GemmPrediction::slot_cycles(int parts, bool cached) const {
  const int slots = slots_[parts == 1 && store_ != gemm::kDirect ? 1 : 0];
  return cached || slots == 0 || tile_.reads || tile_.promotes() ? 0 : rates_.memory_slot_cycles / slots;
}

/// The last of the blocks that do a tile together gets the others' sums, and adds them.
double GemmPrediction::slice_cycles() const {
  if (!tile_.sliced()) return 0;
  return rates_.stores.slice_cycles + (tile_.cluster_k - 1) * sums_ * rates_.stores.slice_sum_cycles;
}

/// Few blocks begin beside the launch before (plan.cpp), and so do clusters of many tiles, whose coming together that
/// hides. Example: 17 x 3072 x 1024 takes 3.3 us in 64 tiles of 48 columns, and 3.8 in 77 of 40 (H200,
/// 2026-11-29).
double GemmPrediction::start_cycles(int parts) const {
  constexpr double kManyWaves = 4;
  const double tiles = clusters_ * parts;
  double hidden = std::ceil(tiles / places_) >= kManyWaves && tile_.blocks() > 1 ? rates_.hidden_start_cycles : 0;
  if (2 * tiles <= places_) hidden += rates_.hidden_launch_cycles;
  const double last = parts > 1                 ? 0
                      : store_ == gemm::kRows   ? put_cycles(parts)
                      : store_ == gemm::kDirect ? rates_.stores.direct_end_cycles
                                                : rates_.stores.staged_end_cycles;
  return static_cast<double>(cycles_[0].start) + last - hidden;
}

/// The loops of all waves, which take an SM `loop` cycles. The last one has what is left of all SMs' limits. Few SMs
/// then read as fast as they can: 14 x 10240 x 8192 takes 52 us in 160 tiles of 64 columns, and 42 in 80 or in 256
/// (H200, 2026-11-29).
double GemmPrediction::waves_cycles(double loop, double parts, double by_memory, double compulsory, bool cached) const {
  const double even = clusters_ * parts / places_, full = std::floor(even), waves = std::ceil(even),
               iterations = static_cast<double>(gemm_part_blocks(blocks_, static_cast<int>(parts)));
  const auto wave = [&](double count, double share, double least) {
    const double busy = wide_loop() * even * iterations * matrix_ * share;
    return joined(loop_sixths(loop * count / waves, busy, iterations * parts * share, path_.cycles) +
                  sixth(std::max(by_memory * share, least)) + sixth(lines_ * iterations * parts * share));
  };
  if (full == waves) return wave(waves, 1, 0);
  const double lone = cached || rates_.lone_memory_bytes_per_cycle <= 0
                          ? 0
                          : compulsory / (clusters_ * parts * tile_.blocks()) / rates_.lone_memory_bytes_per_cycle;
  return (full > 0 ? wave(full, full / even, 0) : 0) + wave(1, 1 - full / even, lone);
}

double GemmPrediction::cycles(int parts) const {
  const double waves = std::ceil(clusters_ * parts / places_), end = end_cycles(parts);
  const auto iterations = static_cast<double>(gemm_part_blocks(blocks_, parts));  // of one tile
  // One of several blocks on an SM stores while another multiplies. A block that has room for the next tile's sums does
  // both.
  const auto by_iterations = [&](double iteration) {
    const double loop = iterations * iteration,
                 alone = (stores_beside_ ? std::max(0.0, end - loop) : end) + std::max(0.0, put_cycles(parts) - loop);
    return wide_loop() * waves * loop + (std::ceil(waves / beside_) - 1) * alone;
  };
  // Each operand read once, the result written once; or the sums of each part.
  const double compulsory = operand_bytes_ + elements_ * (parts == 1 ? out_bytes_ : size_of(DType::f32) * parts);
  const double even = clusters_ * parts / places_;  // waves, were none of them partly empty
  const bool cached = compulsory <= rates_.cache_bytes;
  // All SMs' time over the time in which they have a tile.
  const double idle = rates_.own_share ? share_ * waves / even : 1;
  const double by_memory = idle * compulsory / (cached ? rates_.cache_bytes_per_cycle : rates_.memory_bytes_per_cycle);
  double work = 0;
  if (path_.cycles > 0) {
    work =
        waves_cycles(by_iterations(std::max(own_, slot_cycles(parts, cached))), parts, by_memory, compulsory, cached);
  } else {
    const bool sustained = waves > 1 && by_iterations(own_) > by_memory;
    work = std::max({by_iterations(sustained ? shared_ : own_), by_memory, lines_ * iterations * parts});
  }
  const double product = (start_cycles(parts) + slice_cycles() + end) * rates_.slowed + work + copied_;
  return parts == 1 ? product : product + sum_cycles(parts);
}

/// All clusters have as many iterations. Beside its own tiles, a cluster leaves the sums of one piece and reads one.
/// That takes as long as was measured, else as copies take, with a round trip between the two. Fewer tiles than
/// clusters have more pieces each. The cluster that finishes one adds theirs one after the other, while all others are
/// done. Sums and counters of a call take as long as those of parts.
double GemmPrediction::split_cycles() const {
  const double places = places_ * beside_, iterations = std::ceil(clusters_ * static_cast<double>(blocks_) / places);
  const double tiles = std::ceil(clusters_ / places);
  const double sums = static_cast<double>(tile_.block_m) * tile_.block_n * sizeof(float);
  const double compulsory = operand_bytes_ + elements_ * out_bytes_;
  const double by_memory =
      compulsory / (compulsory > rates_.cache_bytes ? rates_.memory_bytes_per_cycle : rates_.cache_bytes_per_cycle);
  const double per_tile = (tiles - 1) * end_cycles(1), lines = lines_ * static_cast<double>(blocks_);
  const GemmStoreRates& stores = rates_.stores;
  double work = std::max({iterations * (tiles > 1 ? shared_ : own_) * beside_ + per_tile, by_memory, lines});
  if (path_.cycles > 0)
    work = joined(
        loop_sixths(iterations * std::max(own_, slot_cycles(1, compulsory <= rates_.cache_bytes)) * beside_ + per_tile,
                    iterations * matrix_ * beside_, static_cast<double>(blocks_),
                    path_.apart_cycles * stores.apart_factor) +
        sixth(by_memory) + sixth(lines));
  const double most =
                   std::min(places / clusters_, static_cast<double>(blocks_) / graph::kLeastPiece),  // others' pieces
      of_sum = stores.piece_sum_cycles + std::max(0.0, std::ceil(most) - 1) * stores.more_piece_sum_cycles;
  const double pieces = stores.piece_cycles > 0 ? (stores.piece_cycles + of_sum * sums_) * rates_.slowed
                                                : 2 * sums * rates_.copy_cycles_per_byte + rates_.copy_latency_cycles;
  return (static_cast<double>(cycles_[0].start) + end_cycles(1)) * rates_.slowed + work + pieces + copied_ +
         rates_.next_launch_cycles;
}

/// The launch that adds the parts: as long as memory takes, L2 or not, but not less than the round trips of a thread.
double GemmPrediction::sum_cycles(int parts) const {
  const double by_memory = sum_parts_bytes(elements_, parts, out_bytes_, addend_bytes_) / rates_.memory_bytes_per_cycle;
  return rates_.next_launch_cycles + std::max(by_memory, sum_parts_trips(parts) * rates_.copy_latency_cycles);
}

}  // namespace tj::ops
