// The launches that serve a matrix product; see steps.hpp.
//
// Decides their order and where in scratch memory each finds what it reads. Invariant: sums of parts are added in the
// order of the parts, so equal calls give equal bits.
#include "ops/gemm/steps.hpp"

#include "ops/copy_rows/copy_rows.hpp"
#include "ops/sum_parts/sum_parts.hpp"

namespace tj::ops {
namespace {

constexpr std::int64_t kRowFloats = 4;  // rows of sums begin at multiples of 16 bytes
constexpr std::size_t kPlace = 256;

std::int64_t blocks_of(const GemmSizes& sizes, const GemmChoice& choice) {
  const std::int64_t block = gemm_tiles()[static_cast<std::size_t>(choice.tile)].block_k;
  return (sizes.k + block - 1) / block;
}

/// Sums of all parts: those of one batch behind each other, then the next part.
Tensor sums_of(const GemmArgs& args, int parts, void* data) {
  const GemmSizes sizes = gemm_sizes(args);
  const std::int64_t pitch = (sizes.n + kRowFloats - 1) / kRowFloats * kRowFloats;
  return Tensor::strided(data, args.d.device, DType::f32, {parts * sizes.batch, sizes.m, sizes.n},
                         {sizes.m * pitch, pitch, 1});
}

std::size_t sum_bytes(const GemmArgs& args, const GemmChoice& choice) {
  const Tensor sums = sums_of(args, gemm_parts(args, choice), nullptr);
  return static_cast<std::size_t>(sums.shape[0] * sums.strides[0]) * sizeof(float);
}

/// Do the other launches draw their tiles, too? They obey max_sms as the product's does.
bool draws(const GemmArgs& args, const Kernel& kernel) {
  return args.max_sms > 0 && GemmChoice::of(kernel.choice).walk == WalkChoice::dynamic;
}

void in_parts(const GemmArgs& args, const Kernel& kernel, void* scratch, const EachStep& each) {
  const int parts = gemm_parts(args, GemmChoice::of(kernel.choice));
  GemmArgs ends = args;  // scales of blocks are the product's
  const bool blocks = gemm_scales(args) != Scales::tensor;
  if (blocks) ends.scale_a.reset(), ends.scale_b.reset();
  const SumPartsArgs sum{ends, sums_of(args, parts, scratch), parts};
  if (parts > 0) {
    GemmArgs product;
    product.a = args.a;
    product.b = args.b;
    product.d = sum.sums;
    product.max_sms = args.max_sms;
    if (blocks) product.scale_a = args.scale_a, product.scale_b = args.scale_b;
    each({&gemm_op(), &product, kernel});
  }
  each({&sum_parts_op(), &sum, {sum_parts_small_key(args.d.dtype, draws(args, kernel), args.end_text)}});
}

}  // namespace

int gemm_parts(const GemmArgs& args, const GemmChoice& choice) {
  if (args.alpha == 0) return 0;
  const std::int64_t blocks = blocks_of(gemm_sizes(args), choice), each = gemm_part_blocks(blocks, choice.parts);
  return static_cast<int>((blocks + each - 1) / each);
}

std::int64_t gemm_part_blocks(std::int64_t k_blocks, int parts) { return (k_blocks + parts - 1) / parts; }

bool gemm_in_steps(const GemmArgs& args, const GemmChoice& choice) {
  return choice.parts > 1 || gemm_copy_bytes(args, choice) > 0;
}

std::size_t gemm_scratch_bytes(const GemmArgs& args, const GemmChoice& choice) {
  return gemm_copy_bytes(args, choice) +
         (choice.parts > 1 ? (sum_bytes(args, choice) + kPlace - 1) / kPlace * kPlace : 0);
}

void gemm_steps(const GemmArgs& args, const Kernel& kernel, void* scratch, const EachStep& each) {
  GemmArgs of_copies = args;
  auto* next = static_cast<std::byte*>(scratch);
  copy_gemm_operands(of_copies, GemmChoice::of(kernel.choice), next, draws(args, kernel), each);
  if (GemmChoice::of(kernel.choice).parts > 1) return in_parts(of_copies, kernel, next, each);
  each({&gemm_op(), &of_copies, kernel});
}

std::vector<NeededKernel> gemm_needed_kernels(const GemmConfig& config, const Kernel& kernel) {
  std::vector<NeededKernel> list;
  const GemmChoice choice = GemmChoice::of(kernel.choice);
  if (gemm_copies(config, choice)) list.push_back({&copy_rows_op(), {}});
  if (choice.parts > 1) list.push_back({&sum_parts_op(), {sum_parts_small_key(config.out, false, config.end_text)}});
  list.push_back({&gemm_op(), kernel});
  return list;
}

}  // namespace tj::ops
