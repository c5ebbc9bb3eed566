// See checks.hpp.
#include "ops/gemm/checks.hpp"

#include "ops/common/block_scales.hpp"
#include "ops/common/empty.hpp"
#include "ops/gemm/fields.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"
#include "support/fail.hpp"

namespace tj::ops {

using support::cat;

void check_gemm_types(const char* op, DType dtype, DType out, const char* dtype_name, const char* out_name) {
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::e4m3)
    refuse(op, Code::unsupported, cat(dtype_name, " is ", to_string(dtype), "; allowed: f16, bf16, e4m3"));
  if (out != DType::f16 && out != DType::bf16 && out != DType::f32 && out != DType::e4m3)
    refuse(op, Code::unsupported,
           cat(out_name, " is ", to_string(out), "; allowed: f16, bf16, f32, or e4m3 with scales of its own"));
}

void check_gemm_activation(const char* op, Activation activation, const char* name) {
  if (activation < Activation::none || activation > Activation::gelu_tanh)
    refuse(op, Code::invalid_argument,
           cat(name, " is ", static_cast<int>(activation), "; allowed: ", kGemmActivationsAllowed));
}

void check_gemm_gate(const char* op, Activation activation, bool add_c, std::int64_t n) {
  if (activation != Activation::none)
    refuse(op, Code::unsupported,
           cat("activation is ", static_cast<int>(activation), "; allowed with a gate: 0 (none)"));
  if (add_c) refuse(op, Code::unsupported, "beta is not 0; allowed with a gate: 0");
  if (n % 2 != 0)
    refuse(op, Code::invalid_argument, cat("N (rows of b) is ", n, "; allowed with a gate: even numbers"));
}

void check_gemm_gate_operands(const GemmArgs& product, const Named& b) {
  const Size n = b.at(b.rank - 2);
  if (is_empty(b.tensor)) return;
  if (gemm_mn_major(b.tensor))
    refuse(b.op, Code::unsupported,
           cat("b.strides[", b.rank - 1, "] (K) is ", b.stride(b.rank - 1), "; allowed with a gate: 1"));
  const Scales scales = gemm_scales(product);
  if (scales == Scales::tensor) return;
  if (product.gate_interleaved)
    refuse(b.op, Code::unsupported, "gate_interleaved is true; allowed with scales of blocks: false");
  // Scales of each half are a dimension of a map, and begin at multiples of 16 bytes.
  const Size step = scales == Scales::block ? gemm::kScaledElements : gemm_scales_mn(product, true) ? 4 : 1;
  if (n / 2 % step != 0)
    refuse(b.op, Code::unsupported,
           cat("b.shape[", b.rank - 2, "] is ", n, "; allowed with a gate and ",
               scales == Scales::block ? "scales of 128 rows of b" : "scales that are contiguous in N",
               ": multiples of ", 2 * step));
}

void check_block_scales(const char* name, const Tensor& tensor, const Named& operand, std::int64_t rows,
                        std::int64_t blocks, std::int64_t k_blocks, DType type, const Named& d, const Range& d_range) {
  static constexpr const char* kAxes[] = {"B", "rows", "blocks of K"};
  const int rank = operand.rank;
  const Named scale{operand.op,
                    name,
                    tensor,
                    kAxes + 3 - rank,
                    rank,
                    blocks > 0 ? "[ceil(N / 128), ceil(K / 128)] or [N, ceil(K / 128)], with b's batch"
                               : "[M, ceil(K / 128)], with a's batch"};
  check_form(scale, kAllAxes);
  const bool packed = type == DType::i32;
  if (type != DType::f32 && !packed)
    refuse(
        operand.op, Code::invalid_argument,
        cat(name, ".dtype is ", to_string(tensor.dtype), "; allowed: f32, or i32 (four exponents of 8 bits in each)"));
  check_dtype(scale, type, blocks > 0 ? ", as scale_a.dtype" : "");
  check_device(scale, operand.tensor.device, operand.name);
  const int down = rank - 2, across = rank - 1;
  if (rank == 3) check_same(scale, 0, operand.at(0), cat(operand.name, ".shape[0]").c_str());
  if (scale.at(down) != rows && scale.at(down) != blocks)
    refuse(operand.op, Code::invalid_argument,
           cat(name, ".shape[", down, "] is ", scale.at(down), "; allowed: ", rows,
               blocks > 0 ? cat(" (N), or ", blocks, " (ceil(N / 128))") : " (M)"));
  constexpr std::int64_t kPacked = gemm::kPackedBlocks;
  check_same(scale, across, packed ? (k_blocks + kPacked - 1) / kPacked : k_blocks,
             packed ? "ceil(K / 512), of i32" : "ceil(K / 128)");
  const bool of_blocks = blocks > 0 && (rows == 1 || scale.at(down) != rows),
             row = scale.at(down) == 1 || scale.stride(down) == 1;
  if (!is_empty(tensor) && scale.at(across) > 1 && scale.stride(across) != 1 && (of_blocks || !row))
    refuse(operand.op, Code::unsupported,
           cat(name, ".strides are ", scale.stride(down), " and ", scale.stride(across), "; allowed: 1 for ",
               of_blocks ? "the last dimension" : "one of them", " (make a contiguous copy)"));
  check_strides(scale, size_of(DType::f32), !of_blocks && gemm_mn_major(tensor) ? down : across);
  check_alignment(scale, size_of(DType::f32));
  check_apart(d, d_range, scale, range_of(scale));
}

void check_gemm_quantised(const char* op, const GemmArgs& product) {
  const bool wanted = product.d.dtype == DType::e4m3;
  if (wanted != product.scale_d.has_value())
    refuse(op, Code::invalid_argument,
           wanted ? std::string("d.dtype is e4m3 and scale_d is absent; allowed: f16, bf16, f32, or e4m3 with scale_d")
                  : cat("scale_d is given with d.dtype ", to_string(product.d.dtype), "; allowed with e4m3"));
  if (wanted && product.beta != 0)
    refuse(op, Code::unsupported, cat("beta is ", product.beta, "; allowed with d of e4m3: 0"));
}

void check_gemm_scale_d(const GemmArgs& product, const Named& d, const Range& d_range) {
  static constexpr const char* kAxes[] = {"B", "rows", "blocks of N"};
  if (!product.scale_d) return;
  const Named scale{d.op,
                    "scale_d",
                    *product.scale_d,
                    kAxes + 3 - d.rank,
                    d.rank,
                    "[M, ceil(N / 128)] of d, or of i32 [M, ceil(N / 512)], with d's batch"};
  check_form(scale, kAllAxes);
  if (scale.tensor.dtype != DType::i32) check_dtype(scale, DType::f32, ", or i32 with powers_of_two");
  if (scale.tensor.dtype == DType::i32 && !product.powers_of_two)
    refuse(d.op, Code::invalid_argument,
           "scale_d.dtype is i32 (exponents) and powers_of_two is false; allowed: f32, or true");
  check_device(scale, d.tensor.device, "d");
  const int across = d.rank - 1;
  for (int axis = 0; axis < across; ++axis) check_same(scale, axis, d.at(axis), "d's shape");
  check_same(scale, across, scale_words(d.at(across), scale.tensor.dtype),
             scale.tensor.dtype == DType::i32 ? "ceil(N / 512) of d's N, of i32" : "ceil(N / 128) of d's N");
  check_strides(scale, size_of(DType::f32), -1);
  check_alignment(scale, size_of(DType::f32));
  check_no_self_overlap(scale);
  const Range range = range_of(scale);
  check_apart(d, d_range, scale, range);
  const auto apart = [&](const char* name, const Tensor& tensor) {
    const Named other{d.op, name, tensor, nullptr, tensor.rank, ""};
    check_apart(scale, range, other, range_of(other));
  };
  apart("a", product.a);
  apart("b", product.b);
  if (product.bias) apart("bias", *product.bias);
  if (product.scale_a) apart("scale_a", *product.scale_a);
  if (product.scale_b) apart("scale_b", *product.scale_b);
}

}  // namespace tj::ops
