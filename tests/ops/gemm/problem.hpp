// A matrix product in host memory for tests: random inputs between poison, outputs inside guard bands, poisoned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/ops.hpp>
#include <tilejit/runtime.hpp>

#include "ops/gemm/own_ends.hpp"

namespace tj::test {

struct GemmShape {
  int m = 1, n = 1, k = 1, batch = 0;  ///< batch 0: matrices without one
  DType dtype = DType::f16, out = DType::f16;
  bool a_transposed = false, b_transposed = false;
  float alpha = 1, beta = 0;
  bool bias = false, in_place = false;  ///< in_place: c is d
  bool c_f32 = false;                   ///< c is f32, whatever d is; not in_place then
  bool b_shared = false;                ///< one b for the whole batch
  Activation activation = Activation::none;
  Activation gate = Activation::none;  ///< d has half of the columns
  bool gate_interleaved = false;
  int columns() const { return gate == Activation::none ? n : n / 2; }  ///< of d
  bool scales = false;                                                  ///< of e4m3: both, of tensors
  Scales blocks = Scales::tensor;                                       ///< others: scales of blocks
  bool scale_a_transposed = false, scale_b_transposed = false;          ///< blocks of K are contiguous in these
  bool packed_scales = false;                                           ///< blocks: exponents, four in an i32
  int scale_padding = 0;                                                ///< scales between their rows
  bool packed_out = false, powers_of_two = false;                       ///< scales of a d of e4m3
  bool scale_d_transposed = false;                                      ///< blocks of N are contiguous in these
  int padding = 0;          ///< elements between the rows of d (and c); of a and b as many times 16 bytes
  bool any_stride = false;  ///< rows of a and b are not rounded up to 16 bytes, but as far apart as those of d
  int shift = 0;            ///< elements from a multiple of 16 bytes to where each matrix begins
  bool wide_a = false;      ///< a begins at such a multiple, and so do its rows
  std::string text() const;
};
GemmShape gemm_shape(int m, int n, int k, DType dtype = DType::f16, DType out = DType::f16);

/// In f64.
double activated(double x, Activation activation);
/// The value of an e4m3 by the format's definition; 0x7f and 0xff are its NaNs.
double from_e4m3(std::uint8_t bits);

/// ||d - reference|| / ||reference|| that a result of these types may have. Of e4m3 the matrix unit returns sums of 128
/// products with 13 bits of fraction, each product cut at the largest one's 13th: 1.3e-4 of normal data, however many
/// are added in f32.
double gemm_limit(DType in, DType out);

class GemmProblem {
 public:
  GemmProblem(const GemmShape& shape, std::uint64_t seed);
  GemmArgs args;  ///< in host memory
  int rung = 0;   ///< of the op's ladder
  OwnEnd end;     ///< what args.end_text says, in f64

  /// Runs it there: on the cpu in place, on a GPU through copies of the whole allocations, guard bands included.
  void run(Runtime& runtime, Device device);
  /// All bytes of d with what surrounds it.
  const std::vector<unsigned char>& result() const { return d_.bytes; }
  /// "": every element of d was written, nothing beside them, and the numbers agree with f64; else what is wrong.
  std::string problem() const;

 private:
  /// Bytes of a strided matrix (of each batch) with what surrounds it.
  struct Memory {
    std::vector<unsigned char> bytes;
    Tensor tensor;
  };
  Tensor place(Memory& memory, DType dtype, std::vector<std::int64_t> shape, bool transposed, int padding) const;
  void fill(Memory& memory, std::uint64_t seed);
  std::vector<double> reference() const;
  std::string quantised_problem() const;

  GemmShape shape_;
  Memory a_, b_, c_, d_, bias_, scale_a_, scale_b_, scale_d_;
  std::vector<double> c_values_;  ///< kept: in_place overwrites them
};

}  // namespace tj::test
