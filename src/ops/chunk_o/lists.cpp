// The numbers of a call's lists, which TJ_CHECK reads.
//
// Decides which entry is bad, and its words. Invariant: kernels take the same lists as they are.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/chunk_o/chunk_o.hpp"
#include "ops/chunk_o/params.cuh"
#include "ops/common/list_checks.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::ops {
namespace {

using Numbers = std::vector<std::int32_t>;
using support::cat;

constexpr const char* kOp = "chunk_o";

[[noreturn]] void refuse_entry(Size row, int column, std::int32_t entry, const std::string& allowed) {
  refuse(kOp, Code::invalid_argument, cat("chunk_indices[", row, "][", column, "] is ", entry, "; allowed: ", allowed));
}

/// The chunks of all sequences before each one, and behind the last one.
std::vector<Size> first_chunks(const Numbers& begins) {
  std::vector<Size> first = {0};
  for (std::size_t s = 0; s + 1 < begins.size(); ++s)
    first.push_back(first.back() + (begins[s + 1] - begins[s] + chunk_o::kChunk - 1) / chunk_o::kChunk);
  return first;
}

}  // namespace

void check_chunks(const ChunkOArgs& args, const ReadList& read) {
  if (!args.cu_seqlens) return;
  const Numbers begins = read(*args.cu_seqlens);
  check_begins(kOp, "cu_seqlens", begins, args.q.shape[0], "q.shape[0]");
  const std::int32_t total = read(*args.total_chunks).front();
  if (total < 0)
    refuse(kOp, Code::invalid_argument,
           cat("total_chunks[0] is ", total, "; allowed: 0 and more, rows of chunk_indices"));
  const Size rows = std::min(
                 {Size{total}, args.chunk_indices->shape[0], args.h.shape[0], args.v_new.shape[0] / chunk_o::kChunk}),
             sequences = static_cast<Size>(begins.size()) - 1;
  if (rows == 0) return;
  const Numbers list = read(*args.chunk_indices);
  const std::vector<Size> first = first_chunks(begins);
  std::vector<Size> named(support::at(first.back()), -1);  // the row that names a chunk
  for (Size row = 0; row < rows; ++row) {
    const std::int32_t sequence = list[support::at(2 * row)], chunk = list[support::at(2 * row + 1)];
    if (sequence < 0 || sequence >= sequences)
      refuse_entry(row, 0, sequence,
                   sequences == 0 ? "no row, as there is no sequence" : cat("0 to ", sequences - 1, ", the sequences"));
    const Size before = first[support::at(Size{sequence})], chunks = first[support::at(Size{sequence} + 1)] - before;
    if (chunks == 0) refuse_entry(row, 0, sequence, "sequences that have a token");
    if (chunk < 0 || chunk >= chunks)
      refuse_entry(row, 1, chunk, cat("0 to ", chunks - 1, ", the chunks of sequence ", sequence));
    Size& earlier = named[support::at(before + chunk)];
    if (earlier >= 0)
      refuse_entry(
          row, 1, chunk,
          cat("chunks of sequence ", sequence, " that no other row names, and row ", earlier, " names this one"));
    earlier = row;
  }
}

}  // namespace tj::ops
