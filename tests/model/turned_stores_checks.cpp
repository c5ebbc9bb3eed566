// Expectations of stores of transposed matrices and of transposed fragments, on whatever runs the primitives. Shared by
// the tests of the model and of a device.
#include <doctest/doctest.h>

#include <vector>

#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

// Element `column` of row `row` of matrix `m` is 64 m + 8 row + column. Places are 32 bytes apart.
constexpr const char* kTurned = R"(
struct Params { u32* out; };
TJ_KERNEL(kernel, 32, Params, p) {
  const u32 base = shared_base(), lane = lane_index();
  u32 words[4];
  for (u32 m = 0; m < 4; ++m) {
    const u32 first = 64 * m + 8 * (lane / 4) + 2 * (lane % 4);
    words[m] = first | (first + 1) << 16;
  }
  store_matrices_transposed(base + 32 * lane, words);
  warp_sync();
  for (u32 word = 0; word < 4; ++word) p.out[4 * lane + word] = load_shared<u32>(base + 32 * lane + 4 * word);
  prefetch_global(p.out);
  p.out[128 + lane] = transpose_matrix(words[0]);
}
)";

struct Params {
  std::uint32_t* out;
};

}  // namespace

std::string_view turned_stores_text() { return kTurned; }

void check_turned_stores(const MakeUnit& make) {
  PrimitiveUnit unit = make(kTurned);
  const Params params{unit.upload(std::vector<std::uint32_t>(160, 0xffffffffu))};
  unit.run(params, 32);
  const std::vector<std::uint32_t> out = unit.download(params.out, 160);
  int wrong = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    for (std::uint32_t word = 0; word < 4; ++word) {
      const std::uint32_t first = 64 * (lane / 8) + 16 * word + lane % 8;  // of row 2 word, and of the one below
      wrong += out[4 * lane + word] != (first | (first + 8) << 16);
    }
  for (std::uint32_t lane = 0; lane < 32; ++lane) {  // a lane has elements of two rows of matrix 0
    const std::uint32_t first = 16 * (lane % 4) + lane / 4;
    wrong += out[128 + lane] != (first | (first + 8) << 16);
  }
  CHECK(wrong == 0);
}

}  // namespace tj::testing
