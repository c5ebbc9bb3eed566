// Protects what chunk output does where the lists say more, or less, than the tensors have: chunks that are not there are left out, the
// others are right, and nothing else of o is written.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/chunk_o_problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::ChunkOProblem;
using test::ChunkOShape;

namespace {

constexpr int kChunks = 5;

/// Five chunks, three of them whole.
ChunkOShape shape() {
  ChunkOShape shape;
  shape.lengths = {64, 70, 1, 64};
  shape.v_heads = 2;
  shape.lead = 1;
  shape.tail = 2;
  return shape;
}

const char* const kTargets[] = {"model:sm_90a", "model:sm_100a"};

std::string run(const char* target, ChunkOProblem& problem, int chunks) {
  testing::model_runtime(target).chunk_o(problem.args);
  return problem.problem(chunks);
}

}  // namespace

TEST_CASE("total_chunks below 0, 0, and anything up to all: so many chunks") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    for (const std::int32_t total : {std::numeric_limits<std::int32_t>::min(), -1, 0, 1, 3, kChunks}) {
      CAPTURE(total);
      ChunkOProblem problem(shape(), 9901);
      REQUIRE(problem.chunks() == kChunks);
      *static_cast<std::int32_t*>(problem.args.total_chunks->data) = total;
      CHECK(run(target, problem, total < 0 ? 0 : total) == "");
    }
  }
}

TEST_CASE("lists that are wrong: nothing before or behind o is written") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    constexpr int kInt = std::numeric_limits<std::int32_t>::max();
    struct Wrong {
      std::int32_t begin, number;  // of the first sequence and of its first chunk
    };
    for (const Wrong& wrong : {Wrong{-10, 0}, {40, -1}, {-200, 3}, {-kInt - 1, 0}, {kInt, 1}, {64, kInt}, {0, 1 << 25}, {64, -(1 << 25)}, {-64, 1}}) {
      CAPTURE(wrong.begin);
      CAPTURE(wrong.number);
      ChunkOProblem problem(shape(), 9921);
      auto* ends = static_cast<std::int32_t*>(problem.args.cu_seqlens->data);
      ends[0] = wrong.begin;
      ends[1] = 20;  // what is no whole chunk is stored row by row
      static_cast<std::int32_t*>(problem.args.chunk_indices->data)[1] = wrong.number;
      Tensor& o = problem.args.o;
      constexpr std::size_t kRows = 300;  // around it
      const auto row = static_cast<std::size_t>(o.strides[0]), rows = static_cast<std::size_t>(o.shape[0]);
      std::vector<std::uint16_t> memory((rows + 2 * kRows) * row, 0x7fc1);
      o.data = memory.data() + kRows * row;
      testing::model_runtime(target).chunk_o(problem.args);
      const auto untouched = [&](std::size_t from) {
        return std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(from * row), memory.begin() + static_cast<std::ptrdiff_t>((from + kRows) * row), [](std::uint16_t each) { return each == 0x7fc1; });
      };
      CHECK(untouched(0));
      CHECK(untouched(kRows + rows));
    }
  }
}

TEST_CASE("states, values or rows of the list for fewer chunks than are counted") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    for (const int room : {1, 2, 4}) {
      CAPTURE(room);
      ChunkOProblem states(shape(), 9911), values(shape(), 9912), rows(shape(), 9913);
      states.args.h.shape[0] = room;
      values.args.v_new.shape[0] = 64 * room + 63;  // what begins no whole chunk is none
      rows.args.chunk_indices->shape[0] = room;
      for (ChunkOProblem* problem : {&states, &values, &rows}) CHECK(run(target, *problem, room) == "");
    }
  }
}
