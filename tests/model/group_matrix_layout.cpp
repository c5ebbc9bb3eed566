// See group_matrix_layout.hpp.
#include "model/group_matrix_layout.hpp"

#include <algorithm>

namespace tj::testing {
namespace {

constexpr std::uint32_t kChunk = 16;  // bytes that a swizzle moves as one

std::uint32_t swizzled_place(std::uint32_t place, std::uint32_t swizzle) {
  if (swizzle == 0) return place;
  const std::uint32_t pieces = swizzle / kChunk, line = place / 128, piece = place / kChunk;
  return (piece / pieces * pieces + (piece % pieces ^ line % pieces)) * kChunk + place % kChunk;
}

std::uint32_t up(std::uint32_t count, std::uint32_t step) { return (count + step - 1) / step; }

}  // namespace

// K-major: groups of 8 rows (across). Each has its part of K in rows as long as the swizzle or, without a swizzle, in
// blocks of 8 rows of 16 bytes. MN-major: blocks as wide as the swizzle (across), or 8 elements, of groups of 8 of K
// (down).
std::uint32_t OperandLayout::across() const {
  const auto all = static_cast<std::uint32_t>(count);
  return mn_major ? up(all, swizzle == 0 ? 8 : swizzle / 2) : up(all, 8);
}
std::uint32_t OperandLayout::down() const {
  const auto depth = static_cast<std::uint32_t>(whole_depth(type));
  return mn_major ? depth / 8 : up(depth * element_bytes(), swizzle == 0 ? kChunk : swizzle);
}

std::uint32_t OperandLayout::leading_bytes() const {
  if (swizzle == 0) {  // K-major: along K; MN-major: along K as well
    return apart ? 128 : across() * 128;
  }
  return mn_major ? down() * stride_bytes() : kChunk;  // K-major: not used
}
std::uint32_t OperandLayout::stride_bytes() const {
  if (swizzle == 0) return apart ? down() * 128 : 128;
  return 8 * swizzle * (apart ? 2 : 1);
}

std::uint32_t OperandLayout::place(int row_or_column, int depth) const {
  const auto i = static_cast<std::uint32_t>(row_or_column), k = static_cast<std::uint32_t>(depth);
  if (swizzle == 0) {
    if (mn_major) return begin + i / 8 * stride_bytes() + k / 8 * leading_bytes() + k % 8 * kChunk + i % 8 * 2;
    const std::uint32_t byte = k * element_bytes();
    return begin + i / 8 * stride_bytes() + byte / kChunk * leading_bytes() + i % 8 * kChunk + byte % kChunk;
  }
  if (mn_major) {
    const std::uint32_t width = swizzle / 2;
    return begin + swizzled_place(
                       i / width * leading_bytes() + k / 8 * stride_bytes() + k % 8 * swizzle + i % width * 2, swizzle);
  }
  const std::uint32_t byte = k * element_bytes();
  return begin + swizzled_place(byte / swizzle * across() * stride_bytes() + i / 8 * stride_bytes() + i % 8 * swizzle +
                                    byte % swizzle,
                                swizzle);
}

std::uint32_t OperandLayout::step_bytes(int step) const {
  const auto s = static_cast<std::uint32_t>(step);
  if (swizzle == 0) return s * 2 * leading_bytes();
  if (mn_major) return s * 2 * stride_bytes();
  return s * 32 / swizzle * across() * stride_bytes() + s * 32 % swizzle;
}

std::uint32_t OperandLayout::bytes() const {
  const std::uint32_t parts = swizzle == 0 ? across() * down() * 128
                              : mn_major   ? across() * leading_bytes()
                                           : across() * down() * stride_bytes();
  return up(parts, 1024) * 1024;
}

std::uint64_t OperandLayout::descriptor() const {
  const std::uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  return mode << 62 | std::uint64_t{stride_bytes() / 16} << 32 | std::uint64_t{leading_bytes() / 16} << 16 | begin / 16;
}

void put(const OperandLayout& layout, const std::vector<std::uint16_t>& elements, std::vector<unsigned char>& image) {
  const int depth = whole_depth(layout.type);
  image.resize(std::max<std::size_t>(image.size(), layout.begin + layout.bytes()),
               0xff);  // NaN in every type, but for what belongs to an operand
  for (int i = 0; i < layout.count; ++i)
    for (int k = 0; k < depth; ++k) {
      const std::uint32_t at = layout.place(i, k);
      const std::uint16_t element = elements[static_cast<std::size_t>(i * depth + k)];
      image[at] = static_cast<unsigned char>(element);
      if (layout.element_bytes() == 2) image[at + 1] = static_cast<unsigned char>(element >> 8);
    }
}

}  // namespace tj::testing
