// Times at which a role comes to the marks of its unit. Included by units that record, after the arch file.
//
// Decides which thread writes and where a record goes. The arch has the clock and the store; the writer of the unit
// knows what a mark means (src/codegen/record.hpp). Does not wait for anything, and orders nothing. Invariant: one
// thread of a role writes, into the places of its own warp and of its own block. When these are full it writes no more.
#pragma once

namespace tj::dev {

/// The place of records, and the blocks that write some: src/codegen/record.hpp has the same for the host. A record is
/// two words, the mark and its number above, the clock below.
struct Records {
  u64 buffer;       ///< address in global memory, zeros at the begin
  u32 first_block;  ///< blocks first_block to first_block + blocks - 1 write
  u32 blocks;
  u32 warps;       ///< places of a block: each has its own, be they used or not
  u32 warp_bytes;  ///< places of a warp, a power of two
};

inline constexpr u32 kNoRecord = ~0u;
inline constexpr u32 kRecordBytes = 8, kNumberBits = 20;

/// Offset of this thread's first record; kNoRecord where it writes none.
TJ_DEVICE u32 record_begin(const Records& records, u32 warp, bool writes) {
  const u32 block = block_index() - records.first_block;  // far above, where it comes before
  return writes && block < records.blocks ? (block * records.warps + warp) * records.warp_bytes : kNoRecord;
}

/// All threads of the role come here together; nothing branches, so that the role's matrix instructions stay one
/// pipeline.
template <int Mark>
TJ_DEVICE void record(const Records& records, u32& next, int number) {
  const u32 time = clock_now();
  const bool writes = next != kNoRecord;
  store_record(records.buffer + next,
               static_cast<u32>(Mark) << kNumberBits | (static_cast<u32>(number) & ((1u << kNumberBits) - 1u)), time,
               writes);
  const u32 behind = next + kRecordBytes;
  next = writes && (behind & (records.warp_bytes - 1u)) != 0 ? behind : kNoRecord;
}

}  // namespace tj::dev
