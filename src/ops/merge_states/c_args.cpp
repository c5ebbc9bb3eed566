// The descriptor of merge_states from its structure in tilejit.h.
#include "ops/merge_states/merge_states.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

MergeStatesArgs merge_states_from_c(const void* structure) {
  const tj_merge_states_args c = read(static_cast<const tj_merge_states_args*>(structure), "args");
  check_reserved(c.reserved);
  MergeStatesArgs args;
  args.states = to_tensor(c.states, "states");
  args.lse_states = to_tensor(c.lse_states, "lse_states");
  args.o = to_tensor(c.o, "o");
  if (c.lse != nullptr) args.lse = to_tensor(c.lse, "lse");
  if (c.cu_seqlens != nullptr) args.cu_seqlens = to_tensor(c.cu_seqlens, "cu_seqlens");
  args.max_sms = c.max_sms;
  return args;
}

}  // namespace tj::ops
