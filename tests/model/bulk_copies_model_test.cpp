// Protects the model's bulk copies and stores, by the checks that a device passes too (gpu.sm90a_primitives_gpu).
#include <doctest/doctest.h>

#include "model/primitive_unit.hpp"

namespace {

tj::testing::PrimitiveUnit on_model(std::string_view text) {
  return tj::testing::PrimitiveUnit::on_model(text, "sm_90a");
}

}  // namespace

TEST_CASE("boxes land where their swizzle says, zeros outside the tensor on every side") {
  tj::testing::check_boxes(on_model);
  tj::testing::check_narrow_boxes(on_model);
}

TEST_CASE("blocks of a cluster fill each other's slots, round after round") {
  tj::testing::check_shared_boxes(on_model, 4);
}

TEST_CASE("a box reaches its rows and columns, and nothing outside the tensor is written but the rest of 16 bytes") {
  tj::testing::check_stores(on_model);
}

TEST_CASE("transposed matrices in shared memory: each column where its lane says") {
  tj::testing::check_turned_stores(on_model);
}

TEST_CASE("bytes that no copy brings are counted; with fewer announced, the fault says so") {
  tj::testing::check_left_out(on_model);
  CHECK_THROWS_WITH_AS(tj::testing::check_left_out(on_model, 1024), doctest::Contains("fewer bytes were announced"),
                       tj::Error);
}
