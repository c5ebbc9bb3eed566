// Times of PyTorch's attention, by a Python child: the rows that a ladder is compared with.
//
// Decides how the child is called and how its lines are read. Does not decide what is timed: the script does.
// Invariant: no failure of Python's is one of the caller's; each row says why it has no time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/tensor.hpp>

namespace tj::samples {

struct TorchCall {
  std::string python, script;  ///< programs: "python3", the path of torch_rows.py
  std::vector<std::string> rows;
  std::vector<std::int64_t> seq_lens;
  std::int64_t batch = 1, heads = 1, head_dim = 64;
  DType dtype = DType::f16;
  bool causal = true, check = true;
  int iterations = 1, settle_ms = 0;
  std::uint64_t seed = 0;
};

struct TorchRow {
  std::string row;
  std::int64_t seq_len = 0;
  double latency_ms = 0, graph_ms = 0, error = 0;  ///< graph_ms 0: there are no graphs; error NaN: it is no number
  std::int64_t rows_compared = 0, rows_total = 0;
  std::int64_t apart = 0;  ///< compared elements that are not close (fmha_reference.hpp)
  std::string by;          ///< "PyTorch 2.7.0 on NVIDIA H200"
  std::string missing;     ///< why there is no time; empty: there is one
};

/// One row for each length and each of `rows`, length by length.
std::vector<TorchRow> time_torch(const TorchCall& call);

/// The rows of a child's lines, with those that it did not write. `ended` says how it ended; empty: well. For tests.
std::vector<TorchRow> read_torch_rows(const TorchCall& call, const std::string& lines, const std::string& ended);

}  // namespace tj::samples
