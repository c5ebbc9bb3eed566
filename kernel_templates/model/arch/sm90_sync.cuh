// Primitives that came with sm_90 and stayed, on the CPU: the names, signatures and meanings of the device's file, for
// the CPU model.
//
// Decides nothing: the library's model synchronises. Included by the files of archs that have them, after
// arch/nvidia.cuh.
#pragma once

namespace tj::dev {

/// True in exactly one lane of a converged warp.
TJ_DEVICE bool elect_one() { return detail::api.elect() != 0; }

// ---- grids of one stream: they run one after the other --------------------------------------------------------------
TJ_DEVICE void next_grid_may_start() {}
TJ_DEVICE void wait_for_grids_before() { detail::api.grids_before(0); }
TJ_DEVICE void go_beside_grid_before() { detail::api.grids_before(0); }
template <int Site>
TJ_DEVICE void wait_for_grids_before() {
  detail::api.grids_before(Site);
}

// ---- mbarriers ------------------------------------------------------------------------------------------------------
/// After all inits, before the block_sync that publishes them: makes them visible to the copy engine too.
TJ_DEVICE void mbarrier_init_done() { detail::api.mbarrier_init_done(0); }
template <int Site>
TJ_DEVICE void mbarrier_init_done() {
  detail::api.mbarrier_init_done(Site);
}
/// One arrival that also announces `bytes` of copies.
template <int Site>
TJ_DEVICE void mbarrier_expect(u32 barrier, u32 bytes) {
  detail::api.mbarrier_expect(Site, barrier, bytes);
}
/// Returns once the phase with this parity has completed.
template <int Site>
TJ_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  detail::api.mbarrier_wait(Site, barrier, parity, TJ_MODEL_PARITY);
}
/// Waits for a phase by its number, counted from 0; the phase before the first has completed.
template <int Site>
TJ_DEVICE void mbarrier_wait_phase(u32 barrier, u32 phase) {
  detail::api.mbarrier_wait(Site, barrier, phase, TJ_MODEL_NUMBER);
}
template <int Site>
TJ_DEVICE bool mbarrier_phase_done(u32 barrier, u32 phase) {
  return detail::api.mbarrier_wait(Site, barrier, phase, TJ_MODEL_ASK) != 0;
}
/// Orders this thread's ordinary shared-memory writes before later reads by the copy engine and the matrix unit.
template <int Site>
TJ_DEVICE void proxy_fence() {
  detail::api.proxy_fence(Site);
}

// ---- clusters: blocks that run together and reach into each other's shared memory ---------------
/// This block's place in its cluster.
TJ_DEVICE u32 cluster_rank() { return detail::api.self()->cluster_rank; }
/// All threads of all blocks of the cluster that have not ended. Barriers whose initialisation mbarrier_init_done has
/// announced are seen after it; it orders no other memory.
template <int Site>
TJ_DEVICE void cluster_sync() {
  detail::api.cluster_sync(Site, 0);
}
/// A cluster_sync after which what each thread has done before comes before what all do after.
template <int Site>
TJ_DEVICE void cluster_sync_all() {
  detail::api.cluster_sync(Site, 1);
}
/// An arrival on the barrier that lies at this address in the block of that rank: says that this thread's reads are
/// done. It does not order what the thread has written.
template <int Site>
TJ_DEVICE void mbarrier_arrive_at(u32 barrier, u32 rank) {
  detail::api.mbarrier_arrive_at(Site, barrier, rank);
}
template <int Site>
TJ_DEVICE void mbarrier_arrive_at_if(bool whether, u32 barrier, u32 rank) {
  if (whether) mbarrier_arrive_at<Site>(barrier, rank);
}

/// A word to the same address in the block of that rank, some time later: it completes 4 bytes on the barrier that lies
/// at that address there. Who has waited for the barrier sees the word.
template <int Site>
TJ_DEVICE void store_shared_at(u32 address, u32 word, u32 barrier, u32 rank) {
  detail::api.store_shared_at(Site, address, &word, 4, barrier, rank);
}
/// The same of four words at a multiple of 16; they complete 16 bytes.
TJ_DEVICE void store_shared_at(u32 address, const float (&four)[4], u32 barrier, u32 rank) {
  detail::api.store_shared_at(0, address, four, 16, barrier, rank);
}

// ---- registers of a role (executed by every warp of a warpgroup) --------------------------------
template <int Site, int Registers>
TJ_DEVICE void registers_shrink() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0, "24 to 256 in steps of 8");
  detail::api.registers(Site, Registers, 0);
}
template <int Site, int Registers>
TJ_DEVICE void registers_grow() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0, "24 to 256 in steps of 8");
  detail::api.registers(Site, Registers, 1);
}

// ---- matrices to shared memory ------------------------------------------------------------------
/// Four 8x8 matrices of 16-bit elements: the fragments of a matrix instruction. Lane l gives the address of row l % 8
/// of matrix l / 8. It holds, in words[m], elements 2(l % 4) and on of row l / 4 of matrix m. Rows are 16 bytes.
TJ_DEVICE void store_matrices(u32 address, const u32 (&words)[4]) {
  for (u32 m = 0; m < 4; ++m) {
    const u32 row = detail::api.shuffle(address, 8 * m + lane_index() / 4);
    store_shared(row + lane_index() % 4 * 4, words[m]);
  }
}
/// The same with each matrix transposed: lane l gives the address of column l % 8 of matrix l / 8.
TJ_DEVICE void store_matrices_transposed(u32 address, const u32 (&words)[4]) {
  for (u32 m = 0; m < 4; ++m) {
    for (u32 e = 0; e < 2; ++e) {
      const u32 column = detail::api.shuffle(address, 8 * m + lane_index() % 4 * 2 + e);
      const auto half = static_cast<unsigned short>(words[m] >> 16 * e);
      detail::api.shared_store(column + lane_index() / 4 * 2, &half, 2);
    }
  }
}
/// The fragment of an 8x8 matrix of 16-bit elements that is the given one's transpose.
TJ_DEVICE u32 transpose_matrix(u32 word) {
  const u32 row = lane_index() / 4, first = lane_index() % 4 * 2;
  u32 transposed = 0;
  for (u32 e = 0; e < 2; ++e) {
    const u32 pair = detail::api.shuffle(word, 4 * (first + e) + row / 2);
    transposed |= (pair >> 16 * (row % 2) & 0xffffu) << 16 * e;
  }
  return transposed;
}

}  // namespace tj::dev
