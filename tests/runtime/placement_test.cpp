// Protects where a plan puts the tensors of a call that has no addresses yet: apart from each other, aligned as the
// caller's are, and no farther than what can be placed.
#include "placement.hpp"

#include <doctest/doctest.h>

#include <cstdint>

#include <tilejit/chunk_indices.hpp>

#include "ops/limits.hpp"

namespace {

using namespace tj;
using testing::dense;
using testing::error_of;

/// Two tensors whose last element ends so many bytes behind the first one's beginning, and one of 4 bytes.
ChunkIndicesArgs reaching(std::int64_t first_bytes, std::int64_t second_bytes) {
  ChunkIndicesArgs args;
  args.cu_seqlens = dense(0, DType::i32, {2, 1});
  args.chunk_indices = dense(1, DType::i32, {2, 1});
  args.total_chunks = dense(2, DType::i32, {1});
  args.cu_seqlens.strides[0] = first_bytes / 4 - 1;
  args.chunk_indices.strides[0] = second_bytes / 4 - 1;
  return args;
}

Placement placed(const ChunkIndicesArgs& args) { return {*ops::find("chunk_indices"), &args}; }

}  // namespace

TEST_CASE("tensors lie apart, each aligned to 16 bytes as the caller's is, and the workspace behind them") {
  ChunkIndicesArgs args = reaching(10000, 4096);
  testing::move(args.chunk_indices, 6);
  const Placement placement = placed(args);
  REQUIRE(placement.tensors() == 3);
  CHECK(placement.bytes(0) == 10000);
  CHECK(placement.bytes(1) == 4096);
  CHECK(placement.bytes(2) == 4);
  const Places& places = placement.places();
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(places[i] % 4096 == (i == 1 ? 6 : 0));
    if (i > 0) CHECK(places[i - 1] + placement.bytes(i - 1) + 4096 <= places[i]);
  }
  CHECK(!placement.any_null());
  args.chunk_indices.data = nullptr;
  CHECK(placed(args).any_null());
  CHECK(placed(args).places()[1] % 4096 == 0);
}

TEST_CASE("a tensor that reaches backwards has no bytes, and one of less dimensions than none an element's") {
  ChunkIndicesArgs args = reaching(10000, 4096);
  args.cu_seqlens.strides[0] = -5000;
  CHECK(placed(args).bytes(0) == 0);
  args.cu_seqlens.rank = -3;
  CHECK(placed(args).bytes(0) == 4);
}

TEST_CASE("tensors of a plan reach over 2^46 bytes together, and no farther") {
  const std::int64_t half = std::int64_t{1} << 45, most = 2 * half - 4;
  CHECK_NOTHROW(placed(reaching(half, half - 4)).check_span());
  CHECK_NOTHROW(placed(reaching(most - 4, 4)).check_span());
  for (const ChunkIndicesArgs& args : {reaching(half, half), reaching(half - 4, half + 4), reaching(most, 4)}) {
    const Error error = error_of([&] { placed(args).check_span(); });
    CHECK(error.code == Code::unsupported);
    CHECK_MESSAGE(error.message.starts_with("tensors of chunk_indices reach over 7.0"), error.message);
    CHECK(error.message.ends_with(" bytes together; allowed in a plan: 2^46"));
  }
}
