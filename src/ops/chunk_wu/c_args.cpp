// The descriptor of chunk_wu from its structure in recurrence.h.
#include "ops/chunk_wu/chunk_wu.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

ChunkWuArgs chunk_wu_from_c(const void* structure) {
  const tj_chunk_wu_args c = read(static_cast<const tj_chunk_wu_args*>(structure), "args");
  check_reserved(c.reserved);
  ChunkWuArgs args;
  args.k = to_tensor(c.k, "k");
  args.v = to_tensor(c.v, "v");
  args.a = to_tensor(c.a, "a");
  args.w = to_tensor(c.w, "w");
  args.u = to_tensor(c.u, "u");
  if (c.beta != nullptr) args.beta = to_tensor(c.beta, "beta");
  if (c.g_cu != nullptr) args.g_cu = to_tensor(c.g_cu, "g_cu");
  if (c.cu_seqlens != nullptr) args.cu_seqlens = to_tensor(c.cu_seqlens, "cu_seqlens");
  args.max_sms = c.max_sms;
  return args;
}

}  // namespace tj::ops
