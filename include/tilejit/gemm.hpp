// Matrix products.
//
// Decides the arguments and their meaning. Does not decide how a kernel is found (runtime.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <tilejit/device_text.hpp>
#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj {

struct GemmConfig;

/// gemm applies an activation to a result before it is rounded. relu is max(x, 0). gelu is x times the normal
/// distribution function of x (the one by the error function). gelu_tanh is its approximation by a hyperbolic tangent,
/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))). silu is x / (1 + exp(-x)).
enum class Activation : std::int32_t { none = 0, relu = 1, gelu = 2, silu = 3, gelu_tanh = 4 };

/// Scales says what one scale of an operand of 8 bits serves. tensor: all of a; all of b. block: 128 elements of K of a
/// row of a; 128 elements of K of 128 rows of b. row: 128 elements of K of a row of either.
enum class Scales : std::int32_t { tensor = 0, block = 1, row = 2 };

/// Matrix product, d = activation(alpha * a b^T + beta * c + bias), accumulated in f32.
///
/// Shapes: a [M, K], b [N, K], c and d [M, N], bias [N]; sizes are 0 to 2^30. With a batch, d is [B, M, N]. Each other
/// tensor then has a leading B, or one dimension less and is shared by the whole batch. All are on one device.
///
/// With a gate, N is even and d is [M, N / 2]: d = gate(g) * u, where g and u are the columns of alpha * a b^T + bias
/// that the first N / 2 rows of b make, and the others. silu makes SwiGLU, gelu and gelu_tanh GeGLU, relu ReGLU. With
/// gate_interleaved rows of g and u take turns in b and bias, g's first. A gate goes with activation none and beta 0,
/// on Hopper alone. K is contiguous in b then. With scales of blocks, which go with gate_interleaved false, N / 2 is a
/// multiple of 128, or of 4 where scale_b has N rows.
///
/// Types: a and b share f16, bf16 or e4m3. d is f16, bf16 or f32; bias is as d, and c as d or f32. Or d is e4m3
/// (below). Memory: a is contiguous in K or, stored transposed, in M; b in K or in N. The last dimension of c, d and
/// bias is contiguous. d may be c (same type, address and strides); else it overlaps no other tensor.
///
/// Workspace comes from Options::allocator, else from a pool of the library's own. That keeps at most 128 MB between
/// calls; inside a graph capture the memory belongs to the graph. These take workspace:
/// - An operand whose other strides or address are not multiples of 16 bytes is copied there first. On Hopper, few rows
///   are not, if K of a and b is no multiple of 16 bytes and contiguous in both.
/// - When M and N give few tiles and K is long, sums over parts of K go there, at most 70 MB. A second launch adds them
///   in their order, so equal calls on one kind of device give equal bits.
/// - Blocks that draw or share tiles have counters and sums there: of large products on Hopper, of max_sms on AMD.
///
/// e4m3: on sm_90a, sm_89, sm_120a, sm_121a, gfx1200, gfx1201. Others refuse it; gfx942's own 8-bit type is
/// another. K is contiguous in a and in b, as matrix units take no other order of 8-bit elements. The product may be
/// scaled: d = activation(alpha * scale_a * scale_b * a b^T + beta * c + bias). A scale is one f32 in the device's
/// memory, which the kernel reads: nothing waits for it on the host. The matrix unit sums 128 products with about 14
/// bits; these partial sums are added in f32. An f32 d has a relative error of about 1.3e-4 for normal data and 5e-4
/// where all products are positive, whatever K is.
///
/// Scales of blocks: with scale_a [M, ceil(K / 128)] and scale_b [ceil(N / 128), ceil(K / 128)] or [N, ceil(K / 128)],
/// both f32, each sum of 128 products is multiplied by its row's and its column's scale before it is added. With a
/// batch, each has a leading B where its operand has one. scale_a, and scale_b of N rows, are contiguous in either
/// dimension; the first is read faster. scale_b of blocks is contiguous in the second. Scales whose other strides or
/// address are not multiples of 16 bytes are copied first, as operands are. Both may be i32 instead, [.., ceil(K /
/// 512)]: each has the scales of four blocks of K as exponents of 8 bits (UE8M0), the first in its lowest bits.
/// Exponent e is 2^(e - 127), 255 a NaN.
///
/// Quantised d: of e4m3, on Hopper alone, with scale_d [M, ceil(N / 128)] of d's N, which is written: d times its
/// block's scale is the result. A scale is max(largest magnitude of 128 columns of a row, 1e-4) / 448, of results in
/// f32 that nothing has rounded; with powers_of_two it is rounded up to one. scale_d is f32, or with powers_of_two i32
/// [M, ceil(N / 512)] of four exponents each, 0 behind the last block's; it lies in any order, and with a batch has a
/// leading B. So d and scale_d are a and scale_a of the next product, and what quantise() (quantise.hpp) makes of an
/// f32 result with the same bits. NaN and infinity are as quantise() has them. beta is 0; bias is as a, or bf16 beside
/// e4m3.
///
/// An end of one's own: end_text, the body of a function in device code that gives a float, takes the place of the
/// activation. It is told (value, row, column, batch, params), where value is alpha * scales * a b^T + bias. beta * c
/// is added behind it: d = end_text(..) + beta * c, which is rounded or quantised then. With a gate value is gate(g) *
/// u. row and column are d's, batch is 0 without one; each element is asked for once, of whole sums. params.i32(n) and
/// params.f32(n) are numbers of end_params; a place outside of it counts as the last. "return value > 0 ? value * value
/// : 0;" squares what relu leaves. Equal texts are one kernel, which is compiled at the first call. A text that does
/// not compile is a tj::Error with its line. src/ops/gemm/README.md has what texts may use.
///
/// Ladder (ladder.hpp): rungs 1 to 10, named v1 to v10, on sm_90a, sm_100a and sm_103a. Each drops a restriction of the
/// one before. v10 has two consumers a block, in tensor memory in pairs of blocks. It is the op's own kernel, also a
/// measured one, where that is such a kernel. Else it is the best of them. v10 takes any type, the others f16 and bf16.
/// v1 serves M <= 128, N <= 128 and K <= 64; v2 serves M <= 128 and N <= 128; both have no batch. The others serve all
/// sizes. Example: samples/02_gemm_ladder.
struct GemmArgs {
  static constexpr const char* kOp = "gemm";
  using Config = GemmConfig;
  Tensor a, b, d;
  std::optional<Tensor> c;  ///< needed when beta is not 0; else neither read nor looked at
  std::optional<Tensor> bias;
  float alpha = 1, beta = 0;  ///< finite; alpha 0: neither a nor b is read
  Activation activation = Activation::none;
  std::optional<Tensor> scale_a, scale_b;  ///< f32 [1] or of rank 0, or of blocks; with e4m3 only; 1 when absent
  /// Multiprocessors that the call's launches may fill: their blocks are at most those that fit on so many at once. 0,
  /// or as many as the device has: all.
  int max_sms = 0;
  Activation gate = Activation::none;  ///< none: there is no gate
  bool gate_interleaved = false;       ///< rows of b take turns; looked at with a gate
  std::optional<Tensor> scale_d;       ///< written; with d of e4m3 only, which has one
  bool powers_of_two = false;          ///< of scale_d; looked at with one
  DeviceText end_text;                 ///< up to 2048 characters; activation is none then
  std::optional<Tensor> end_params;    ///< i32 or f32 [N], what end_text reads
};

/// The fields that choose a gemm kernel, without any memory: for prepare() and warm(). Sizes decide the tile, and
/// whether K is cut.
struct GemmConfig {
  using Args = GemmArgs;
  std::int64_t m = 4096, n = 4096, k = 4096, batch = 1;  ///< n: rows of b
  DType dtype = DType::f16;                              ///< of a and b; e4m3: K is contiguous in both
  DType out = DType::f16;                                ///< of c, d and bias; e4m3: d is quantised
  bool a_transposed = false;                             ///< M is contiguous in a instead of K
  bool b_transposed = false;                             ///< N is contiguous in b instead of K
  bool bias = false, add_c = false;                      ///< add_c: beta is not 0
  Activation activation = Activation::none;
  Scales scales = Scales::tensor;  ///< with e4m3; absent ones are scales of tensors
  bool scale_a_transposed = false,
       scale_b_transposed = false;  ///< of blocks: K is contiguous instead of M, and instead of N with Scales::row
  Activation gate = Activation::none;
  bool packed_scales = false;  ///< scales of blocks are i32, of four exponents
  DeviceText end_text = {};    ///< calls with this text
  bool c_f32 = false;          ///< with add_c: c is f32, whatever out is
};

/// Runs the call on Runtime::instance().
inline void gemm(const GemmArgs& args, Stream stream = {}) { Runtime::instance().run(args, stream); }

}  // namespace tj
