// Protects the listing of chunks without running it: what is refused and in which words, what is accepted, that there
// is one kernel, and how large its grid is.
#include <doctest/doctest.h>

#include <functional>

#include "arch/arch.hpp"
#include "ops/chunk_indices/chunk_indices.hpp"
#include "ops/chunk_indices/params.cuh"
#include "support/expect.hpp"

using namespace tj;

namespace {

using testing::error_of;
using testing::has;

constexpr Device kCpu{DeviceKind::cpu, 0};
alignas(256) std::int32_t ends[64], pairs[256], total[4];

ChunkIndicesArgs good() {
  return {Tensor::contiguous(ends, kCpu, DType::i32, {33}), Tensor::contiguous(pairs, kCpu, DType::i32, {100, 2}),
          Tensor::contiguous(total, kCpu, DType::i32, {1})};
}

void refused(const std::function<void(ChunkIndicesArgs&)>& change, Code code,
             std::initializer_list<const char*> parts) {
  ChunkIndicesArgs args = good();
  change(args);
  const Error error = error_of([&] { ops::chunk_indices_op().validate(&args, true); });
  CHECK_MESSAGE(error.stage == Stage::argument, error.message);
  CHECK_MESSAGE(error.code == code, error.message);
  CHECK_MESSAGE(has(error.message, "chunk_indices: "), error.message);
  for (const char* part : parts) CHECK_MESSAGE(has(error.message, part), part, " is not in: ", error.message);
}

void accepted(const std::function<void(ChunkIndicesArgs&)>& change) {
  ChunkIndicesArgs args = good();
  change(args);
  CHECK_NOTHROW(ops::chunk_indices_op().validate(&args, true));
}

}  // namespace

TEST_CASE("what the listing does not take is named with its value and what is allowed") {
  constexpr Code bad = Code::invalid_argument, unsupported = Code::unsupported;
  refused([](auto& c) { c.cu_seqlens.data = nullptr; }, bad, {"cu_seqlens.data is null"});
  refused([](auto& c) { c.cu_seqlens.rank = 2; }, bad, {"cu_seqlens.rank is 2", "[N + 1]"});
  refused([](auto& c) { c.cu_seqlens.shape[0] = 0; }, bad, {"cu_seqlens.shape[0] (N + 1) is 0"});
  refused([](auto& c) { c.cu_seqlens.dtype = DType::f32; }, bad, {"cu_seqlens.dtype is f32", "i32"});
  refused([](auto& c) { c.chunk_indices.dtype = DType::f16; }, bad, {"chunk_indices.dtype is f16", "i32"});
  refused([](auto& c) { c.total_chunks.dtype = DType::f32; }, bad, {"total_chunks.dtype is f32", "i32"});
  refused([](auto& c) { c.cu_seqlens.device = {DeviceKind::cuda, 0}; }, bad,
          {"cu_seqlens.device is cuda:0", "model target"});
  refused([](auto& c) { c.total_chunks.device = {DeviceKind::cuda, 0}; }, bad,
          {"total_chunks.device is cuda:0", "cu_seqlens.device is cpu"});
  refused([](auto& c) { c.chunk_indices.shape[1] = 3; }, bad, {"chunk_indices.shape[1]", "is 3", "allowed: 2"});
  refused([](auto& c) { c.chunk_indices.shape[0] = -1; }, bad, {"chunk_indices.shape[0] (C) is -1"});
  refused([](auto& c) { c.total_chunks.shape[0] = 2; }, bad, {"total_chunks.shape[0]", "is 2", "allowed: 1"});
  refused([](auto& c) { c.cu_seqlens.strides[0] = 2; }, unsupported, {"cu_seqlens.strides[0]", "is 2", "allowed: 1"});
  refused([](auto& c) { c.chunk_indices.strides[0] = 3; }, unsupported,
          {"chunk_indices.strides[0] (C) is 3", "multiples of 8 bytes"});
  refused([](auto& c) { c.chunk_indices.strides = {1, 100}; }, unsupported, {"chunk_indices.strides"});
  refused([](auto& c) { c.chunk_indices.data = pairs + 1; }, unsupported,
          {"chunk_indices.data is", "multiples of 8 bytes"});
  refused([](auto& c) { c.chunk_indices.data = ends + 32; }, unsupported, {"chunk_indices at", "overlaps cu_seqlens"});
  refused([](auto& c) { c.total_chunks.data = ends; }, unsupported, {"total_chunks at", "overlaps cu_seqlens"});
  refused([](auto& c) { c.total_chunks.data = pairs + 7; }, unsupported, {"total_chunks at", "overlaps chunk_indices"});
}

TEST_CASE("TJ_CHECK names the first bad end") {
  const auto bad = [](const std::vector<std::int32_t>& list) {
    const ChunkIndicesArgs args = good();
    return testing::said_by([&] { ops::chunk_indices_op().check_lists(&args, [&](const Tensor&) { return list; }); });
  };
  CHECK(bad({0, 50, 50, 1 << 30}) == "");
  CHECK(has(bad({-7, 10}), "cu_seqlens[0] is -7; allowed: 0 to 1073741824"));
  CHECK(has(bad({0, 50, 20}), "cu_seqlens[2] is 20; allowed: 50, the one before it,"));
  CHECK(has(bad({0, (1 << 30) + 1}), "cu_seqlens[1] is 1073741825"));
}

TEST_CASE("what the listing takes") {
  accepted([](auto&) {});
  accepted([](auto& c) { c.cu_seqlens.shape[0] = 1; });  // no sequence
  accepted([](auto& c) { c.cu_seqlens.data = ends + 1; });
  accepted([](auto& c) { c.chunk_indices = Tensor::strided(pairs, kCpu, DType::i32, {20, 2}, {6, 1}); });
  accepted([](auto& c) { c.chunk_indices = Tensor::strided(pairs, kCpu, DType::i32, {1, 2}, {1, 1}); });
}

TEST_CASE("one kernel, scheduled as one role, and no flags") {
  const ops::Op& op = ops::chunk_indices_op();
  CHECK(ops::find("chunk_indices") == &op);
  const auto requests = op.requests({});
  REQUIRE(requests.size() == 1);
  CHECK(requests[0].name == "chunk_indices");
  const Error error = error_of([&] { op.requests({{"dtype", {"f16"}}}); });
  CHECK(has(error.message, "--dtype means nothing to chunk_indices"));
  const auto candidates = op.candidates(requests[0], *arch::find("sm_90a"));
  REQUIRE(candidates.size() == 1);
  CHECK_NOTHROW(graph::check(candidates[0].graph));
  CHECK(candidates[0].graph.values.empty());  // all in registers: nothing to wait for but loads
}

TEST_CASE("blocks are as many as sequences need, and no more than run in a few waves") {
  const auto blocks = [](std::int64_t sequences, unsigned sm_count, bool walks = true) {
    ChunkIndicesArgs args = good();
    args.cu_seqlens.shape[0] = sequences + 1;
    ops::LaunchPlan plan;
    plan.sm_count = sm_count;
    ops::chunk_indices_op().plan(&args, {}, ops::Geometry::of(ops::WalkLaunch{walks}), plan);
    return plan.blocks;
  };
  CHECK(blocks(0, 132) == 1);
  CHECK(blocks(1, 132) == 1);
  CHECK(blocks(256, 132) == 1);
  CHECK(blocks(257, 132) == 2);
  CHECK(blocks(1 << 20, 132) == 4 * 132);
  CHECK(blocks(1 << 20, 0) == 4096);
  CHECK(blocks(1 << 20, 132, false) == 4096);  // where blocks do not walk on
}
