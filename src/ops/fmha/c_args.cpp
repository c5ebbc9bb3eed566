// The descriptor of fmha from its structure in tilejit.h.
#include "ops/fmha/fmha.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

FmhaArgs fmha_from_c(const void* structure) {
  const tj_fmha_args a = read(static_cast<const tj_fmha_args*>(structure), "args");
  FmhaArgs args;
  args.q = to_tensor(a.q, "q");
  args.k = to_tensor(a.k, "k");
  args.v = to_tensor(a.v, "v");
  args.o = to_tensor(a.o, "o");
  if (a.lse != nullptr) args.lse = to_tensor(a.lse, "lse");
  if (a.has_scale != 0) args.scale = a.scale;
  args.causal = a.causal != 0;
  args.max_sms = a.max_sms;
  if (a.has_window != 0) args.window = {a.window_left, a.window_right};
  args.top_left = a.top_left != 0;
  args.softcap = a.softcap;
  check_reserved(a.reserved);
  if (a.alibi_slopes != nullptr) args.alibi_slopes = to_tensor(a.alibi_slopes, "alibi_slopes");
  const auto optional = [](std::optional<Tensor>& into, const tj_tensor* from, const char* name) {
    if (from != nullptr) into = to_tensor(from, name);
  };
  optional(args.sinks, a.sinks, "sinks");
  optional(args.cu_seqlens_q, a.cu_seqlens_q, "cu_seqlens_q");
  optional(args.cu_seqlens_k, a.cu_seqlens_k, "cu_seqlens_k");
  optional(args.seqused_k, a.seqused_k, "seqused_k");
  optional(args.block_table, a.block_table, "block_table");
  optional(args.bias, a.bias, "bias");
  optional(args.mod_params, a.mod_params, "mod_params");
  if (a.score_mod != nullptr) args.score_mod = a.score_mod;
  if (a.mask_mod != nullptr) args.mask_mod = a.mask_mod;
  if (a.key_range != nullptr) args.key_range = a.key_range;
  return args;
}

}  // namespace tj::ops
