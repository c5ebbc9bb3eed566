// Protects the model's matrix instructions of a warpgroup. A device gives the same bits for whole numbers, through
// every width, type, place, order and descriptor. It comes as near to exact sums of random numbers as arithmetic of its
// precision can. Prints how near.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <vector>

#include "gpu/sm90a_units.hpp"

using namespace tj;

namespace {

/// A NaN is as far away as can be.
double farther(double so_far, double difference) {
  return difference <= so_far ? so_far : std::isnan(difference) ? INFINITY : difference;
}

}  // namespace

TEST_CASE("products of whole numbers, through descriptors of every swizzle, order and distance") {
  testing::check_group_products(test::on_sm90a, 1);
}

TEST_CASE("sums that go on, groups in flight") { testing::check_group_chains(test::on_sm90a); }

TEST_CASE("a sum of e4m3 keeps 13 bits of fraction, and of what is added as much as its largest term lets") {
  testing::check_e4m3_cuts(test::on_sm90a);
}

TEST_CASE("random sums: how far a device and the model are from exact ones, and from each other") {
  testing::PrimitiveUnit device = test::on_sm90a(testing::group_matrix_text()),
                         model = test::on_the_model(testing::group_matrix_text());
  for (const int type : {0, 1, 2}) {
    std::size_t equal = 0, all = 0;
    double of_device = 0, of_model = 0, between = 0;
    for (unsigned seed = 1; seed <= 8; ++seed) {
      std::vector<double> exact, size;
      const std::vector<float> theirs = testing::random_group_product(device, type, 256, seed, exact, size);
      const std::vector<float> ours = testing::random_group_product(model, type, 256, seed, exact, size);
      for (std::size_t i = 0; i < exact.size(); ++i, ++all) {
        const double there = static_cast<double>(theirs[i]), here = static_cast<double>(ours[i]);
        equal += std::bit_cast<std::uint32_t>(theirs[i]) == std::bit_cast<std::uint32_t>(ours[i]);
        of_device = farther(of_device, std::fabs(there - exact[i]) / size[i]);
        of_model = farther(of_model, std::fabs(here - exact[i]) / size[i]);
        between = farther(between, std::fabs(there - here) / size[i]);
      }
    }
    static constexpr const char* kNames[] = {"f16", "bf16", "e4m3"};
    std::printf(
        "%s: %zu of %zu sums have the model's bits; largest |difference| / sum of |terms|: device to exact %.3g, model "
        "to exact %.3g, device to model %.3g\n",
        kNames[type], equal, all, of_device, of_model, between);
    CAPTURE(type);
    CHECK(of_device < testing::largest_loss(type));
    CHECK(between < 2 * testing::largest_loss(type));
  }
}
