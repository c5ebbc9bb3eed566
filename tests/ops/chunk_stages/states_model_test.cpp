// Protects states before each chunk on the CPU model, against f64: types, widths, both orders of matrices, v_new by
// chunks and by tokens, lists with zero lengths and bad bounds, few rows of h, and what is refused by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "ops/chunk_stages/problem.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::StageProblem;
using test::StageShape;

namespace {

TEST_CASE("states agree with f64") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t width : {64, 128})
      for (const bool transposed : {false, true}) {
        CAPTURE(width);
        CAPTURE(transposed);
        CHECK(StageProblem({.batch = 2,
                            .tokens = 130,
                            .k_heads = 1,
                            .heads = 2,
                            .width = width,
                            .dtype = dtype,
                            .transposed = transposed,
                            .by_tokens = transposed},
                           1)
                  .run_states() == "");
        CHECK(StageProblem({.lengths = {65, 0, 1, 64},
                            .lead = 3,
                            .tail = 5,
                            .heads = 1,
                            .width = width,
                            .dtype = dtype,
                            .state = DType::bf16,
                            .transposed = transposed,
                            .by_tokens = !transposed,
                            .padding = 8},
                           2)
                  .run_states() == "");
      }
}

TEST_CASE("gates and initial states may be absent, and gates strong") {
  CHECK(StageProblem({.tokens = 70, .width = 64, .gated = false}, 3).run_states() == "");
  CHECK(StageProblem({.tokens = 129, .width = 64, .initial = false}, 4).run_states() == "");
  CHECK(StageProblem({.tokens = 70, .width = 64, .gate_size = 20}, 5).run_states() == "");
  CHECK(StageProblem({.lengths = {70, 0, 3}, .width = 64, .state = DType::f16}, 6).run_states() == "");
}

TEST_CASE("bad bounds, and few rows, stay inside") {
  StageProblem problem({.lengths = {40, 100, 20}, .heads = 2, .width = 64}, 7);
  problem.states.h.shape[0] = 1;
  problem.states.v_new->shape[0] = 70;
  const auto* const h = static_cast<const unsigned char*>(problem.states.h.data);
  const std::int64_t bytes = 2 * problem.states.h.strides[0];
  CHECK_NOTHROW(testing::model_runtime().run(problem.states));
  CHECK(std::all_of(h + bytes, h + 2 * bytes, [](unsigned char byte) { return byte == test::kPoison; }));
  problem.ends = {-5, 1 << 30, -7, 160};
  problem.states.cu_seqlens = test::list_tensor(problem.ends);
  CHECK_NOTHROW(testing::model_runtime().run(problem.states));
}

TEST_CASE("what cannot be served is refused by name") {
  StageProblem problem({.batch = 2, .tokens = 70, .k_heads = 1, .heads = 2, .width = 64}, 8);
  const auto refused = [&](const std::string& text, auto change, const char* target = "model:sm_90a") {
    ChunkStatesArgs args = problem.states;
    change(args);
    const std::string said = testing::said_by([&] { testing::model_runtime(target).run(args); });
    CAPTURE(said);
    CHECK(testing::has(said, text));
  };
  refused("h.shape[0] (C) is 3", [](auto& a) { a.h.shape[0] = 3; });
  refused("h.dtype is f32", [](auto& a) { a.h.dtype = DType::f32; });
  refused("u.shape[2] (H) is 1", [](auto& a) { a.u.shape[2] = 1; });
  refused("final_state.dtype is bf16", [](auto& a) { a.final_state->dtype = DType::bf16; });
  refused("initial_state.shape[0] (N) is 1", [](auto& a) { a.initial_state->shape[0] = 1; });
  refused("v_new.rank is 3", [](auto& a) { a.values_by_tokens = true; });
  refused("overlap", [](auto& a) { a.final_state->data = a.initial_state->data; });
  refused("chunk_states", [](auto&) {}, "model:sm_80");
}

}  // namespace
