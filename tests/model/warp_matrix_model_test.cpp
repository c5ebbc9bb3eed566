// Protects the model's matrices of a warp: which row each lane's address names, which element each register holds, and
// products of the matrices. Swizzled tiles are read alike whoever brought them. Misuse is reported.
#include <doctest/doctest.h>

#include "model/primitive_unit.hpp"

namespace {

using tj::Code;
using tj::testing::contains;
using tj::testing::MakeUnit;
using tj::testing::outcome_of;

MakeUnit on(const char* arch) {
  return [arch](std::string_view text) { return tj::testing::PrimitiveUnit::on_model(text, arch); };
}

TEST_CASE("fragments and products are those of the matrices, whichever way either operand lies in memory") {
  for (const char* arch : {"sm_80", "sm_120a"}) {
    CAPTURE(arch);
    tj::testing::check_products(on(arch));
  }
}

TEST_CASE("products of e4m3 are those of what its bytes mean, subnormal numbers and NaN too") {
  for (const char* arch : {"sm_89", "sm_120a"}) {
    CAPTURE(arch);
    tj::testing::check_narrow_products(on(arch));
  }
}

TEST_CASE("each lane gets its two elements of each matrix, straight and transposed, and stores are the way back") {
  for (const char* arch : {"sm_80", "sm_90", "sm_121a"}) {
    CAPTURE(arch);
    tj::testing::check_matrix_loads(on(arch));
  }
}

TEST_CASE("tiles are swizzled as bulk copies swizzle boxes") { tj::testing::check_tile_places(on("sm_80")); }

constexpr const char* kMisuse = R"(
struct Params { int which; };
TJ_KERNEL(kernel, 32, Params, p) {
  const u32 base = shared_base();
  u32 four[4] = {}, two[2];
  float d[4] = {};
  store_shared(base + 16 * lane_index(), four);
  warp_sync();
  switch (p.which) {
    case 0: load_matrices(base + 16 * lane_index() + (lane_index() == 19 ? 8 : 0), four); break;
    case 1: load_matrices(base + (lane_index() == 5 ? 65536 : 0), four); break;
    case 2:
      if (lane_index() == 7) load_matrices_transposed(base, two);
      else load_matrices(base, two);
      break;
    case 3:
      if (lane_index() == 9) mma_m16n8k16(Bf16{}, d, four, 0, 0);
      else mma_m16n8k16(F16{}, d, four, 0, 0);
      break;
    case 4:
      if (lane_index() == 31) load_matrices(base, four);
      else mma_m16n8k16(F16{}, d, four, 0, 0);
      break;
    case 5:
      if (lane_index() != 3) load_matrices(base, four);
      break;
    case 6:
      if (lane_index() == 13) mma_m16n8k32(E4m3{}, d, four, 0, 0);
      else mma_m16n8k16(F16{}, d, four, 0, 0);
      break;
  }
}
)";

TEST_CASE("misuse is reported with the lane that is wrong") {
  tj::testing::ModelUnit unit(kMisuse, "sm_80");
  const auto message = [&](int which) { return outcome_of([&] { unit.run("kernel", which, 32); }).message; };
  CHECK(contains(message(0), "warp 0, lane 19: load_matrices of 16 bytes"));
  CHECK(contains(message(0), "no multiple of 16"));
  CHECK(contains(message(1), "lane 5: load_matrices of 16 bytes"));
  CHECK(contains(message(1), "out of bounds"));
  CHECK(contains(message(2), "lane 7: asks for 2 transposed matrices, lane 0 for 2"));
  CHECK(contains(message(3), "lane 9: multiplies elements of another type"));
  CHECK(contains(message(6), "lane 13: multiplies elements of another type"));
  CHECK(contains(message(4), "all 32 lanes must execute the same"));
  CHECK(outcome_of([&] { unit.run("kernel", 5, 32); }).code == Code::deadlock);
}

}  // namespace
