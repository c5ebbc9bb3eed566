// Protects the descriptors of the matrix instruction on tensor memory: every bit of both kinds against the tables of
// the PTX ISA. The tables are written down here field by field. They know neither the functions that make descriptors
// nor the model that reads them.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "model/model_unit.hpp"

namespace {

using namespace tj::testing;

/// A field of a table: its first bit, how many, what it must hold. Bits of no field are 0.
struct Field {
  int bit, size;
  std::uint64_t value;
};
std::uint64_t packed(const std::vector<Field>& fields) {
  std::uint64_t bits = 0, taken = 0;
  for (const Field& field : fields) {
    const std::uint64_t mask = ((std::uint64_t{1} << field.size) - 1) << field.bit;
    REQUIRE((taken & mask) == 0);
    REQUIRE((field.value << field.bit & ~mask) == 0);
    taken |= mask;
    bits |= field.value << field.bit;
  }
  return bits;
}

/// PTX ISA 9.1, "Instruction descriptor", the table of .kind::tf32, .kind::f16, .kind::f8f6f4 and .kind::i8.
std::uint64_t instruction(unsigned rows, unsigned columns, unsigned type, bool left_mn, bool right_mn) {
  return packed({{0, 2, 0},             // sparsity selector
                 {2, 1, 0},             // dense
                 {3, 1, 0},             // saturation, of integers alone
                 {4, 2, 1},             // D in f32
                 {6, 1, 0},             // reserved
                 {7, 3, type},          // A: f16 0, bf16 1
                 {10, 3, type},         // B
                 {13, 1, 0},            // negate A
                 {14, 1, 0},            // negate B
                 {15, 1, left_mn},      // transpose A
                 {16, 1, right_mn},     // transpose B
                 {17, 6, columns / 8},  // N >> 3
                 {23, 1, 0},            // reserved
                 {24, 5, rows / 16},    // M >> 4
                 {29, 1, 0},            // reserved
                 {30, 2, 0}});          // shift of .ws
}

/// PTX ISA 9.1, "Shared memory descriptor", its only table.
std::uint64_t operand(std::uint64_t address, std::uint64_t leading, std::uint64_t stride) {
  return packed({{0, 14, address >> 4},
                 {16, 14, leading >> 4},
                 {32, 14, stride >> 4},
                 {46, 3, 1},    // constant
                 {49, 3, 0},    // base offset: patterns begin at multiples of 1024
                 {52, 1, 0},    // the leading dimension is an offset
                 {53, 8, 0},    // constant
                 {61, 3, 2}});  // 128-byte swizzle
}

struct Params {
  std::uint64_t* out;
};

constexpr const char* kText = R"(
struct Params { u64* out; };
TJ_KERNEL(kernel, 32, Params, p) {
  if (thread_index() != 0) return;
  u64* out = p.out;
  *out++ = matrix_instruction<128, 256, 0>(F16{});
  *out++ = matrix_instruction<128, 16, kLeftMn>(Bf16{});
  *out++ = matrix_instruction<128, 128, kRightMn>(F16{});
  *out++ = matrix_instruction<64, 8, kLeftMn | kRightMn>(Bf16{});
  *out++ = matrix_instruction<64, 248, 0>(F16{});
  *out++ = matrix_instruction<256, 32, 0>(Bf16{});
  *out++ = matrix_instruction<256, 256, kRightMn>(F16{});
  *out++ = matrix_operand(1024, 16, 1024);
  *out++ = matrix_operand(226 * 1024, 8192, 1024);
  *out++ = operand_advance(matrix_operand(4096, 16384, 2048), 96);
  *out++ = tensor_place(0, 0, 511);
  *out++ = tensor_place(256, 112, 128);
}
)";

}  // namespace

TEST_CASE("descriptors and places are what the manual's tables say, bit by bit") {
  const std::vector<std::uint64_t> expected = {
      instruction(128, 256, 0, false, false), instruction(128, 16, 1, true, false),
      instruction(128, 128, 0, false, true), instruction(64, 8, 1, true, true), instruction(64, 248, 0, false, false),
      instruction(256, 32, 1, false, false), instruction(256, 256, 0, false, true), operand(1024, 16, 1024),
      operand(226 * 1024, 8192, 1024), operand(4096 + 96, 16384, 2048),
      // "Tensor Memory Addressing": column in bits 0-15, lane in 16-31.
      packed({{0, 16, 511}, {16, 16, 0}}), packed({{0, 16, 256 + 128}, {16, 16, 112}})};
  std::vector<std::uint64_t> made(expected.size() + 1, ~std::uint64_t{0});
  Params params{made.data()};
  ModelUnit(kText, "sm_100a").run("kernel", params, 32);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(made[i] == expected[i]);
  }
  CHECK(made.back() == ~std::uint64_t{0});
}
