// Protects attention whose o is f32, on the model of every family: the numbers that are rounded elsewhere, at edges of
// tiles, in widths that no lane's part divides, at addresses that no wide store may have, and nothing beside them.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "common/fmha_reference.hpp"
#include "ops/fmha/problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

constexpr std::size_t kGuard = 32;
constexpr std::uint32_t kPoison = 0x7fc0beef;  // a NaN that no kernel writes

/// "": right; else what is wrong. `shift`: elements from a multiple of 16 bytes.
std::string run_wide(const char* target, const test::FmhaShape& shape, std::size_t shift, std::uint64_t seed) {
  test::FmhaProblem problem(shape, seed);
  const Tensor usual = problem.args.o;
  const auto elements = static_cast<std::size_t>(usual.shape[0] * usual.shape[1] * usual.shape[2] * usual.shape[3]);
  std::vector<float> wide(elements + 2 * kGuard + 4, std::bit_cast<float>(kPoison));
  const auto base = reinterpret_cast<std::uintptr_t>(wide.data() + kGuard);
  float* const data = reinterpret_cast<float*>((base + 15) / 16 * 16) + shift;
  problem.args.o.data = data;
  problem.args.o.dtype = DType::f32;
  problem.run(testing::model_runtime(target), {DeviceKind::cpu, 0});
  for (const float& each : wide) {
    const bool inside = &each >= data && &each < data + elements;
    if (!inside && std::bit_cast<std::uint32_t>(each) != kPoison) return "an element beside o was written";
    if (inside && std::isnan(each)) return "an element of o was not written, or is NaN";
  }
  const auto comparison = samples::compare_fmha(problem.args);
  return comparison.within(shape.dtype) ? std::string() : comparison.text(shape.dtype);
}

}  // namespace

TEST_CASE("o in f32 on every family: head dims, masks, layouts, sinks, and o off its alignment") {
  std::uint64_t seed = 9119;
  for (const char* target :
       {"model:sm_90a", "model:sm_80", "model:sm_100a", "model:gfx1100", "model:gfx1201", "model:gfx90a"}) {
    test::FmhaShape usual{2, 4, 2, 70, 130, 64, DType::f16, true};
    test::FmhaShape wide{1, 2, 1, 33, 65, 128, DType::bf16, false, true};
    test::FmhaShape narrow{1, 2, 2, 65, 40, 40, DType::f16, false};
    narrow.value_dim = 72, narrow.sinks = true;
    for (const test::FmhaShape& shape : {usual, wide, narrow})
      for (const std::size_t shift : {0, 1}) {
        ++seed;
        if (testing::sampled_out(static_cast<int>(seed / 2 + shift))) continue;
        CAPTURE(target);
        CAPTURE(shift);
        CAPTURE(shape.text());
        CHECK(run_wide(target, shape, shift, seed) == "");
      }
  }
}
