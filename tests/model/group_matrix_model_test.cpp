// Protects the model's matrix instructions of a warpgroup, by the checks that a device passes too
// (gpu.group_matrix_gpu). Bits of whole numbers are right through every layout and width, chains and groups. Sums of
// e4m3 lose what they must, and random sums come near.
#include <doctest/doctest.h>

#include <cmath>

#include "model/primitive_unit.hpp"

namespace {

using tj::testing::PrimitiveUnit;

PrimitiveUnit on_model(std::string_view text) { return PrimitiveUnit::on_model(text, "sm_90a"); }

}  // namespace

TEST_CASE("products of whole numbers, through descriptors of every swizzle, order and distance") {
  tj::testing::check_group_products(on_model, 7);
}

TEST_CASE("sums that go on, groups in flight") { tj::testing::check_group_chains(on_model); }

TEST_CASE("a sum of e4m3 keeps 13 bits of fraction, and of what is added as much as its largest term lets") {
  tj::testing::check_e4m3_cuts(on_model);
}

TEST_CASE("random sums are within what a chain of roundings, or cuts, can lose") {
  PrimitiveUnit unit = on_model(tj::testing::group_matrix_text());
  for (const int type : {0, 1, 2}) {
    std::vector<double> exact, size;
    const std::vector<float> sums =
        tj::testing::random_group_product(unit, type, 128, 5u + static_cast<unsigned>(type), exact, size);
    int wrong = 0;
    for (std::size_t i = 0; i < sums.size(); ++i)
      wrong += !(std::fabs(static_cast<double>(sums[i]) - exact[i]) < tj::testing::largest_loss(type) * size[i]);
    CAPTURE(type);
    CHECK(wrong == 0);
  }
}
