// The descriptor of combine from its structure in experts.h.
#include "ops/combine/combine.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

CombineArgs combine_from_c(const void* structure) {
  const tj_combine_args c = read(static_cast<const tj_combine_args*>(structure), "args");
  check_reserved(c.reserved);
  CombineArgs args;
  args.y = to_tensor(c.y, "y");
  args.d = to_tensor(c.d, "d");
  args.slots = to_tensor(c.slots, "slots");
  if (c.weights != nullptr) args.weights = to_tensor(c.weights, "weights");
  if (c.residual != nullptr) args.residual = to_tensor(c.residual, "residual");
  args.max_sms = c.max_sms;
  return args;
}

}  // namespace tj::ops
