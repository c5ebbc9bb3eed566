// Listing chunks: request, graph, launch; see chunk_indices.hpp.
//
//   begin -> count_chunks -> list_chunks     registers of one role; count_chunks sums over iterations
#include "ops/chunk_indices/chunk_indices.hpp"

#include <algorithm>
#include <new>

#include "ops/chunk_indices/params.cuh"
#include "ops/common/list_checks.hpp"
#include "ops/common/tabled.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/walk.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

constexpr const char* kOp = "chunk_indices";
constexpr const char* kEndAxes[] = {"N + 1"};
constexpr const char* kIndexAxes[] = {"C", "sequence and chunk"};
constexpr const char* kTotalAxes[] = {"one number"};
constexpr int kWarps = 8;  // of 32 lanes, with a sequence each
constexpr int kSequences = 32 * kWarps;
constexpr int kBatch = 512;           // sequences counted in one iteration: 16 independent pairs of loads a lane
constexpr unsigned kBlocksPerSm = 4;  // more than run at a time, and most lists need a few blocks in all
constexpr double kTypicalIterations = 1;
constexpr int kPairBytes = 8;  // stored at a time

const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle"}});

/// Checks that an axis has `wanted` elements.
void check_size(const Named& t, int axis, Size wanted, const char* why) {
  if (t.at(axis) != wanted)
    refuse(kOp, Code::invalid_argument,
           cat(t.name, ".shape[", axis, "] (", t.axes[axis], ") is ", t.at(axis), "; allowed: ", wanted, why));
}

class Builder : WalkBuilder {
 public:
  Builder(const WalkKernel& kernel, const arch::Arch& arch) : WalkBuilder(kOp, "Lister", kWarps, arch, kernel.walk) {
    graph_.name = request_of_fields<kWalkFields>(kOp, kernel).name;
  }

  Candidate build() {
    constant("kWarps", kWarps);
    constant("kBatch", kBatch);
    constant("kChunk", kChunkTokens);
    constant("kLanes", arch_.warp_size);
    const int begin = at_end("begin", Scope::tile_begin);
    // The warps of a block share what they read beside each other.
    const int count = brings("count_chunks", 2.0 * kBatch * size_of(DType::i32));
    const int list = at_end("list_chunks", Scope::tile_end);
    then(begin, count);
    then(count, count, 1);
    then(count, list);
    return candidate(kTypicalIterations);
  }
};

class ChunkIndices final : public Tabled<ChunkIndicesArgs, chunk_indices_from_c, kWalkFields> {
 public:
  std::string_view name() const override { return kOp; }

  void validate(const void* args, bool on_model) const override {
    const ChunkIndicesArgs& in = get(args);
    const Named ends{kOp, "cu_seqlens", in.cu_seqlens, kEndAxes, 1, "[N + 1]"},
        indices{kOp, "chunk_indices", in.chunk_indices, kIndexAxes, 2, "[C, 2]"},
        total{kOp, "total_chunks", in.total_chunks, kTotalAxes, 1, "[1]"};
    for (const Named* t : {&ends, &indices, &total}) {
      check_form(*t, t == &indices ? axis_bits({0}) : 0);
      check_dtype(*t, DType::i32, "");
    }
    check_place(ends, on_model);
    for (const Named* t : {&indices, &total}) check_device(*t, in.cu_seqlens.device, "cu_seqlens");
    check_size(indices, 1, 2, ", a sequence and a chunk of it");
    check_size(total, 0, 1, "");
    check_strides(ends, size_of(DType::i32), 0);
    check_alignment(ends, size_of(DType::i32));
    check_strides(indices, kPairBytes, 1);
    check_alignment(indices, kPairBytes);
    check_alignment(total, size_of(DType::i32));
    check_max_sms(kOp, in.max_sms);
    const Range ends_range = range_of(ends), indices_range = range_of(indices), total_range = range_of(total);
    check_no_self_overlap(indices);
    check_apart(indices, indices_range, ends, ends_range);
    check_apart(total, total_range, ends, ends_range);
    check_apart(total, total_range, indices, indices_range);
  }
  void check_lists(const void* args, const ReadList& read) const override {
    check_begins(kOp, "cu_seqlens", read(get(args).cu_seqlens), kMaxSize, "the most tokens");
  }
  Device device_of(const void* args) const override { return get(args).cu_seqlens.device; }

  ProblemKey problem_key(const void* args) const override { return {0, {get(args).max_sms}}; }
  std::vector<Request> requests(const std::map<std::string, std::vector<std::string>>& flags) const override {
    if (!flags.empty())
      fail(Stage::argument, Code::invalid_argument,
           cat("--", support::shown(flags.begin()->first), " means nothing to chunk_indices; allowed are no flags"));
    return {chunk_indices_request()};
  }

  std::vector<Trial> trials(const std::map<std::string, std::vector<std::string>>& given,
                            const arch::Arch&) const override {
    Flags flags = given;
    const std::vector<std::int64_t> lengths = take_list(flags, "lengths", {70, 0, 64, 130});
    requests(flags);  // refuses all others
    std::vector<std::int32_t> ends = {0};
    std::int64_t chunks = 0;
    std::string text;
    for (const std::int64_t length : lengths) {
      ends.push_back(static_cast<std::int32_t>(ends.back() + length));
      chunks += (length + kChunkTokens - 1) / kChunkTokens;
      text += cat(text.empty() ? "" : ",", length);
    }
    Trial trial;
    trial.name = "lengths " + text;
    trial.flags = "--lengths " + text;
    trial.tensors = {list_of("cu_seqlens", {static_cast<std::int64_t>(ends.size())}, ends),
                     dense("chunk_indices", DType::i32, {std::max<std::int64_t>(chunks, 1), 2}, true),
                     dense("total_chunks", DType::i32, {1}, true)};
    trial.with_args = [tensors = trial.tensors](Device device, std::span<void* const> places,
                                                const std::function<void(const void*)>& use) {
      const auto tensor = [&](std::size_t i) { return tensors[i].operand.view(device, places[i]); };
      const ChunkIndicesArgs args{tensor(0), tensor(1), tensor(2)};
      use(&args);
    };
    return {std::move(trial)};
  }

  void tensors(void* args, TensorList& list) const override {
    ChunkIndicesArgs& of = get(args);
    list.reads("cu_seqlens", of.cu_seqlens);
    list.writes("chunk_indices", of.chunk_indices);
    list.writes("total_chunks", of.total_chunks);
  }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    const ChunkIndicesArgs& in = get(args);
    auto& p = *new (plan.params.data()) chunk_indices::Params{};
    plan.params_bytes = sizeof(chunk_indices::Params);
    p.cu_seqlens = static_cast<const int*>(in.cu_seqlens.data);
    p.indices = static_cast<int*>(in.chunk_indices.data);
    p.total = static_cast<int*>(in.total_chunks.data);
    p.row_stride = in.chunk_indices.shape[0] > 1 ? in.chunk_indices.strides[0] : 0;
    p.capacity = static_cast<int>(in.chunk_indices.shape[0]);
    p.sequences = static_cast<int>(in.cu_seqlens.shape[0]) - 1;
    p.tiles = std::max(1, (p.sequences + kSequences - 1) / kSequences);
    walk_tiles(p.tiles, kBlocksPerSm, geometry, in.max_sms, plan);
  }

 private:
  const arch::Needs& needs() const override { return kNeeds; }
  WalkKernel fields_of(const ChunkIndicesConfig&) const override { return {}; }
  Candidate candidate(const WalkKernel& kernel, const arch::Arch& arch) const override {
    return Builder(kernel, arch).build();
  }
};

}  // namespace

Request chunk_indices_request() { return request_of_fields<kWalkFields>(kOp, WalkKernel{}); }

const Op& chunk_indices_op() {
  static constinit support::Lasting<const ChunkIndices> op;
  return op.get();
}

}  // namespace tj::ops
