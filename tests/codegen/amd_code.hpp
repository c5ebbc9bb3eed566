// Reader of the matrix instructions in a code object for AMD, for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "compile/hip_here.hpp"
#include "support/code_object.hpp"

namespace tj::testing {

namespace detail {

template <class T>
T read_at(std::string_view bytes, std::size_t offset) {
  T value{};
  if (offset <= bytes.size() && sizeof(T) <= bytes.size() - offset)
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// First halves of the instructions' encodings: v_wmma_f32_16x16x16 of f16, bf16 and fp8; v_mfma_f32_16x16x16 of f16,
/// of bf16 on gfx90a and from gfx942 on. Source: AMD RDNA 3 and 4 ISA reference guides, VOP3P; AMD CDNA 2 and 3 ISA
/// reference guides, VOP3P-MAI.
inline bool is_matrix_instruction(std::uint32_t word, bool mfma) {
  const std::uint32_t high = word >> 16;
  return mfma ? high == 0xd3cd || high == 0xd3e7 || high == 0xd3e1 : high == 0xcc40 || high == 0xcc41 || high == 0xcc46;
}

}  // namespace detail

/// The words of the object's code, in order.
inline std::vector<std::uint32_t> code_words(std::string_view object) {
  using detail::read_at;
  constexpr std::uint64_t kExecutable = 4;  // ELF-64: SHF_EXECINSTR
  const auto headers = read_at<std::uint64_t>(object, 0x28);
  const auto size = read_at<std::uint16_t>(object, 0x3a), count = read_at<std::uint16_t>(object, 0x3c);
  std::vector<std::uint32_t> words;
  for (std::uint64_t header = headers; header < headers + std::uint64_t{size} * count; header += size) {
    if ((read_at<std::uint64_t>(object, header + 0x08) & kExecutable) == 0) continue;
    const auto begin = read_at<std::uint64_t>(object, header + 0x18),
               bytes = read_at<std::uint64_t>(object, header + 0x20);
    for (std::uint64_t at = begin; at + 4 <= begin + bytes && at + 4 <= object.size(); at += 4)
      words.push_back(read_at<std::uint32_t>(object, at));
  }
  return words;
}

/// How many times the matrix instructions that primitives use stand in the object's code.
inline int matrix_instructions(std::string_view object, bool mfma) {
  const std::vector<std::uint32_t> words = code_words(object);
  return static_cast<int>(std::count_if(words.begin(), words.end(),
                                        [&](std::uint32_t word) { return detail::is_matrix_instruction(word, mfma); }));
}

}  // namespace tj::testing
