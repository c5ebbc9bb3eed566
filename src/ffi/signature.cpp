// See signature.hpp.
#include "ffi/signature.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "ffi/arguments.hpp"

namespace tj::ffi {
namespace {

// A row: the argument's name, its kind, the structure, its member.
#define TJ_NEEDED(kind, structure, member) \
  Parameter { #member, Kind::kind, false, offsetof(structure, member) }
#define TJ_OPTIONAL(kind, structure, member) \
  Parameter { #member, Kind::kind, true, offsetof(structure, member) }

template <class Structure>
constexpr Structure without_arguments() {
  Structure structure{};
  structure.size = sizeof(Structure);
  return structure;
}

constexpr tj_fmha_args kFmhaDefaults = [] {
  auto attention = without_arguments<tj_fmha_args>();
  attention.window_left = attention.window_right = -1;  // all keys, where only one of them is given
  return attention;
}();
constexpr Parameter kFmha[] = {
    TJ_NEEDED(read, tj_fmha_args, q),
    TJ_NEEDED(read, tj_fmha_args, k),
    TJ_NEEDED(read, tj_fmha_args, v),
    TJ_OPTIONAL(written, tj_fmha_args, o),
    TJ_OPTIONAL(written, tj_fmha_args, lse),
    TJ_OPTIONAL(flag, tj_fmha_args, causal),
    {"scale", Kind::real, true, offsetof(tj_fmha_args, scale), offsetof(tj_fmha_args, has_scale)},
    {"window_left", Kind::whole, true, offsetof(tj_fmha_args, window_left), offsetof(tj_fmha_args, has_window)},
    {"window_right", Kind::whole, true, offsetof(tj_fmha_args, window_right), offsetof(tj_fmha_args, has_window)},
    TJ_OPTIONAL(flag, tj_fmha_args, top_left),
    TJ_OPTIONAL(real, tj_fmha_args, softcap),
    TJ_OPTIONAL(read, tj_fmha_args, alibi_slopes),
    TJ_OPTIONAL(read, tj_fmha_args, sinks),
    TJ_OPTIONAL(read, tj_fmha_args, cu_seqlens_q),
    TJ_OPTIONAL(read, tj_fmha_args, cu_seqlens_k),
    TJ_OPTIONAL(read, tj_fmha_args, seqused_k),
    TJ_OPTIONAL(read, tj_fmha_args, block_table),
    TJ_OPTIONAL(read, tj_fmha_args, bias),
    TJ_OPTIONAL(text, tj_fmha_args, score_mod),
    TJ_OPTIONAL(text, tj_fmha_args, mask_mod),
    TJ_OPTIONAL(text, tj_fmha_args, key_range),
    TJ_OPTIONAL(read, tj_fmha_args, mod_params),
};

constexpr const char* kActivations[] = {"none", "relu", "gelu", "silu", "gelu_tanh"};
constexpr tj_gemm_args kGemmDefaults = [] {
  auto product = without_arguments<tj_gemm_args>();
  product.alpha = 1;
  return product;
}();
constexpr Parameter kGemm[] = {
    TJ_NEEDED(read, tj_gemm_args, a),
    TJ_NEEDED(read, tj_gemm_args, b),
    TJ_OPTIONAL(written, tj_gemm_args, d),
    TJ_OPTIONAL(read, tj_gemm_args, c),
    TJ_OPTIONAL(read, tj_gemm_args, bias),
    TJ_OPTIONAL(real, tj_gemm_args, alpha),
    TJ_OPTIONAL(real, tj_gemm_args, beta),
    {"activation", Kind::word, true, offsetof(tj_gemm_args, activation), 0, kActivations},
    TJ_OPTIONAL(read, tj_gemm_args, scale_a),
    TJ_OPTIONAL(read, tj_gemm_args, scale_b),
    {"gate", Kind::word, true, offsetof(tj_gemm_args, gate), 0, kActivations},
    TJ_OPTIONAL(flag, tj_gemm_args, gate_interleaved),
    TJ_OPTIONAL(written, tj_gemm_args, scale_d),
    TJ_OPTIONAL(flag, tj_gemm_args, powers_of_two),
    TJ_OPTIONAL(text, tj_gemm_args, end_text),
    TJ_OPTIONAL(read, tj_gemm_args, end_params),
};

constexpr tj_chunk_indices_args kChunkIndicesDefaults = without_arguments<tj_chunk_indices_args>();
constexpr Parameter kChunkIndices[] = {
    TJ_NEEDED(read, tj_chunk_indices_args, cu_seqlens),
    TJ_NEEDED(written, tj_chunk_indices_args, chunk_indices),
    TJ_NEEDED(written, tj_chunk_indices_args, total_chunks),
};

constexpr tj_chunk_o_args kChunkODefaults = without_arguments<tj_chunk_o_args>();
constexpr Parameter kChunkO[] = {
    TJ_NEEDED(read, tj_chunk_o_args, q),
    TJ_NEEDED(read, tj_chunk_o_args, k),
    TJ_NEEDED(read, tj_chunk_o_args, v_new),
    TJ_NEEDED(read, tj_chunk_o_args, h),
    TJ_OPTIONAL(written, tj_chunk_o_args, o),
    TJ_OPTIONAL(read, tj_chunk_o_args, g_cu),
    TJ_OPTIONAL(read, tj_chunk_o_args, cu_seqlens),
    TJ_OPTIONAL(read, tj_chunk_o_args, chunk_indices),
    TJ_OPTIONAL(read, tj_chunk_o_args, total_chunks),
    TJ_OPTIONAL(whole, tj_chunk_o_args, seq_length),
    {"scale", Kind::real, true, offsetof(tj_chunk_o_args, scale), offsetof(tj_chunk_o_args, has_scale)},
    TJ_OPTIONAL(flag, tj_chunk_o_args, h_transposed),
    TJ_OPTIONAL(count, tj_chunk_o_args, max_sms),
    TJ_OPTIONAL(count, tj_chunk_o_args, num_stages),
    TJ_OPTIONAL(flag, tj_chunk_o_args, evict_first),
};
#undef TJ_NEEDED
#undef TJ_OPTIONAL

void set_shape(tj_tensor& result, std::initializer_list<std::int64_t> shape) {
  result.rank = static_cast<std::int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), std::begin(result.shape));
}

void make_fmha(const Arguments& arguments, tj_tensor& o) {
  const bool varlen = arguments.tensor("cu_seqlens_q") != nullptr;
  const tj_tensor& q = arguments.with_rank("q", varlen ? 3 : 4, varlen ? 3 : 4);
  o.dtype = q.dtype;
  if (varlen) {
    const tj_tensor& v = arguments.with_rank("v", 3, 4);
    return set_shape(o, {q.shape[0], q.shape[1], v.shape[v.rank - 1]});
  }
  set_shape(o, {q.shape[0], q.shape[1], q.shape[2], arguments.with_rank("v", 4, 4).shape[3]});
}

void make_gemm(const Arguments& arguments, tj_tensor& d) {
  const tj_tensor& a = arguments.with_rank("a", 2, 3);
  const tj_tensor& b = arguments.with_rank("b", 2, 3);
  const tj_tensor *c = arguments.tensor("c"), *bias = arguments.tensor("bias");
  d.dtype = arguments.tensor("scale_d") != nullptr ? static_cast<std::int32_t>(TJ_E4M3)
            : c != nullptr                         ? c->dtype
            : bias != nullptr                      ? bias->dtype
            : a.dtype == TJ_E4M3                   ? static_cast<std::int32_t>(TJ_F32)
                                                   : a.dtype;
  const std::int64_t rows = a.shape[a.rank - 2],
                     columns = b.shape[b.rank - 2] / (arguments.number("gate") == TJ_ACTIVATION_NONE ? 1 : 2);
  const tj_tensor* batched = a.rank == 3 ? &a : b.rank == 3 ? &b : c != nullptr && c->rank == 3 ? c : nullptr;
  if (batched != nullptr)
    set_shape(d, {batched->shape[0], rows, columns});
  else
    set_shape(d, {rows, columns});
}

void make_chunk_o(const Arguments& arguments, tj_tensor& o) {
  const tj_tensor& q = arguments.with_rank("q", 3, 3);
  const tj_tensor& v_new = arguments.with_rank("v_new", 3, 3);
  o.dtype = q.dtype;
  set_shape(o, {q.shape[0], v_new.shape[1], v_new.shape[2]});
}

constexpr Signature kFmhaSignature = {"fmha", kFmha, &kFmhaDefaults, sizeof kFmhaDefaults, &kFmha[3], make_fmha};
constexpr Signature kGemmSignature = {"gemm", kGemm, &kGemmDefaults, sizeof kGemmDefaults, &kGemm[2], make_gemm};
constexpr Signature kChunkIndicesSignature = {"chunk_indices", kChunkIndices, &kChunkIndicesDefaults,
                                              sizeof kChunkIndicesDefaults};
constexpr Signature kChunkOSignature = {"chunk_o",   kChunkO,     &kChunkODefaults, sizeof kChunkODefaults,
                                        &kChunkO[4], make_chunk_o};

}  // namespace

const Parameter* Signature::find(std::string_view name) const noexcept {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const auto& row) { return row.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

const Signature& fmha_signature() noexcept { return kFmhaSignature; }
const Signature& gemm_signature() noexcept { return kGemmSignature; }
const Signature& chunk_indices_signature() noexcept { return kChunkIndicesSignature; }
const Signature& chunk_o_signature() noexcept { return kChunkOSignature; }

const Signature* signature_of(std::string_view op) noexcept {
#define TJ_COMPARE(name) \
  if (op == #name) return &name##_signature();
  TJ_FFI_OPS(TJ_COMPARE)
#undef TJ_COMPARE
  return nullptr;
}

}  // namespace tj::ffi
