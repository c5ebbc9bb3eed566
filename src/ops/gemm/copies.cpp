// Operands of a matrix product that the copy engine cannot read as they are; see steps.hpp.
//
// Decides which are copied and how the copies lie. Invariant: a product of copies is the same product.
#include "ops/common/tensor_checks.hpp"
#include "ops/copy_rows/copy_rows.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/steps.hpp"

namespace tj::ops {
namespace {

constexpr std::int64_t kLineBytes = 128;  // of L2: rows of whole lines are read the fastest
constexpr std::size_t kPlace = 256;

/// The operand as rows: its contiguous dimension last.
Tensor as_rows(const Tensor& operand, bool mn_major) {
  Tensor rows = operand;
  const auto outer = static_cast<std::size_t>(operand.rank - 2), depth = outer + 1;
  if (mn_major) {
    std::swap(rows.shape[outer], rows.shape[depth]);
    std::swap(rows.strides[outer], rows.strides[depth]);
  }
  return rows;
}

std::int64_t pitch_of(const Tensor& rows) {
  const std::int64_t columns = rows.shape[static_cast<std::size_t>(rows.rank - 1)], element = size_of(rows.dtype);
  const std::int64_t step = (columns * element < kLineBytes ? kCopyAlignmentBytes : kLineBytes) / element;
  return (columns + step - 1) / step * step;
}
std::int64_t matrix_of(const Tensor& rows) {
  return pitch_of(rows) * rows.shape[static_cast<std::size_t>(rows.rank - 2)];
}

bool copied(const Tensor& tensor, bool mn_major) {
  return !copy_aligned(tensor, mn_major ? tensor.rank - 2 : tensor.rank - 1);
}

std::size_t bytes_of(const Tensor& operand, bool mn) {
  if (!copied(operand, mn)) return 0;
  const Tensor rows = as_rows(operand, mn);
  const std::int64_t batch = rows.rank == 3 ? rows.shape[0] : 1;
  const auto bytes = static_cast<std::size_t>(matrix_of(rows) * batch * size_of(rows.dtype));
  return (bytes + kPlace - 1) / kPlace * kPlace;
}

/// Copies it there if it must be, and gives what to read instead.
Tensor aligned(const GemmArgs& args, const Tensor& operand, bool mn, std::byte*& scratch, bool draws,
               const EachStep& each) {
  if (!copied(operand, mn)) return operand;
  CopyRowsArgs copy{as_rows(operand, mn), {}, args.max_sms};
  copy.destination = copy.source;
  copy.destination.data = scratch;
  scratch += bytes_of(operand, mn);
  const auto down = static_cast<std::size_t>(operand.rank - 2);
  copy.destination.strides[down + 1] = 1;
  copy.destination.strides[down] = pitch_of(copy.source);
  if (operand.rank == 3) copy.destination.strides[0] = matrix_of(copy.source);
  each({&copy_rows_op(), &copy, copy_rows_kernel(draws)});
  return as_rows(copy.destination, mn);
}

const GemmTile& tile_of(const GemmChoice& choice) { return gemm_tiles()[static_cast<std::size_t>(choice.tile)]; }

std::size_t scale_bytes(const GemmArgs& args) {
  return gemm_scales(args) == Scales::tensor ? 0
                                             : bytes_of(*args.scale_a, gemm_scales_mn(args, false)) +
                                                   bytes_of(*args.scale_b, gemm_scales_mn(args, true));
}

}  // namespace

bool gemm_copied(const Tensor& operand) { return copied(operand, gemm_mn_major(operand)); }

// Operands are not read with alpha 0: the plan makes legal maps of them.
std::size_t gemm_copy_bytes(const GemmArgs& args, const GemmChoice& choice) {
  if (args.alpha == 0) return 0;
  const GemmTile& tile = tile_of(choice);
  const std::size_t left = tile.reads_left() ? 0 : bytes_of(args.a, gemm_mn_major(args.a)),
                    right = tile.reads ? 0 : bytes_of(args.b, gemm_mn_major(args.b));
  return left + right + scale_bytes(args);
}

void copy_gemm_operands(GemmArgs& args, const GemmChoice& choice, std::byte*& scratch, bool draws,
                        const EachStep& each) {
  if (gemm_copy_bytes(args, choice) == 0) return;
  const GemmTile& tile = tile_of(choice);
  if (!tile.reads_left()) args.a = aligned(args, args.a, gemm_mn_major(args.a), scratch, draws, each);
  if (!tile.reads) args.b = aligned(args, args.b, gemm_mn_major(args.b), scratch, draws, each);
  if (gemm_scales(args) == Scales::tensor) return;
  const bool left_mn = gemm_scales_mn(args, false), right_mn = gemm_scales_mn(args, true);
  args.scale_a = aligned(args, *args.scale_a, left_mn, scratch, draws, each);
  args.scale_b = aligned(args, *args.scale_b, right_mn, scratch, draws, each);
}

bool gemm_copies(const GemmConfig& config, const GemmChoice& choice) {
  const GemmTile& tile = tile_of(choice);
  const auto off = [&](std::int64_t rows, std::int64_t row) {
    return (rows > 1 || config.batch > 1) && row * size_of(config.dtype) % kCopyAlignmentBytes != 0;
  };
  const auto operand = [&](std::int64_t outer, bool mn) { return mn ? off(config.k, outer) : off(outer, config.k); };
  const auto scale = [&](std::int64_t outer, bool k) {
    const std::int64_t each = config.packed_scales ? gemm::kPackedBlocks : 1,
                       blocks = (gemm_scale_blocks(config.k) + each - 1) / each, row = k ? blocks : outer,
                       rows = k ? outer : blocks;
    return (rows > 1 || config.batch > 1) && row * size_of(DType::f32) % kCopyAlignmentBytes != 0;
  };
  const bool of_blocks = config.scales == Scales::block;
  const bool scales = config.scales != Scales::tensor && (scale(config.m, config.scale_a_transposed) ||
                                                          scale(of_blocks ? gemm_scale_blocks(config.n) : config.n,
                                                                of_blocks || config.scale_b_transposed));
  return scales || (!tile.reads_left() && operand(config.m, config.a_transposed)) ||
         (!tile.reads && operand(config.n, config.b_transposed));
}

}  // namespace tj::ops
