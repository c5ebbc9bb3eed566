// The descriptor of chunk_cumsum from its structure in recurrence.h.
#include "ops/chunk_cumsum/chunk_cumsum.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

ChunkCumsumArgs chunk_cumsum_from_c(const void* structure) {
  const tj_chunk_cumsum_args c = read(static_cast<const tj_chunk_cumsum_args*>(structure), "args");
  ChunkCumsumArgs args;
  args.gate = to_tensor(c.gate, "gate");
  args.g_cu = to_tensor(c.g_cu, "g_cu");
  if (c.a_log != nullptr) args.a_log = to_tensor(c.a_log, "a_log");
  if (c.dt_bias != nullptr) args.dt_bias = to_tensor(c.dt_bias, "dt_bias");
  if (c.cu_seqlens != nullptr) args.cu_seqlens = to_tensor(c.cu_seqlens, "cu_seqlens");
  args.gate_form = to_enum<GateForm>(c.gate_form, TJ_GATE_RAW, "args.gate_form", "0 (log), 1 (exp), 2 (raw)");
  args.max_sms = c.max_sms;
  return args;
}

}  // namespace tj::ops
