// Protects the gated delta rule's chunk output: odd lengths, many sequences, one chunk, fewer items than blocks and many more, all
// ratios of heads, gates from none to strongly negative, NaN wherever no token is, both orders of h, on the CPU model, against f64,
// with a poisoned output inside guard bands.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "ops/chunk_o_checks.hpp"
#include "ops/chunk_o_params.cuh"

using namespace tj;

namespace {
constexpr const char* kTarget = "model:sm_90a";
}  // namespace

TEST_CASE("lengths at the edges of chunks; what lies around sequences is neither read nor written") { test::check_chunk_edges(kTarget); }

TEST_CASE("no chunk at all, no sequence at all: nothing is written") { test::check_no_chunks(kTarget); }

TEST_CASE("ratios of heads, in items of one, two and three") { test::check_chunk_heads(kTarget); }

TEST_CASE("gates from 0 to where factors above the diagonal are infinite") { test::check_chunk_gates(kTarget); }

TEST_CASE("without gates, equal lengths, h as K x V, a scale, rows that are further apart, room for more chunks") { test::check_chunk_forms(kTarget); }

TEST_CASE("many more items than blocks, whole and partial chunks mixed") { test::check_many_chunks(kTarget); }

TEST_CASE("chunks that there is no room for are left out") { test::check_chunk_room(kTarget); }

TEST_CASE("lists that are wrong: nothing outside them is read, nothing outside o written") { test::check_wrong_lists(kTarget); }

TEST_CASE("random problems") { test::check_random_chunks(kTarget); }

TEST_CASE("divisions by products are exact") {
  for (const int divisor : {1, 2, 3, 5, 6, 7, 16, 31, 48, 63, 64, 65, 127, 1000, 65535, 65537, 1 << 20, (1 << 30) - 1, 1 << 30}) {
    const auto by = ops::chunk_o::divisor_of(divisor);
    for (std::int64_t multiple = 0; multiple < (std::int64_t{1} << 31); multiple += std::max<std::int64_t>(divisor, (std::int64_t{1} << 31) / 50 / divisor * divisor))
      for (const std::int64_t n : {multiple - 1, multiple, multiple + 1})
        if (n >= 0 && n < (std::int64_t{1} << 31)) CHECK(ops::chunk_o::divided(static_cast<int>(n), by) == static_cast<int>(n) / divisor);
    CHECK(ops::chunk_o::divided(2147483647, by) == 2147483647 / divisor);
  }
}
