// Protects products of solved matrices with keys and values on the CPU model, against f64: each family, types and
// widths, every ratio of heads, lengths around a chunk's end, bad bounds, and what is refused by name.
#include <doctest/doctest.h>

#include <string>

#include "ops/chunk_stages/problem.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::StageProblem;
using test::StageShape;

namespace {

TEST_CASE("w and u agree with f64") {
  int index = 0;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t width : {64, 128}) {
      if (testing::thinned_out(index++)) continue;
      CAPTURE(width);
      CHECK(StageProblem(
                {.batch = 2, .tokens = 70, .k_heads = 2, .v_heads = 4, .heads = 4, .width = width, .dtype = dtype}, 1)
                .run_wu() == "");
      CHECK(StageProblem({.lengths = {65, 0, 1, 64},
                          .lead = 3,
                          .tail = 5,
                          .k_heads = 3,
                          .heads = 3,
                          .width = width,
                          .dtype = dtype,
                          .half_numbers = true,
                          .padding = 8},
                         2)
                .run_wu() == "");
    }
  for (const std::int64_t tokens : {1, 63, 64}) CHECK(StageProblem({.tokens = tokens, .heads = 2}, 3).run_wu() == "");
  CHECK(StageProblem({.tokens = 70, .gated = false, .strengths = false}, 4).run_wu() == "");
  CHECK(StageProblem({.tokens = 70, .gate_size = 20}, 5).run_wu() == "");
  // Weights of late tokens are below all numbers of f16; w and u are not.
  for (const double size : {1.0, 2.0})
    CHECK(StageProblem({.tokens = 70, .dtype = DType::f16, .gate_size = size}, 5).run_wu() == "");
}

TEST_CASE("rings come round, whatever multiprocessors a call may fill" * doctest::skip(testing::left_out())) {
  for (const int max_sms : {0, 1, 3})
    for (const std::int64_t width : {64, 128}) {
      CAPTURE(max_sms);
      StageProblem problem(
          {.lengths = {130, 0, 128, 7}, .k_heads = 1, .v_heads = 2, .heads = 6, .width = width, .dtype = DType::f16},
          9);
      problem.wu.max_sms = max_sms;
      CHECK(problem.run_wu() == "");
    }
}

TEST_CASE("every family has them" * doctest::skip(testing::left_out())) {
  for (const char* target : {"model:sm_80", "model:sm_90", "model:sm_100a", "model:gfx90a", "model:gfx1100"}) {
    CAPTURE(target);
    CHECK(StageProblem({.lengths = {65, 0, 3}, .heads = 2, .half_numbers = true}, 6).run_wu(target) == "");
  }
}

TEST_CASE("bad bounds stay inside") {
  StageProblem problem({.lengths = {40, 30, 20}, .heads = 2}, 7);
  problem.ends = {-5, 1 << 30, -7, 90};
  problem.wu.cu_seqlens = test::list_tensor(problem.ends);
  CHECK_NOTHROW(testing::model_runtime().run(problem.wu));
}

TEST_CASE("what cannot be served is refused by name") {
  StageProblem problem({.batch = 2, .tokens = 70, .k_heads = 2, .v_heads = 4, .heads = 4}, 8);
  const auto refused = [&](const std::string& text, auto change) {
    ChunkWuArgs args = problem.wu;
    change(args);
    const std::string said = testing::said_by([&] { testing::model_runtime().run(args); });
    CAPTURE(said);
    CHECK(testing::has(said, text));
  };
  refused("v.shape[3] (V) is 64", [](auto& a) { a.v.shape[3] = 64; });
  refused("w.shape[2] (H) is 2", [](auto& a) { a.w.shape[2] = 2; });
  refused("u.shape[1] (T) is 64", [](auto& a) { a.u.shape[1] = 64; });
  refused("a.shape[2] (H) is 3; allowed: multiples of k.shape[2] (Hk), 2",
          [](auto& a) { a.a.shape[2] = a.w.shape[2] = a.u.shape[2] = 3; });
  refused("u.dtype is f16", [](auto& a) { a.u.dtype = DType::f16; });
  refused("overlap", [](auto& a) { a.u.data = a.w.data; });
}

}  // namespace
