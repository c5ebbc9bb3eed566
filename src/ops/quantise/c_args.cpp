// The descriptor of quantise from its structure in tilejit.h.
#include "ops/gemm/fields.hpp"
#include "ops/quantise/quantise.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

QuantiseArgs quantise_from_c(const void* structure) {
  const tj_quantise_args c = read(static_cast<const tj_quantise_args*>(structure), "args");
  QuantiseArgs args;
  args.x = to_tensor(c.x, "x");
  args.q = to_tensor(c.q, "q");
  args.scales = to_tensor(c.scales, "scales");
  if (c.row_indices != nullptr) args.row_indices = to_tensor(c.row_indices, "row_indices");
  args.gate = to_enum<Activation>(c.gate, TJ_ACTIVATION_GELU_TANH, "args.gate", kGemmActivationsAllowed);
  args.powers_of_two = c.powers_of_two != 0;
  args.max_sms = c.max_sms;
  args.transposed = c.transposed != 0;
  return args;
}

}  // namespace tj::ops
