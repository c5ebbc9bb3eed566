// See split_problem.hpp.
#include "dist/split_problem.hpp"

#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "support/fail.hpp"

namespace tj::test {
namespace {

/// A tensor [B, H, S, D] or [B, H, S] of some rows, in memory of its own, in the order of the whole one's.
struct Part {
  Part(const Tensor& whole, const std::vector<std::int64_t>& rows)
      : whole_(whole), rows_(rows), memory_(static_cast<std::size_t>(elements()) * bytes(), 0xff) {
    tensor = whole;
    tensor.data = memory_.data();
    tensor.shape[2] = std::ssize(rows);
    const bool rows_first = whole.rank == 4 && whole.strides[1] < whole.strides[2];
    const std::int64_t d = whole.rank == 4 ? whole.shape[3] : 1, s = tensor.shape[2], h = whole.shape[1];
    tensor.strides[0] = h * s * d;
    tensor.strides[1] = rows_first ? d : s * d;
    tensor.strides[2] = rows_first ? h * d : d;
  }
  void copy(bool into_part) {
    const std::int64_t d = whole_.rank == 4 ? whole_.shape[3] : 1;
    for (std::int64_t b = 0; b < whole_.shape[0]; ++b)
      for (std::int64_t h = 0; h < whole_.shape[1]; ++h)
        for (std::size_t i = 0; i < rows_.size(); ++i) {
          char* const of_whole = at(whole_, b, h, rows_[i]);
          char* const own = at(tensor, b, h, static_cast<std::int64_t>(i));
          std::memcpy(into_part ? own : of_whole, into_part ? of_whole : own, static_cast<std::size_t>(d) * bytes());
        }
  }
  Tensor tensor;

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(size_of(whole_.dtype)); }
  std::int64_t elements() const {
    return whole_.shape[0] * whole_.shape[1] * std::ssize(rows_) * (whole_.rank == 4 ? whole_.shape[3] : 1);
  }
  char* at(const Tensor& t, std::int64_t b, std::int64_t h, std::int64_t row) const {
    return static_cast<char*>(t.data) +
           (b * t.strides[0] + h * t.strides[1] + row * t.strides[2]) * static_cast<std::int64_t>(bytes());
  }
  const Tensor whole_;
  const std::vector<std::int64_t> rows_;
  std::vector<unsigned char> memory_;
};

}  // namespace

std::vector<std::int64_t> rows_of_rank(dist::Split split, const std::vector<std::int64_t>& lengths, int rank) {
  const std::int64_t all = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), size = std::ssize(lengths);
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < all; ++row) {
    std::int64_t holder = 0;
    if (split == dist::Split::contiguous) {
      for (std::int64_t end = lengths[0]; row >= end; end += lengths[static_cast<std::size_t>(holder)]) ++holder;
    } else if (split == dist::Split::striped) {
      holder = row % size;
    } else {
      const std::int64_t piece = row / (all / (2 * size));
      holder = piece < size ? piece : 2 * size - 1 - piece;
    }
    if (holder == rank) rows.push_back(row);
  }
  return rows;
}

std::string SplitCase::text() const {
  std::string all;
  for (const std::int64_t length : lengths) all += support::cat(" ", length);
  return support::cat(shape.text(), " split ", static_cast<int>(split), " lengths", all);
}

SplitCase split_case(dist::Split split, std::vector<std::int64_t> lengths, bool causal) {
  SplitCase what;
  what.split = split;
  what.lengths = std::move(lengths);
  what.shape.seq_q = what.shape.seq_k =
      static_cast<int>(std::accumulate(what.lengths.begin(), what.lengths.end(), std::int64_t{0}));
  what.shape.causal = causal;
  what.shape.heads = 2;
  what.shape.rows_first = true;
  return what;
}

std::vector<std::string> run_split(FmhaProblem& whole, const SplitCase& what, std::vector<dist::Group>& members,
                                   const std::function<void(int rank, dist::ContextFmhaArgs&)>& change) {
  std::vector<std::string> said(members.size());
  const auto run = [&](std::size_t r) {
    const int rank = members[r].rank();
    const std::vector<std::int64_t> rows = rows_of_rank(what.split, what.lengths, rank);
    Part q(whole.args.q, rows), k(whole.args.k, rows), v(whole.args.v, rows), o(whole.args.o, rows);
    std::optional<Part> lse;
    if (whole.args.lse) lse.emplace(*whole.args.lse, rows);
    for (Part* each : {&q, &k, &v}) each->copy(true);
    dist::ContextFmhaArgs args;
    args.q = q.tensor;
    args.k = k.tensor;
    args.v = v.tensor;
    args.o = o.tensor;
    if (lse) args.lse = lse->tensor;
    args.causal = whole.args.causal;
    args.split = what.split;
    args.heads_first = !what.shape.rows_first;
    if (what.told) args.lengths = what.lengths;
    args.window = whole.args.window;
    args.softcap = whole.args.softcap;
    args.alibi_slopes = whole.args.alibi_slopes;
    args.sinks = whole.args.sinks;
    if (change) change(rank, args);
    try {
      members[r].fmha(args);
    } catch (const Error& error) {
      said[r] = error.what();
      return;
    }
    o.copy(false);
    if (lse) lse->copy(false);
  };
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < members.size(); ++r) threads.emplace_back(run, r);
  for (std::thread& thread : threads) thread.join();
  return said;
}

}  // namespace tj::test
