// The descriptor of chunk_o from its structure in tilejit.h.
#include "ops/chunk_o/chunk_o.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

ChunkOArgs chunk_o_from_c(const void* structure) {
  const tj_chunk_o_args c = read(static_cast<const tj_chunk_o_args*>(structure), "args");
  ChunkOArgs args;
  args.q = to_tensor(c.q, "q");
  args.k = to_tensor(c.k, "k");
  args.v_new = to_tensor(c.v_new, "v_new");
  args.h = to_tensor(c.h, "h");
  args.o = to_tensor(c.o, "o");
  if (c.g_cu != nullptr) args.g_cu = to_tensor(c.g_cu, "g_cu");
  if (c.cu_seqlens != nullptr) args.cu_seqlens = to_tensor(c.cu_seqlens, "cu_seqlens");
  if (c.chunk_indices != nullptr) args.chunk_indices = to_tensor(c.chunk_indices, "chunk_indices");
  if (c.total_chunks != nullptr) args.total_chunks = to_tensor(c.total_chunks, "total_chunks");
  args.seq_length = c.seq_length;
  if (c.has_scale != 0) args.scale = c.scale;
  args.h_transposed = c.h_transposed != 0;
  args.max_sms = c.max_sms;
  args.num_stages = c.num_stages;
  args.evict_first = c.evict_first != 0;
  return args;
}

}  // namespace tj::ops
