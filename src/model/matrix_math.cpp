// See matrix_math.hpp.
#include "model/matrix_math.hpp"

#include <immintrin.h>

#include <bit>

#include "model/copy.hpp"
#include "support/fail.hpp"

#define TJ_VECTOR __attribute__((target("avx2,fma,f16c")))

namespace tj::model {
namespace {

constexpr int kChunk = 8;  // elements of 16 bits in 16 bytes: the unit that swizzles move
constexpr int kHalfDepth = 16;
constexpr std::uint32_t kHalfBytes = 2;
constexpr std::uint32_t kChunkBytes = 16;

TJ_VECTOR __m256 eight_floats(const void* from, tj_model_element element) {
  const __m128i bits = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return element == TJ_MODEL_F16 ? _mm256_cvtph_ps(bits)
                                 : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// 16 bytes of elements at a window address, which is where they would lie without swizzle.
TJ_VECTOR void load_chunk(SharedMemory& shared, std::uint32_t address, std::uint32_t swizzle_bytes,
                          tj_model_element element, float* out) {
  const std::byte* from = shared.at(swizzled(address, swizzle_bytes), 16, "a matrix operand's read");
  if (element == TJ_MODEL_E4M3) {
    for (std::uint32_t i = 0; i < kChunkBytes; ++i) out[i] = e4m3_to_float(static_cast<std::uint8_t>(from[i]));
    return;
  }
  _mm256_storeu_ps(out, eight_floats(from, element));
}

// Eight rows of one warp's share: see accumulator_place for the other side of the instruction.
struct FragmentPlace {
  int row, depth;
};
constexpr FragmentPlace fragment_place(unsigned thread_in_group, int reg) {
  const int warp = static_cast<int>(thread_in_group / 32), lane = static_cast<int>(thread_in_group % 32);
  return {16 * warp + lane / 4 + 8 * (reg % 2), 2 * (lane % 4) + 8 * (reg / 2)};
}

}  // namespace

MatrixOperand MatrixOperand::decode(std::uint64_t descriptor) {
  static constexpr std::uint32_t kSwizzle[] = {0, 128, 64, 32};
  const auto field = [&](int bit) { return static_cast<std::uint32_t>(descriptor >> bit & 0x3fffu) << 4; };
  // Bits 49-51 are a base offset, needed only where a swizzle pattern does not begin at a multiple of its size.
  constexpr std::uint64_t kKnown = 0x3fffull | 0x3fffull << 16 | 0x3fffull << 32 | 3ull << 62;
  if ((descriptor & ~kKnown) != 0)
    fault(support::cat("matrix descriptor ", hex(descriptor),
                       " has bits set that the model does not know: ", hex(descriptor & ~kKnown)));
  return {field(0), field(16), field(32), kSwizzle[descriptor >> 62]};
}

namespace {

// Calls visit(address without swizzle, row i, 8 or 16 elements from k on) for each 16 bytes of a K-major operand.
template <class Visit>
void visit_k_major(const MatrixOperand& operand, tj_model_element element, int count, Visit&& visit) {
  // Rows in groups of 8, a stride offset apart. With a swizzle a row is as long as the pattern, and the 32 bytes lie in
  // it side by side. Without it each 16 bytes are in a block of their own, a leading offset apart.
  const int chunk = matrix_depth(element) / 2;
  const std::uint32_t pitch = operand.swizzle_bytes == 0 ? 16 : operand.swizzle_bytes;
  const std::uint32_t step = operand.swizzle_bytes == 0 ? operand.leading_bytes : 16;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t row = operand.address + static_cast<std::uint32_t>(i / 8) * operand.stride_bytes +
                              static_cast<std::uint32_t>(i % 8) * pitch;
    for (int c = 0; c < 2; ++c) visit(row + static_cast<std::uint32_t>(c) * step, i, c * chunk);
  }
}

// Visits an MN-major operand, where the 16 bytes are of columns from i on, of one k.
template <class Visit>
void visit_mn_major(const MatrixOperand& operand, int count, Visit&& visit) {
  // A swizzle has columns in blocks as wide as the pattern, a leading offset apart, and depth in groups of 8, a stride
  // offset apart. No swizzle has blocks of 8 x 8, where the two offsets change their meaning.
  const std::uint32_t pitch = operand.swizzle_bytes == 0 ? 16 : operand.swizzle_bytes;
  const int width = static_cast<int>(pitch / kHalfBytes);
  const std::uint32_t across = operand.swizzle_bytes == 0 ? operand.stride_bytes : operand.leading_bytes;
  const std::uint32_t down = operand.swizzle_bytes == 0 ? operand.leading_bytes : operand.stride_bytes;
  for (int k = 0; k < kHalfDepth; ++k) {
    const std::uint32_t row =
        operand.address + static_cast<std::uint32_t>(k / 8) * down + static_cast<std::uint32_t>(k % 8) * pitch;
    for (int i = 0; i < count; i += kChunk)
      visit(row + static_cast<std::uint32_t>(i / width) * across + static_cast<std::uint32_t>(i % width) * kHalfBytes,
            i, k);
  }
}

}  // namespace

void load_k_major(SharedMemory& shared, const MatrixOperand& operand, tj_model_element element, int count, float* out) {
  const int depth = matrix_depth(element);
  visit_k_major(operand, element, count, [&](std::uint32_t address, int i, int k) {
    load_chunk(shared, address, operand.swizzle_bytes, element, out + i * depth + k);
  });
}

void load_mn_major(SharedMemory& shared, const MatrixOperand& operand, tj_model_element element, int count,
                   float* out) {
  visit_mn_major(operand, count, [&](std::uint32_t address, int i, int k) {
    load_chunk(shared, address, operand.swizzle_bytes, element, out + k * count + i);
  });
}

void for_each_chunk(const MatrixOperand& operand, tj_model_element element, int count, bool mn_major,
                    const std::function<void(int, std::uint32_t, std::uint32_t)>& visit) {
  const auto swizzled_visit = [&](std::uint32_t address, int row, int) {
    visit(row, swizzled(address, operand.swizzle_bytes), kChunkBytes);
  };
  if (mn_major)
    visit_mn_major(operand, count, swizzled_visit);
  else
    visit_k_major(operand, element, count, swizzled_visit);
}

void load_fragments(const std::uint32_t (*registers)[4], tj_model_element element, float* out) {
  for (unsigned thread = 0; thread < kGroupThreads; ++thread) {
    for (int reg = 0; reg < 4; ++reg) {
      const FragmentPlace place = fragment_place(thread, reg);
      float* pair = out + place.row * kHalfDepth + place.depth;
      pair[0] = to_float(static_cast<std::uint16_t>(registers[thread][reg]), element);
      pair[1] = to_float(static_cast<std::uint16_t>(registers[thread][reg] >> 16), element);
    }
  }
}

TJ_VECTOR float to_float(std::uint16_t bits, tj_model_element element) {
  if (element == TJ_MODEL_BF16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

TJ_VECTOR void to_floats(const std::uint16_t* bits, int count, tj_model_element element, float* out) {
  for (int i = 0; i < count; i += kChunk) _mm256_storeu_ps(out + i, eight_floats(bits + i, element));
}

void multiply(const float* a, const float* b, float* c, int columns) { multiply_rows(a, b, c, columns, kMatrixRows); }

TJ_VECTOR void multiply_rows(const float* a, const float* b, float* c, int columns, int rows) {
  constexpr int kRows = 4;  // with 8 columns: four accumulators in flight cover the latency of a multiply-add
  for (int j = 0; j < columns; j += 8) {
    for (int i = 0; i < rows; i += kRows) {
      __m256 sum[kRows];
      for (int r = 0; r < kRows; ++r) sum[r] = _mm256_loadu_ps(c + (i + r) * columns + j);
      for (int k = 0; k < kHalfDepth; ++k) {
        const __m256 right = _mm256_loadu_ps(b + k * columns + j);
        for (int r = 0; r < kRows; ++r)
          sum[r] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + (i + r) * kHalfDepth + k), right, sum[r]);
      }
      for (int r = 0; r < kRows; ++r) _mm256_storeu_ps(c + (i + r) * columns + j, sum[r]);
    }
  }
}

}  // namespace tj::model
