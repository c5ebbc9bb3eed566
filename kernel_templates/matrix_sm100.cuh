// Arguments of sm_100a's matrix instruction: places in tensor memory, descriptors of operands in shared memory, and the
// descriptor of the instruction itself. Included by arch/sm100.cuh; the same text serves the device and the model.
//
// Decides bits, and which shapes there are; no instruction, no op and no schedule. Invariant: the model reads these
// bits by a second description of its own, in src/model/tensor_matrix.cpp. Source: PTX ISA 8.7 and 9.0, "Tensor Memory
// Addressing", "Shared memory descriptor", "Instruction descriptor", "Matrix Shape", "tcgen05.ld".
#pragma once

namespace tj::dev {

// ---- tensor memory: 128 lanes (rows) of 512 columns of 32 bits; an address is lane << 16 | column
inline constexpr u32 kTensorLanes = 128, kTensorColumns = 512;

TJ_DEVICE u32 tensor_place(u32 tensor, u32 lane, u32 column) { return tensor + (lane << 16) + column; }
/// The place in the 32 lanes that this warp reaches: warp w of the block reaches lanes 32(w % 4) and on.
TJ_DEVICE u32 tensor_lanes(u32 tensor) { return tensor + (warp_index() % 4u << 21); }

namespace detail {
/// A primitive works for one block or for a pair of them.
template <int Blocks>
TJ_DEVICE constexpr void check_blocks() {
  static_assert(Blocks == 1 || Blocks == 2, "one block or a pair");
}
/// How many registers a thread moves at a time. One is a column of rows, and two of a fragment's columns.
template <int N>
TJ_DEVICE constexpr void check_rows() {
  static_assert(N == 1 || N == 2 || N == 4 || N == 8 || N == 16 || N % 32 == 0,
                "1, 2, 4, 8, 16 columns or a multiple of 32");
}
template <int N>
TJ_DEVICE constexpr void check_fragment() {
  static_assert(N == 4 || N == 8 || N == 16 || N % 32 == 0, "8, 16, 32 columns or a multiple of 64");
}
template <int N>
TJ_DEVICE constexpr void check_operand() {
  static_assert(N == 2 || N == 4 || N == 8 || N == 16 || N == 32, "4, 8, 16, 32 or 64 columns");
}
}  // namespace detail

// ---- operands -------------------------------------------------------------------------------------------------------
/// The operands of a matrix instruction that are stored MN-major in shared memory (rows of one k), instead of K-major.
inline constexpr int kRightMn = 1, kLeftMn = 2;

/// Shared-memory operand with 128-byte swizzle, which begins at a multiple of 1024 or inside the first row of such a
/// pattern. The bits are those of the table of "Shared memory descriptor". Bits 0-13 are address >> 4, 16-29 leading
/// offset >> 4, 32-45 stride offset >> 4. Bits 46-48 are the constant 1, 61-63 swizzle mode 2 (128 bytes). Bits 49-51
/// are 0, as patterns begin at multiples of 1024. Bit 52 is 0, as the leading dimension is told by an offset and not by
/// an address. Bits 53-60 are a constant 0. The offsets mean what they mean to sm_90a's ("Strides"). K-major, the
/// stride is from 8 rows to the next 8 and the leading offset is not read. MN-major, the leading offset is from 64 rows
/// to the next 64, and the stride from 8 of K to the next 8.
TJ_DEVICE u64 matrix_operand(u32 address, u32 leading_bytes, u32 stride_bytes) {
  return (u64{2} << 61) | (u64{1} << 46) | (u64{(stride_bytes >> 4) & 0x3fffu} << 32) |
         (u64{(leading_bytes >> 4) & 0x3fffu} << 16) | u64{(address >> 4) & 0x3fffu};
}
/// The operand `bytes` further on, inside one swizzle atom row or at a multiple of 1024.
TJ_DEVICE u64 operand_advance(u64 operand, u32 bytes) { return operand + (bytes >> 4); }

// ---- instructions ---------------------------------------------------------------------------------------------------
namespace detail {
TJ_DEVICE constexpr u32 element_bits(F16) { return 0; }
TJ_DEVICE constexpr u32 element_bits(Bf16) { return 1; }
}  // namespace detail

/// The instruction for products of Rows x Columns out of 16-bit elements, with sums in f32. The bits are those of the
/// table of "Instruction descriptor" for .kind::f16. Bits 4-5 are the type of the sums (1: f32), 7-9 and 10-12 the
/// types of left and right (0: f16, 1: bf16). Bits 15 and 16 say left and right MN-major; 17-22 are columns >> 3, 24-28
/// rows >> 4. These bits are 0: 0-2 (dense), 3 (saturation of integers), 13 and 14 (negation), 30-31 (shift of .ws) and
/// the reserved 6, 23 and 29. One block's product has 128 rows and a multiple of 16 columns up to 256, or 64 rows and a
/// multiple of 8. A pair's product has 256 rows and a multiple of 32 columns. A product of 64 rows has 16 of them in
/// the lower 16 of each warp's 32 lanes, or in the upper ones where the address says so. A left operand in tensor
/// memory likewise.
template <int Rows, int Columns, int MnMajor, class Tag>
TJ_DEVICE constexpr u32 matrix_instruction(Tag tag) {
  static_assert(Rows == 64 || Rows == 128 || Rows == 256, "64 or 128 rows a block, 256 a pair");
  static_assert(Columns >= Rows / 8 && Columns <= 256 && Columns % (Rows / 8) == 0,
                "up to 256 columns in steps of 16, of 8 for 64 rows, of 32 for a pair of blocks");
  return 1u << 4 | detail::element_bits(tag) << 7 | detail::element_bits(tag) << 10 |
         ((MnMajor & kLeftMn) != 0 ? 1u : 0u) << 15 | ((MnMajor & kRightMn) != 0 ? 1u : 0u) << 16 |
         static_cast<u32>(Columns >> 3) << 17 | static_cast<u32>(Rows >> 4) << 24;
}

/// Length of a multiplication: `Steps` steps of 16 of K. Each moves the operands in shared memory on by the bytes
/// given, a left operand in tensor memory by 8 columns.
template <int Steps, int LeftBytes, int RightBytes>
struct MatrixSteps {
  static constexpr int kSteps = Steps, kLeftBytes = LeftBytes, kRightBytes = RightBytes;
};

}  // namespace tj::dev
