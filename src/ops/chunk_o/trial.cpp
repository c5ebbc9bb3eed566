// Problems to check chunk outputs by; see trial.hpp.
//
// Decides lists and shapes from lengths of sequences. A trial of a kernel that says an item's heads runs that kernel.
#include <algorithm>

#include "ops/chunk_o/chunk_o.hpp"
#include "ops/chunk_o/fields.hpp"
#include "ops/chunk_o/params.cuh"
#include "ops/common/trial.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr std::int64_t kWidth = chunk_o::kWidth;

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

struct Lists {
  std::vector<std::int32_t> ends = {0}, indices;
  std::int64_t chunks = 0;
};
Lists lists_of(const std::vector<std::int64_t>& lengths) {
  Lists lists;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    for (std::int64_t c = 0; c * kChunkTokens < lengths[s]; ++c, ++lists.chunks)
      lists.indices.insert(lists.indices.end(), {narrow(static_cast<std::int64_t>(s)), narrow(c)});
    lists.ends.push_back(narrow(lists.ends.back() + lengths[s]));
  }
  return lists;
}

void check(const ChunkOKernel& kernel, const Lists& lists, const std::vector<std::int64_t>& lengths) {
  const bool has_chunks = lists.chunks > 0 && (kernel.variable || lengths.front() > 0);
  if (!has_chunks)
    support::fail(Stage::argument, Code::invalid_argument,
                  "--lengths has no token; allowed: lengths of sequences, one of them (without lists the first) not 0");
}

}  // namespace

Trial chunk_o_trial(const ChunkOKernel& kernel, std::int64_t heads, const std::vector<std::int64_t>& given,
                    std::int64_t v_heads) {
  const std::vector<std::int64_t> lengths =
      kernel.variable || given.empty() ? given : std::vector<std::int64_t>(given.size(), given.front());
  const Lists lists = lists_of(lengths);
  check(kernel, lists, lengths);
  const std::int64_t tokens = lists.ends.back();
  if (v_heads == 0) v_heads = heads * kernel.divisor;
  Trial trial;
  if (kernel.heads != 0) trial.choice = kernel.heads;
  if (lists.chunks == 1) trial.multiprocessors = 2;  // the parts of a head are items: a block has one alone
  std::string text;
  for (const std::int64_t length : lengths) text += cat(text.empty() ? "" : ",", length);
  trial.name = cat("lengths ", text, " H ", heads, "/", v_heads);
  trial.kernel_flags = flags_of_fields<kChunkOFields>(kernel);
  trial.flags = cat(trial.kernel_flags, " --heads ", heads, " --lengths ", text);
  trial.tensors = {dense("q", DType::bf16, {tokens, heads, kWidth}), dense("k", DType::bf16, {tokens, heads, kWidth}),
                   dense("v_new", DType::bf16, {lists.chunks * kChunkTokens, v_heads, kWidth}),
                   dense("h", DType::bf16, {lists.chunks, v_heads, kWidth, kWidth}),
                   dense("o", DType::bf16, {tokens, v_heads, kWidth}, true)};
  if (kernel.gated) trial.tensors.push_back(dense("g_cu", DType::f32, {tokens, v_heads}));
  if (kernel.variable) {
    trial.tensors.push_back(list_of("cu_seqlens", {static_cast<std::int64_t>(lists.ends.size())}, lists.ends));
    trial.tensors.push_back(list_of("chunk_indices", {lists.chunks, 2}, lists.indices));
    trial.tensors.push_back(list_of("total_chunks", {1}, {narrow(lists.chunks)}));
  }
  trial.with_args = [kernel, length = lengths.front(), tensors = trial.tensors](
                        Device device, std::span<void* const> places, const std::function<void(const void*)>& use) {
    std::size_t next = 0;
    const auto tensor = [&] {
      const std::size_t i = next++;
      return tensors[i].operand.view(device, places[i]);
    };
    ChunkOArgs args;
    for (Tensor* each : {&args.q, &args.k, &args.v_new, &args.h, &args.o}) *each = tensor();
    if (kernel.gated) args.g_cu = tensor();
    if (kernel.variable) {
      args.cu_seqlens = tensor();
      args.chunk_indices = tensor();
      args.total_chunks = tensor();
    } else {
      args.seq_length = length;
    }
    args.h_transposed = kernel.h_transposed;
    args.num_stages = kernel.stages;
    args.evict_first = kernel.evict_first;
    use(&args);
  };
  return trial;
}

}  // namespace tj::ops
