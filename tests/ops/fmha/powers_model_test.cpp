// Protects powers of two by arithmetic: their error over the whole range, against f64, on the text that devices
// compile; exact zeros; NaN and infinity as documented.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "model/model_unit.hpp"

namespace {

struct Params {
  const float* x;
  float* power;
  int count;
};

constexpr const char* kText =
    "#include \"ops/fmha/powers.cuh\"\n"
    "struct Params { const float* x; float* power; int count; };\n"
    "TJ_KERNEL(kernel, 32, Params, p) {\n"
    "  const tj::ops::fmha::PolynomialArgument argument(1.0f, 0.0f);\n"
    "  for (int i = static_cast<int>(thread_index()); i < p.count; i += 32) p.power[i] = "
    "tj::ops::fmha::exp2_polynomial(argument(p.x[i]));\n"
    "}\n";

std::vector<float> powers(const std::vector<float>& x) {
  static tj::testing::ModelUnit unit(kText, "sm_100a");
  std::vector<float> result(x.size(), -1.0f);
  unit.run("kernel", Params{x.data(), result.data(), static_cast<int>(x.size())}, 32);
  return result;
}

}  // namespace

TEST_CASE("the relative error is below 1.1e-4 from 2^-126 to 2^64") {
  std::vector<float> x;
  for (double each = -125.5; each < 64; each += 0.00731) x.push_back(static_cast<float>(each));
  const std::vector<float> found = powers(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::fabs(found[i] / std::exp2(static_cast<double>(x[i])) - 1));
  CHECK(worst < 1.1e-4);
  CHECK(worst > 5e-5);  // a polynomial of a higher degree would cost what nobody sees
}

TEST_CASE(
    "0 gives 1, a whole number its power; -127 and what is below it, -infinity and NaN give 0, and nothing is "
    "negative") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> found =
      powers({0.0f, 1.0f, -1.0f, 8.0f, -127.0f, -128.0f, -1e30f, -infinity, std::nanf("")});
  const float expected[] = {1.0f, 2.0f, 0.5f, 256.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == expected[i]);
  }
  std::vector<float> small;
  for (double each = -130; each < -125; each += 0.001) small.push_back(static_cast<float>(each));
  for (const float power : powers(small)) {
    CHECK(power >= 0.0f);
    CHECK(power < 0x1p-124f);
  }
}
