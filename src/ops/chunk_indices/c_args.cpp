// The descriptor of chunk_indices from its structure in tilejit.h.
#include <cstddef>

#include "ops/chunk_indices/chunk_indices.hpp"
#include "support/c_structs.hpp"

namespace tj::ops {

using namespace support::c_structs;

ChunkIndicesArgs chunk_indices_from_c(const void* structure) {
  const tj_chunk_indices_args c =
      read(static_cast<const tj_chunk_indices_args*>(structure), "args", {}, offsetof(tj_chunk_indices_args, max_sms));
  check_reserved(c.reserved);
  return {to_tensor(c.cu_seqlens, "cu_seqlens"), to_tensor(c.chunk_indices, "chunk_indices"),
          to_tensor(c.total_chunks, "total_chunks"), c.max_sms};
}

}  // namespace tj::ops
