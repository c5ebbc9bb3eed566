// Operands of warpgroup matrix instructions as images of shared memory, and the descriptors that name them.
//
// Decides where each element lies by the manual's drawings of layouts (PTX ISA 8.7, "Asynchronous Warpgroup Level
// Matrix Instructions"). They are written down apart from the model's, so that device and model are both held against
// them. Invariant: an operand begins at a multiple of 1024.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tj::testing {

enum class MatrixType { f16, bf16, e4m3 };

/// Elements of K of one instruction, and of the four that a test issues.
constexpr int step_depth(MatrixType type) { return type == MatrixType::e4m3 ? 32 : 16; }
constexpr int whole_depth(MatrixType type) { return 4 * step_depth(type); }

struct OperandLayout {
  MatrixType type = MatrixType::f16;
  int count = 64;               ///< rows of the left operand, columns of the right one
  bool mn_major = false;        ///< rows of one k lie together
  std::uint32_t swizzle = 128;  ///< bytes; 0: none
  bool apart = false;           ///< with more room between the parts than they need, or their offsets exchanged
  std::uint32_t begin = 0;

  std::uint32_t element_bytes() const { return type == MatrixType::e4m3 ? 1 : 2; }
  /// Parts that the offsets of the descriptor tell apart: along rows or columns, and along K.
  std::uint32_t across() const;
  std::uint32_t down() const;
  std::uint32_t leading_bytes() const;
  std::uint32_t stride_bytes() const;
  /// The place where element k of row or column i begins.
  std::uint32_t place(int i, int k) const;
  /// Bytes from the descriptor's operand to that of a later instruction.
  std::uint32_t step_bytes(int step) const;
  std::uint32_t bytes() const;
  std::uint64_t descriptor() const;
};

/// The element in every place of an image, from elements[i * depth + k].
void put(const OperandLayout& layout, const std::vector<std::uint16_t>& elements, std::vector<unsigned char>& image);

}  // namespace tj::testing
