// The descriptor of gemm from its structure in tilejit.h.
#include "ops/gemm/fields.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

GemmArgs gemm_from_c(const void* structure) {
  const tj_gemm_args g = read(static_cast<const tj_gemm_args*>(structure), "args");
  check_reserved(g.reserved);
  GemmArgs args;
  args.a = to_tensor(g.a, "a");
  args.b = to_tensor(g.b, "b");
  args.d = to_tensor(g.d, "d");
  if (g.c != nullptr) args.c = to_tensor(g.c, "c");
  if (g.bias != nullptr) args.bias = to_tensor(g.bias, "bias");
  if (g.scale_a != nullptr) args.scale_a = to_tensor(g.scale_a, "scale_a");
  if (g.scale_b != nullptr) args.scale_b = to_tensor(g.scale_b, "scale_b");
  args.alpha = g.alpha;
  args.beta = g.beta;
  args.activation =
      to_enum<Activation>(g.activation, TJ_ACTIVATION_GELU_TANH, "args.activation", kGemmActivationsAllowed);
  args.max_sms = g.max_sms;
  args.gate = to_enum<Activation>(g.gate, TJ_ACTIVATION_GELU_TANH, "args.gate", kGemmActivationsAllowed);
  args.gate_interleaved = g.gate_interleaved != 0;
  if (g.scale_d != nullptr) args.scale_d = to_tensor(g.scale_d, "scale_d");
  args.powers_of_two = g.powers_of_two != 0;
  if (g.end_text != nullptr) args.end_text = g.end_text;
  if (g.end_params != nullptr) args.end_params = to_tensor(g.end_params, "end_params");
  return args;
}

}  // namespace tj::ops
