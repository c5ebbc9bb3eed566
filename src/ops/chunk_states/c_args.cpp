// The descriptor of chunk_states from its structure in recurrence.h.
#include "ops/chunk_states/chunk_states.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

ChunkStatesArgs chunk_states_from_c(const void* structure) {
  const tj_chunk_states_args c = read(static_cast<const tj_chunk_states_args*>(structure), "args");
  check_reserved(c.reserved);
  ChunkStatesArgs args;
  args.k = to_tensor(c.k, "k");
  args.w = to_tensor(c.w, "w");
  args.u = to_tensor(c.u, "u");
  args.h = to_tensor(c.h, "h");
  if (c.v_new != nullptr) args.v_new = to_tensor(c.v_new, "v_new");
  if (c.g_cu != nullptr) args.g_cu = to_tensor(c.g_cu, "g_cu");
  if (c.initial_state != nullptr) args.initial_state = to_tensor(c.initial_state, "initial_state");
  if (c.final_state != nullptr) args.final_state = to_tensor(c.final_state, "final_state");
  if (c.cu_seqlens != nullptr) args.cu_seqlens = to_tensor(c.cu_seqlens, "cu_seqlens");
  args.state_transposed = c.state_transposed != 0;
  args.values_by_tokens = c.values_by_tokens != 0;
  args.max_sms = c.max_sms;
  return args;
}

}  // namespace tj::ops
