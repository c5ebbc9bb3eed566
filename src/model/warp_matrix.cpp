// See warp_matrix.hpp.
#include "model/warp_matrix.hpp"

#include <array>
#include <cstring>

#include "model/block.hpp"
#include "model/matrix_math.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

constexpr unsigned kSide = 8;  // rows and columns of a matrix that is loaded
constexpr std::uint32_t kRowBytes = 16;
constexpr unsigned kRows = 16, kColumns = 8, kDepth = 16;  // of a product

using Requests = WarpUnit::Requests;

Thread& lane_of(Thread& any, unsigned lane) { return any.block->scheduler.thread(any.warp() * kWarpThreads + lane); }

void load_all(Thread& last, const Requests& requests) {
  const auto request = [&](unsigned lane) -> const LoadMatrices& {
    return *static_cast<const LoadMatrices*>(requests[lane]);
  };
  const LoadMatrices& first = request(0);
  for (unsigned lane = 1; lane < kWarpThreads; ++lane)
    if (request(lane).count != first.count || request(lane).transposed != first.transposed)
      fault(lane_of(last, lane), cat("asks for ", request(lane).count, request(lane).transposed ? " transposed" : "",
                                     " matrices, lane 0 for ", first.count, first.transposed ? " transposed" : ""));
  for (unsigned m = 0; m < static_cast<unsigned>(first.count); ++m) {
    std::array<std::array<std::uint16_t, kSide>, kSide> matrix;
    for (unsigned row = 0; row < kSide; ++row) {
      const unsigned lane = kSide * m + row;
      std::memcpy(matrix[row].data(),
                  last.block->ordinary_read(lane_of(last, lane), request(lane).address, kRowBytes, "load_matrices"),
                  kRowBytes);
    }
    for (unsigned lane = 0; lane < kWarpThreads; ++lane) {
      const unsigned line = lane / 4, place = lane % 4 * 2;
      const unsigned low = first.transposed ? matrix[place][line] : matrix[line][place];
      const unsigned high = first.transposed ? matrix[place + 1][line] : matrix[line][place + 1];
      request(lane).words[m] = low | high << 16;
    }
  }
}

const tj_model_mma& product_of(const Requests& requests, unsigned lane) {
  return *static_cast<const tj_model_mma*>(requests[lane]);
}
/// Row and column of a lane's sum `i`.
unsigned sum_place(unsigned lane, unsigned i) { return (lane / 4 + i / 2 * 8) * kColumns + lane % 4 * 2 + i % 2; }

// Lane l has row l / 4 (and that + 8) of a and of d, and column l / 4 of b. A word has four elements of K, from 4 (l %
// 4) on, or 16 further on.
void multiply_bytes(const Requests& requests) {
  constexpr unsigned kByteDepth = matrix_depth(TJ_MODEL_E4M3);
  alignas(32) float left[kRows * kByteDepth], right[kByteDepth * kColumns], sums[kRows * kColumns];
  for (unsigned lane = 0; lane < kWarpThreads; ++lane) {
    const tj_model_mma& own = product_of(requests, lane);
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned line = lane / 4, k = lane % 4 * 4 + e;
      const auto element = [&](unsigned word) { return e4m3_to_float(static_cast<std::uint8_t>(word >> 8 * e)); };
      for (unsigned reg = 0; reg < 4; ++reg)
        left[(line + reg % 2 * 8) * kByteDepth + k + reg / 2 * 16] = element(own.a[reg]);
      for (unsigned reg = 0; reg < 2; ++reg) right[(k + reg * 16) * kColumns + line] = element(own.b[reg]);
      sums[sum_place(lane, e)] = own.d[e];
    }
  }
  multiply_e4m3_rows(left, right, sums, kColumns, kRows);
  for (unsigned lane = 0; lane < kWarpThreads; ++lane)
    for (unsigned i = 0; i < 4; ++i) product_of(requests, lane).d[i] = sums[sum_place(lane, i)];
}

// The same of 16-bit elements: a word has two, from K 2 (l % 4) on, or 8 further on.
void multiply_halves(const Requests& requests) {
  const auto request = [&](unsigned lane) -> const tj_model_mma& { return product_of(requests, lane); };
  const tj_model_element element = request(0).element;
  alignas(32) std::uint16_t a[kRows * kDepth], b[kColumns * kDepth];  // [row][k], [column][k]
  alignas(32) float left[kRows * kDepth], right[kColumns * kDepth], transposed[kDepth * kColumns],
      sums[kRows * kColumns];
  const auto put = [](std::uint16_t* row, unsigned place, unsigned word) {
    row[place] = static_cast<std::uint16_t>(word);
    row[place + 1] = static_cast<std::uint16_t>(word >> 16);
  };
  for (unsigned lane = 0; lane < kWarpThreads; ++lane) {
    const tj_model_mma& own = request(lane);
    const unsigned line = lane / 4, place = lane % 4 * 2;
    for (unsigned reg = 0; reg < 4; ++reg) put(a + (line + reg % 2 * 8) * kDepth, place + reg / 2 * 8, own.a[reg]);
    for (unsigned reg = 0; reg < 2; ++reg) put(b + line * kDepth, place + reg * 8, own.b[reg]);
    for (unsigned i = 0; i < 4; ++i) sums[(line + i / 2 * 8) * kColumns + place + i % 2] = own.d[i];
  }
  to_floats(a, kRows * kDepth, element, left);
  to_floats(b, kColumns * kDepth, element, right);
  for (unsigned k = 0; k < kDepth; ++k)
    for (unsigned j = 0; j < kColumns; ++j) transposed[k * kColumns + j] = right[j * kDepth + k];
  multiply_rows(left, transposed, sums, kColumns, kRows);
  for (unsigned lane = 0; lane < kWarpThreads; ++lane)
    for (unsigned i = 0; i < 4; ++i) request(lane).d[i] = sums[sum_place(lane, i)];
}

void multiply_all(Thread& last, const Requests& requests) {
  const tj_model_element element = product_of(requests, 0).element;
  for (unsigned lane = 1; lane < kWarpThreads; ++lane)
    if (product_of(requests, lane).element != element)
      fault(lane_of(last, lane), "multiplies elements of another type than lane 0 of its warp");
  element == TJ_MODEL_E4M3 ? multiply_bytes(requests) : multiply_halves(requests);
}

}  // namespace

void load_matrices(Thread& thread, const LoadMatrices& request) {
  Block& block = *thread.block;
  block.warps[thread.warp()].meet_all(block.scheduler, thread, WarpUnit::Kind::load_matrices, &request, load_all);
}

void multiply_fragments(Thread& thread, const tj_model_mma& request) {
  Block& block = *thread.block;
  block.warps[thread.warp()].meet_all(block.scheduler, thread, WarpUnit::Kind::mma, &request, multiply_all);
}

}  // namespace tj::model
