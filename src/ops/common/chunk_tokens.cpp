// See chunk_tokens.hpp.
#include "ops/common/chunk_tokens.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "ops/common/list_checks.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kEnds[] = {"N + 1"};

Named ends_of(const ChunkTokens& tokens) { return {tokens.op, "cu_seqlens", *tokens.ends, kEnds, 1, "[N + 1]"}; }

}  // namespace

Named named_of(const ChunkTokens& tokens, const char* name, const Tensor& tensor, const char* const* axes, int rank,
               const char* batched_form, const char* form) {
  return {tokens.op,
          name,
          tensor,
          axes + tokens.first_axis(),
          rank + (tokens.batched() ? 1 : 0),
          tokens.batched() ? batched_form : form};
}

void check_tokens(const ChunkTokens& tokens, const Named& first, bool on_model) {
  check_form(first, tokens.from_zero());
  check_place(first, on_model);
  if (!tokens.ends) return;
  if (tokens.batched())
    refuse(tokens.op, Code::invalid_argument,
           cat(tokens.name, ".rank is ", tokens.rank + 1, " with cu_seqlens; allowed: ", tokens.rank,
               ", the tokens of all sequences"));
  const Named ends = ends_of(tokens);
  check_form(ends);
  check_dtype(ends, DType::i32, "");
  check_device(ends, tokens.first.device, tokens.name);
  check_strides(ends, size_of(DType::i32), 0);
  check_alignment(ends, size_of(DType::i32));
}

void check_beside(const ChunkTokens& tokens, const Named& other) {
  check_form(other, tokens.from_zero());
  check_device(other, tokens.first.device, tokens.name);
  for (int axis = 0; axis < (tokens.batched() ? 2 : 1); ++axis)
    if (other.at(axis) != tokens.first.shape[static_cast<std::size_t>(axis)])
      check_same(other, axis, tokens.first.shape[static_cast<std::size_t>(axis)], cat(tokens.name, "'s shape").c_str());
}

void check_elements(const Named& t) {
  check_strides(t, size_of(t.tensor.dtype), -1);
  check_alignment(t, size_of(t.tensor.dtype));
}

void check_rows(const Named& t) {
  check_strides(t, kCopyAlignmentBytes, t.rank - 1);
  check_alignment(t, kCopyAlignmentBytes);
}

void check_token_numbers(const ChunkTokens& tokens, const Named& t, Size heads, const char* like,
                         std::optional<DType> other) {
  check_beside(tokens, t);
  if (t.tensor.dtype != DType::f32 && t.tensor.dtype != other)
    refuse(tokens.op, Code::unsupported,
           cat(t.name, ".dtype is ", to_string(t.tensor.dtype), "; allowed: f32",
               other ? cat(", or ", tokens.name, ".dtype") : ""));
  check_same(t, t.rank - 1, heads, like);
  check_elements(t);
}

void check_written(std::initializer_list<const Named*> written, std::initializer_list<const Named*> read,
                   const std::optional<Tensor>& ends) {
  for (auto it = written.begin(); it != written.end(); ++it) {
    if (*it == nullptr) continue;
    const Named& t = **it;
    const Range range = range_of(t);
    check_no_self_overlap(t);
    for (auto other = written.begin(); other != it; ++other)
      if (*other != nullptr) check_apart(t, range, **other, range_of(**other));
    for (const Named* other : read)
      if (other != nullptr) check_apart(t, range, *other, range_of(*other));
    if (!ends) continue;
    const Named list{t.op, "cu_seqlens", *ends, kEnds, 1, "[N + 1]"};
    check_apart(t, range, list, range_of(list));
  }
}

void check_chunk_units(const ChunkTokens& tokens, Size heads, Size each) {
  const Size slots = slots_of(tokens);
  if (heads > kMaxSize / each || slots > kMaxSize / (heads * each))
    refuse(tokens.op, Code::invalid_argument,
           cat("H is ", heads, " with ", slots, " chunks; allowed: chunks * H * ", each, " of at most ", kMaxSize));
}

chunks::Sequences sequences_of(const ChunkTokens& tokens) {
  const auto all = static_cast<int>(tokens.tokens());
  const int chunks = (all + chunks::kChunk - 1) / chunks::kChunk;
  static_assert(std::has_unique_object_representations_v<chunks::Sequences>);
  return {tokens.ends ? static_cast<const int*>(tokens.ends->data) : nullptr,
          all,
          static_cast<int>(tokens.sequences()),
          chunks,
          divisor_of(std::max(chunks, 1)),
          0};
}

Size slots_of(const ChunkTokens& tokens) {
  const Size all = tokens.tokens(), sequences = tokens.sequences();
  return tokens.ends ? all / chunks::kChunk + sequences : (all + chunks::kChunk - 1) / chunks::kChunk * sequences;
}

void check_token_ends(const ChunkTokens& tokens, const ReadList& read) {
  if (tokens.ends) {
    const std::string what = cat(tokens.name, ".shape[0]");
    check_begins(tokens.op, "cu_seqlens", read(*tokens.ends), tokens.tokens(), what.c_str());
  }
}

}  // namespace tj::ops
