// A problem of the gated delta rule's chunk output in host memory for tests: random inputs, NaN wherever nothing may be
// read, an output inside guard bands, poisoned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/ops.hpp>
#include <tilejit/runtime.hpp>

namespace tj::test {

struct ChunkOShape {
  std::vector<int> lengths = {64};
  int heads = 1, v_heads = 1;
  bool gated = true, variable = true, h_transposed = false;
  double gate_scale = 0.1;  ///< gates of a token are random between 0 and -2 of these
  int lead = 0, tail = 0;   ///< tokens before the first and behind the last sequence, which belong to none
  int padding = 0;          ///< elements between the rows of q, k, v_new and o; a multiple of 8
  int spare_chunks = 0;     ///< room in chunk_indices, h and v_new that no chunk needs
  float scale = 0;          ///< 0: the default
  std::string text() const;
};

class ChunkOProblem {
 public:
  ChunkOProblem(const ChunkOShape& shape, std::uint64_t seed);
  ChunkOArgs args;  ///< in host memory

  /// Runs it there: on the cpu in place, on a GPU through copies of the whole allocations, guard bands included.
  void run(Runtime& runtime, Device device);
  /// "": every element of o that a token has was written, nothing else, and the numbers agree with f64; else what is
  /// wrong.
  std::string problem() const { return problem(chunks()); }
  /// The problem where only the first `chunks` are to be written.
  std::string problem(int chunks) const;
  double relative_rms() const { return relative_rms_; }  ///< of the last problem()
  int chunks() const { return static_cast<int>(places_.size()); }

 private:
  struct Memory {
    std::vector<unsigned char> bytes;
    Tensor tensor;
  };
  /// The place of a chunk's tokens.
  struct Place {
    int token = 0, rows = 0;
  };
  Tensor place(Memory& memory, DType dtype, const std::vector<std::int64_t>& shape, int padding);
  void fill(Memory& memory, double size, std::uint64_t seed);
  void list_chunks();
  void set_gates(std::uint64_t seed);
  void spoil_padding();
  double value(const Memory& memory, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d = 0) const;
  /// One row of o for one head, and how large its parts are.
  double reference(int chunk, int row, int head, std::vector<double>& o) const;
  std::string check_written(int chunks) const;

  ChunkOShape shape_;
  int tokens_ = 0;
  std::vector<Place> places_;
  Memory q_, k_, v_, h_, o_, g_, ends_, indices_, total_;
  mutable double relative_rms_ = 0;
};

}  // namespace tj::test
