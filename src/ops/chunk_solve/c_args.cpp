// The descriptor of chunk_solve from its structure in recurrence.h.
#include "ops/chunk_solve/chunk_solve.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

ChunkSolveArgs chunk_solve_from_c(const void* structure) {
  const tj_chunk_solve_args c = read(static_cast<const tj_chunk_solve_args*>(structure), "args");
  check_reserved(c.reserved);
  ChunkSolveArgs args;
  args.k = to_tensor(c.k, "k");
  args.a = to_tensor(c.a, "a");
  if (c.beta != nullptr) args.beta = to_tensor(c.beta, "beta");
  if (c.g_cu != nullptr) args.g_cu = to_tensor(c.g_cu, "g_cu");
  if (c.cu_seqlens != nullptr) args.cu_seqlens = to_tensor(c.cu_seqlens, "cu_seqlens");
  args.max_sms = c.max_sms;
  return args;
}

}  // namespace tj::ops
