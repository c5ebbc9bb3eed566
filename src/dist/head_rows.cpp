// See head_rows.hpp.
#include "dist/head_rows.hpp"

#include "dist/context_call.hpp"
#include "support/fail.hpp"

namespace tj::dist {
namespace {

Tensor moved(Tensor t, int dimension, std::int64_t first, std::int64_t count, std::int64_t step = 1) {
  const auto at = static_cast<std::size_t>(dimension);
  if (t.data != nullptr && count > 0) t.data = address(t.data, first * t.strides[at] * size_of(t.dtype));
  t.shape[at] = count;
  t.strides[at] *= step;
  return t;
}

}  // namespace

bool heads_suffice(std::int64_t heads, std::int64_t key_heads, int ranks) {
  return heads > 0 && key_heads > 0 && heads % key_heads == 0 && heads % ranks == 0 &&
         (key_heads % ranks == 0 || ranks % key_heads == 0);
}
Range query_heads(std::int64_t heads, int ranks, int rank) {
  const std::int64_t each = heads / ranks;
  return {rank * each, (rank + 1) * each};
}
Range key_heads(std::int64_t heads, std::int64_t key_heads, int ranks, int rank) {
  const Range queries = query_heads(heads, ranks, rank);
  const std::int64_t group = heads / key_heads;
  return {queries.begin / group, (queries.end - 1) / group + 1};
}

std::int64_t rounded_bytes(std::int64_t elements, DType type) {
  return static_cast<std::int64_t>(rounded(static_cast<std::size_t>(elements * size_of(type))));
}
Tensor dense_rows(const Tensor& like, std::int64_t heads, std::int64_t rows, bool heads_first, void* at) {
  const std::int64_t d = like.shape[3];
  Tensor t = like;
  t.data = at;
  t.shape = {like.shape[0], heads, rows, d};
  if (heads_first)
    t.strides = {heads * rows * d, rows * d, d, 1};
  else
    t.strides = {heads * rows * d, d, heads * d, 1};
  return t;
}
Tensor lse_rows(const Tensor& like, std::int64_t heads, std::int64_t rows, void* at) {
  Tensor t = like;
  t.data = at;
  t.dtype = DType::f32;
  t.rank = 3;
  t.shape = {like.shape[0], heads, rows};
  t.strides = {heads * rows, rows, 1};
  return t;
}

Tensor heads_of(const Tensor& t, Range heads) { return moved(t, 1, heads.begin, heads.rows()); }
Tensor own_of(const Tensor& t, const HeldRows& held) { return moved(t, 2, held.at, held.rows); }
Tensor places_of(const Tensor& t, const HeldRows& held) { return moved(t, 2, held.begin, held.rows, held.step); }
Tensor one_state(const Tensor& t) {
  Tensor one = t;
  ++one.rank;
  one.shape[0] = one.strides[0] = 1;
  for (int i = 1; i < one.rank; ++i) {
    one.shape[static_cast<std::size_t>(i)] = t.shape[static_cast<std::size_t>(i) - 1];
    one.strides[static_cast<std::size_t>(i)] = t.strides[static_cast<std::size_t>(i) - 1];
  }
  return one;
}

void check_apart(const char* name, const Tensor& t) {
  const std::int64_t heads = t.shape[1], rows = t.shape[2], d = t.shape[3], of_head = t.strides[1],
                     of_row = t.strides[2];
  const bool many_heads = heads > 1, many_rows = rows > 1, many = many_heads && many_rows;
  const bool overlap = (many_heads && of_head < d) || (many_rows && of_row < d) ||
                       (many && of_head == d && of_row < heads * d) || (many && of_row == d && of_head < rows * d);
  if (overlap && t.shape[0] * heads * rows != 0)
    support::fail(Stage::argument, Code::unsupported,
                  support::cat("context fmha: ", name, ".strides are [", t.strides[0], ", ", of_head, ", ", of_row,
                               ", ", t.strides[3],
                               "]; allowed with an exchange of heads: rows and heads that do not overlap: "
                               "pass a contiguous copy"));
}

void copies_between(const Tensor& from, const Tensor& to, const std::function<void(const launch::RowsToCopy&)>& copy) {
  const std::int64_t bytes = size_of(from.dtype), batch = from.shape[0], heads = from.shape[1], rows = from.shape[2],
                     d = from.rank == 4 ? from.shape[3] : 1;
  if (batch * heads * rows * d == 0) return;
  const auto dense = [&](std::size_t dimension) {
    return from.shape[dimension] == 1 || (from.strides[dimension] == d && to.strides[dimension] == d);
  };
  // Rows with their heads, heads with their rows, or each row of each head.
  const bool by_row = dense(1), by_head = !by_row && dense(2);
  const std::size_t along = by_head ? 1 : 2;
  const std::int64_t run = by_row ? heads * d : by_head ? rows * d : d;
  // A stride of one run may be anything.
  const auto pitch = [&](const Tensor& t) { return (t.shape[along] > 1 ? t.strides[along] : run) * bytes; };
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t head = 0; head < (by_row || by_head ? 1 : heads); ++head) {
      const auto at = [&](const Tensor& t) {
        return address(t.data, (b * t.strides[0] + head * t.strides[1]) * bytes);
      };
      copy({at(to), pitch(to), at(from), pitch(from), run * bytes, from.shape[along]});
    }
}

}  // namespace tj::dist
