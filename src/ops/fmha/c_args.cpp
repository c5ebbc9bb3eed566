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
  return args;
}

}  // namespace tj::ops
