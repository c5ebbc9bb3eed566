// Protects attention over keys in pages, on the CPU model against f64, with NaN in what no key needs; and lists that
// are wrong: no access outside of tensors, an end, and the first bad entry by its name.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include <tilejit/error.hpp>
#include <tilejit/runtime.hpp>

#include "ops/fmha/sequences_problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::kSequencesTargets;
using test::run_sequences;
using test::sequences_shape;
using test::SequencesProblem;
using test::SequencesShape;

TEST_CASE("pages of any size, in any order, with either order of rows and heads; NaN in what no key needs") {
  std::uint64_t seed = 4700;
  int index = 0;
  for (const char* target : kSequencesTargets)
    for (const int page_size : {1, 8, 16, 24, 64, 256}) {
      ++index;
      if (testing::sampled_out(index + index / 6)) continue;
      CAPTURE(target);
      SequencesShape shape = sequences_shape({100, 0, 33, 20}, {150, 40, 33, 0});
      shape.page_size = page_size, shape.heads_first = index % 2 == 0, shape.heads_kv = 2;
      shape.causal = index % 3 != 0, shape.nan = index % 4 - 1;
      shape.head_dim = index % 5 == 0 ? 128 : 64;
      CAPTURE(shape.text());
      CHECK(run_sequences(target, shape, ++seed) == "");
    }
}

TEST_CASE("pages with windows and scores, and values of another width") {
  SequencesShape shape = sequences_shape({140, 3}, {61, 150});
  shape.page_size = 16, shape.window = {20, 9}, shape.sinks = true, shape.softcap = 5, shape.alibi = true;
  shape.head_dim = 96, shape.value_dim = 72;
  int index = 0;
  for (const char* target : kSequencesTargets)
    if (!testing::sampled_out(index++)) CHECK(run_sequences(target, shape, 4800) == "");
  SequencesProblem problem(shape, 4801);  // lengths from the other list
  problem.args.cu_seqlens_k = Tensor::contiguous(problem.begins_k.data(), {DeviceKind::cpu, 0}, DType::i32, {3});
  problem.args.seqused_k.reset();
  testing::model_runtime().run(problem.args);
  CHECK(problem.problem() == "");
}

TEST_CASE("lists that are wrong end nowhere outside of tensors, and the check names their first bad entry") {
  Options options;
  options.target = "model:sm_90a";
  options.check_lists = true;
  Runtime checking(options);
  const auto refusal = [&](const SequencesProblem& problem) -> std::string {
    try {
      checking.run(problem.args);
    } catch (const Error& error) {
      return error.message;
    }
    return "";
  };
  constexpr std::int32_t kMost = 0x7fffffff;
  SequencesShape shape = sequences_shape({90, 40, 30}, {90, 150, 33});
  shape.causal = true, shape.unused = 2;
  SequencesProblem problem(shape, 4600);
  CHECK(refusal(problem) == "");
  CHECK(problem.problem() == "");
  const struct {
    std::vector<std::int32_t> q, k, used;
    const char* said;
  } cases[] = {
      {{0, 90, 80, 160}, {}, {}, "cu_seqlens_q[2] is 80; allowed: 90, the one before it, to 160, q.shape[0]"},
      {{-5, 90, 130, 160}, {}, {}, "cu_seqlens_q[0] is -5; allowed: 0 to 160, q.shape[0]"},
      {{0, kMost, -kMost - 1, 161}, {}, {}, "cu_seqlens_q[1] is 2147483647"},
      {{kMost, 0, kMost, 0}, {}, {}, "cu_seqlens_q[0] is 2147483647"},
      {{0, 0, 0, 161}, {}, {}, "cu_seqlens_q[3] is 161; allowed: 0, the one before it, to 160, q.shape[0]"},
      {{}, {0, 92, -1, 279}, {}, "cu_seqlens_k[2] is -1"},
      {{}, {279, 0, 279, kMost}, {}, "cu_seqlens_k[1] is 0"},
      {{}, {}, {90, 153, 33}, "seqused_k[1] is 153; allowed: 0 to 152"},
      {{}, {}, {kMost, -1, 33}, "seqused_k[0] is 2147483647"},
  };
  int index = 0;
  for (const auto& each : cases) {
    CAPTURE(each.said);
    problem.set_lengths(shape.queries, shape.keys);
    if (!each.q.empty()) std::copy(each.q.begin(), each.q.end(), problem.begins_q.begin());
    if (!each.k.empty()) std::copy(each.k.begin(), each.k.end(), problem.begins_k.begin());
    if (!each.used.empty()) std::copy(each.used.begin(), each.used.end(), problem.used.begin());
    CHECK(refusal(problem).find(each.said) != std::string::npos);
    for (const char* target : kSequencesTargets)
      if (!testing::sampled_out(index++)) testing::model_runtime(target).run(problem.args);  // the model looks
  }
  shape.page_size = 16, shape.unused = 0;
  SequencesProblem paged(shape, 4601);
  CHECK(refusal(paged) == "");
  CHECK(paged.problem() == "");
  for (const std::int32_t page : {-1, 40, kMost, -kMost - 1}) {
    paged.set_lengths(shape.queries, shape.keys);
    paged.table[11] = page;
    CHECK(refusal(paged).find("block_table[1][1] is " + std::to_string(page) + "; allowed: 0 to ") !=
          std::string::npos);
    for (const char* target : kSequencesTargets)
      if (!testing::sampled_out(index++)) testing::model_runtime(target).run(paged.args);
  }
  paged.set_lengths(shape.queries, shape.keys);
  paged.used[2] = kMost;
  CHECK(refusal(paged).find("seqused_k[2] is 2147483647; allowed: 0 to 160, the keys of its pages") !=
        std::string::npos);
  for (const char* target : kSequencesTargets) testing::model_runtime(target).run(paged.args);
}
