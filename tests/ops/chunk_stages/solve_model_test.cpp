// Protects the solved matrix of each chunk on the CPU model, against f64: types and widths, every ratio of heads,
// lengths around a chunk's end, lists with zero lengths and bad bounds, and what is refused by name.
#include <doctest/doctest.h>

#include <string>

#include "ops/chunk_stages/problem.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::StageProblem;
using test::StageShape;

namespace {

TEST_CASE("matrices agree with f64") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t width : {64, 128}) {
      CAPTURE(width);
      CHECK(StageProblem({.batch = 2, .tokens = 70, .k_heads = 2, .heads = 4, .width = width, .dtype = dtype}, 1)
                .run_solve() == "");
      CHECK(StageProblem({.lengths = {65, 0, 1, 64},
                          .lead = 3,
                          .tail = 5,
                          .heads = 3,
                          .width = width,
                          .dtype = dtype,
                          .half_numbers = true,
                          .padding = 8},
                         2)
                .run_solve() == "");
    }
  for (const std::int64_t tokens : {1, 63, 64})
    CHECK(StageProblem({.tokens = tokens, .heads = 2}, 3).run_solve() == "");
}

TEST_CASE("gates and beta may be absent, and gates strong") {
  CHECK(StageProblem({.tokens = 80, .gated = false}, 4).run_solve() == "");
  CHECK(StageProblem({.tokens = 80, .strengths = false}, 5).run_solve() == "");
  CHECK(StageProblem({.tokens = 80, .gate_size = 20}, 6).run_solve() == "");
}

TEST_CASE("bad bounds stay inside") {
  StageProblem problem({.lengths = {40, 30, 20}, .heads = 2}, 7);
  problem.ends = {-5, 1 << 30, -7, 90};
  problem.solve.cu_seqlens = test::list_tensor(problem.ends);
  CHECK_NOTHROW(testing::model_runtime().run(problem.solve));
}

TEST_CASE("what cannot be served is refused by name") {
  StageProblem problem({.batch = 2, .tokens = 70, .k_heads = 2, .heads = 4}, 8);
  const auto refused = [&](const std::string& text, auto change, const char* target = "model:sm_90a") {
    ChunkSolveArgs args = problem.solve;
    change(args);
    const std::string said = testing::said_by([&] { testing::model_runtime(target).run(args); });
    CAPTURE(said);
    CHECK(testing::has(said, text));
  };
  refused("k.dtype is f32; allowed: f16, bf16", [](auto& a) { a.k.dtype = DType::f32; });
  refused("k.shape[3] (K) is 96; allowed: 64, 128", [](auto& a) { a.k.shape[3] = 96; });
  refused("a.dtype is f16", [](auto& a) { a.a.dtype = DType::f16; });
  refused("a.shape[3] (64) is 32", [](auto& a) { a.a.shape[3] = 32; });
  refused("a.shape[2] (H) is 3; allowed: multiples of k.shape[2] (Hk), 2", [](auto& a) { a.a.shape[2] = 3; });
  refused("beta.shape[2] (H) is 3", [](auto& a) { a.beta->shape[2] = 3; });
  refused("beta.dtype is f16; allowed: f32, or k.dtype", [](auto& a) { a.beta->dtype = DType::f16; });
  refused("g_cu.dtype is bf16; allowed: f32", [](auto& a) { a.g_cu->dtype = DType::bf16; });
  refused("overlap", [](auto& a) { a.a.data = a.k.data; });
  refused("chunk_solve", [](auto&) {}, "model:sm_80");
}

}  // namespace
