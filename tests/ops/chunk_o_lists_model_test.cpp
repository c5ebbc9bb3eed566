// Protects what chunk output does where the lists say more, or less, than the tensors have: chunks that are not there are left out, the
// others are right, and nothing else of o is written.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

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

std::string run(ChunkOProblem& problem, int chunks) {
  testing::model_runtime().chunk_o(problem.args);
  return problem.problem(chunks);
}

}  // namespace

TEST_CASE("total_chunks below 0, 0, and anything up to all: so many chunks") {
  for (const std::int32_t total : {std::numeric_limits<std::int32_t>::min(), -1, 0, 1, 3, kChunks}) {
    CAPTURE(total);
    ChunkOProblem problem(shape(), 9901);
    REQUIRE(problem.chunks() == kChunks);
    *static_cast<std::int32_t*>(problem.args.total_chunks->data) = total;
    CHECK(run(problem, total < 0 ? 0 : total) == "");
  }
}

TEST_CASE("states, values or rows of the list for fewer chunks than are counted") {
  for (const int room : {1, 2, 4}) {
    CAPTURE(room);
    ChunkOProblem states(shape(), 9911), values(shape(), 9912), rows(shape(), 9913);
    states.args.h.shape[0] = room;
    values.args.v_new.shape[0] = 64 * room + 63;  // what begins no whole chunk is none
    rows.args.chunk_indices->shape[0] = room;
    for (ChunkOProblem* problem : {&states, &values, &rows}) CHECK(run(*problem, room) == "");
  }
}
