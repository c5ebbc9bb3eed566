// The arithmetic of warpgroup matrix instructions: operands out of shared memory or registers, product into f32.
//
// Decides how descriptors and fragments name elements. Does not decide when an instruction runs.
// Invariant: an element is found through the descriptor's bits alone, as the hardware does.
#pragma once

#include <cstdint>
#include <functional>

#include "model/abi.h"
#include "model/shared.hpp"

namespace tj::model {

inline constexpr int kMatrixRows = 64;
inline constexpr int kMaxMatrixDepth = 32;
inline constexpr int kMaxMatrixColumns = 256;

/// Length along K: 32 bytes.
constexpr int matrix_depth(tj_model_element element) { return element == TJ_MODEL_E4M3 ? 32 : 16; }

/// A shared-memory operand, unpacked: PTX ISA 8.7, "Matrix Descriptor Format".
struct MatrixOperand {
  std::uint32_t address = 0, leading_bytes = 0, stride_bytes = 0;
  std::uint32_t swizzle_bytes = 0;  ///< 0, 32, 64, 128
  /// Throws tj::Error(model_fault) for bits that this model does not know.
  static MatrixOperand decode(std::uint64_t descriptor);
};

/// out[i * matrix_depth(element) + k] = element (i, k) of a K-major operand, count rows.
void load_k_major(SharedMemory& shared, const MatrixOperand& operand, tj_model_element element, int count, float* out);
/// out[k * count + i] = element (i, k) of an MN-major operand of 16-bit elements.
void load_mn_major(SharedMemory& shared, const MatrixOperand& operand, tj_model_element element, int count, float* out);
/// Calls visit(row, address, bytes) for each place in shared memory that an instruction reads of an operand of `count`
/// rows. A place with several rows (MN-major) goes by its first row.
void for_each_chunk(const MatrixOperand& operand, tj_model_element element, int count, bool mn_major,
                    const std::function<void(int, std::uint32_t, std::uint32_t)>& visit);
/// The left operand from registers, 16-bit elements: fragment of 128 threads, four registers each, out[i * 16 + k].
void load_fragments(const std::uint32_t (*registers)[4], tj_model_element element, float* out);

/// Row and column of accumulator `index` of a thread of the warpgroup.
struct AccumulatorPlace {
  int row, column;
};
constexpr AccumulatorPlace accumulator_place(unsigned thread_in_group, int index) {
  const int warp = static_cast<int>(thread_in_group / 32), lane = static_cast<int>(thread_in_group % 32);
  return {16 * warp + lane / 4 + 8 * (index % 4 / 2), 8 * (index / 4) + 2 * (lane % 4) + index % 2};
}

/// c[i * columns + j] += sum over k of a[i * 16 + k] * b[k * columns + j]. Rows are a multiple of 4, in the first form
/// 64, columns of 8. Needs a CPU with AVX2, FMA and F16C, as every unit of the model does.
void multiply(const float* a, const float* b, float* c, int columns);
void multiply_rows(const float* a, const float* b, float* c, int columns, int rows);

/// Multiplies 32 of K whose elements come from e4m3, with what Hopper keeps of such sums. The 32 products and c are
/// shifted to the largest exponent among them and cut off 13 bits behind its point. Then they are added, and the sum
/// keeps 13 bits of fraction.
void multiply_e4m3(const float* a, const float* b, float* c, int columns);
void multiply_e4m3_rows(const float* a, const float* b, float* c, int columns, int rows);

/// e4m3 to f32, exact; 0x7f and 0xff are NaN.
float e4m3_to_float(std::uint8_t bits);

/// Converts an element of 16 bits to f32, exactly.
float to_float(std::uint16_t bits, tj_model_element element);
/// Converts `count` 16-bit elements to f32, a multiple of 8.
void to_floats(const std::uint16_t* bits, int count, tj_model_element element, float* out);

}  // namespace tj::model
