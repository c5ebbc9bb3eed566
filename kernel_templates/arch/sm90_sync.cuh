// Primitives that came with sm_90 and stayed: barriers that count bytes, clusters, grids that overlap. The model has
// the same names.
//
// Decides which instruction serves which primitive; no op and no schedule. Included by the files of archs that have
// them, after arch/nvidia.cuh. Invariant: nothing here needs a target with a suffix but the registers of a role.
// Source: PTX ISA 8.7, "mbarrier", "barrier.cluster", "griddepcontrol", "setmaxnreg".
#pragma once

namespace tj::dev {

/// True in exactly one lane of a converged warp.
TJ_DEVICE bool elect_one() {
  u32 chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(chosen));
  return chosen != 0;
}

// ---- grids of one stream --------------------------------------------------------------------------------------------
/// Blocks of the next grid may take the places that this grid's leave. Their work before they wait runs beside this
/// grid.
TJ_DEVICE void next_grid_may_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
/// Returns once the grids before have completed and all that they wrote is visible. Nothing of global memory but the
/// launch's parameters may be touched earlier: those grids may still read what this one writes.
TJ_DEVICE void wait_for_grids_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// This grid touches nothing that the grid before it writes, and so does not wait.
TJ_DEVICE void go_beside_grid_before() {}
template <int Site>
TJ_DEVICE void wait_for_grids_before() {
  wait_for_grids_before();
}

// ---- mbarriers ------------------------------------------------------------------------------------------------------
/// After all inits, before the block_sync that publishes them: makes them visible to the copy engine too.
TJ_DEVICE void mbarrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
template <int Site>
TJ_DEVICE void mbarrier_init_done() {
  mbarrier_init_done();
}
/// One arrival that also announces `bytes` of copies.
template <int Site>
TJ_DEVICE void mbarrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Returns once the phase with this parity has completed.
template <int Site>
TJ_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nTJ_WAIT_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra TJ_WAIT_%=;\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
/// Waits for a phase by its number, counted from 0; the phase before the first has completed.
template <int Site>
TJ_DEVICE void mbarrier_wait_phase(u32 barrier, u32 phase) {
  mbarrier_wait<Site>(barrier, phase & 1u);
}
/// Has that phase completed? If so, what came before it is seen, as after the wait with this site.
template <int Site>
TJ_DEVICE bool mbarrier_phase_done(u32 barrier, u32 phase) {
  u32 done;
  asm volatile(
      "{\n.reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}\n"
      : "=r"(done)
      : "r"(barrier), "r"(phase & 1u)
      : "memory");
  return done != 0;
}
/// Orders this thread's ordinary shared-memory writes before later reads by the copy engine and the matrix unit.
template <int Site>
TJ_DEVICE void proxy_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- clusters: blocks that run together and reach into each other's shared memory ---------------
/// This block's place in its cluster.
TJ_DEVICE u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// All threads of all blocks of the cluster that have not ended. Barriers whose initialisation mbarrier_init_done has
/// announced are seen after it; it orders no other memory.
template <int Site>
TJ_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
/// A cluster_sync that also orders everything: what each thread has done before comes before what all do after.
template <int Site>
TJ_DEVICE void cluster_sync_all() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
/// An arrival on the barrier that lies at this address in the block of that rank: says that this thread's reads are
/// done. It does not order what the thread has written. No release at the cluster's scope: it is a memory barrier
/// before each arrival, and made products half as fast as they are.
template <int Site>
TJ_DEVICE void mbarrier_arrive_at(u32 barrier, u32 rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// The same of threads for which `whether` holds, without a branch.
template <int Site>
TJ_DEVICE void mbarrier_arrive_at_if(bool whether, u32 barrier, u32 rank) {
  asm volatile(
      "{\n.reg .pred now;\n.reg .b32 there;\nsetp.ne.b32 now, %2, 0;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "@now mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank), "r"(static_cast<u32>(whether))
      : "memory");
}

/// A word to the same address in the block of that rank, some time later: it completes 4 bytes on the barrier that lies
/// at that address there. Who has waited for the barrier sees the word. The grid has clusters of several blocks: in
/// another one an H200 stops with an illegal instruction.
template <int Site>
TJ_DEVICE void store_shared_at(u32 address, u32 word, u32 barrier, u32 rank) {
  asm volatile(
      "{\n.reg .b32 place, there;\nmapa.shared::cluster.u32 place, %0, %3;\nmapa.shared::cluster.u32 there, %2, %3;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [place], %1, [there];\n}\n" ::"r"(address),
      "r"(word), "r"(barrier), "r"(rank)
      : "memory");
}

/// The same of four words at a multiple of 16; they complete 16 bytes.
TJ_DEVICE void store_shared_at(u32 address, const float (&four)[4], u32 barrier, u32 rank) {
  asm volatile(
      "{\n.reg .b32 place, there;\nmapa.shared::cluster.u32 place, %0, %6;\nmapa.shared::cluster.u32 there, %5, %6;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [place], {%1, %2, %3, %4}, [there];\n}\n" ::"r"(
          address),
      "f"(four[0]), "f"(four[1]), "f"(four[2]), "f"(four[3]), "r"(barrier), "r"(rank)
      : "memory");
}

// ---- registers of a role (executed by every warp of a warpgroup) --------------------------------
template <int Site, int Registers>
TJ_DEVICE void registers_shrink() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Site, int Registers>
TJ_DEVICE void registers_grow() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// ---- matrices to shared memory ------------------------------------------------------------------
/// Four 8x8 matrices of 16-bit elements: the fragments of a matrix instruction. Lane l gives the address of row l % 8
/// of matrix l / 8. It holds, in words[m], elements 2(l % 4) and on of row l / 4 of matrix m. Rows are 16 bytes.
TJ_DEVICE void store_matrices(u32 address, const u32 (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
/// The same with each matrix transposed: lane l gives the address of column l % 8 of matrix l / 8.
TJ_DEVICE void store_matrices_transposed(u32 address, const u32 (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
/// The fragment of an 8x8 matrix of 16-bit elements that is the given one's transpose.
TJ_DEVICE u32 transpose_matrix(u32 word) {
  u32 transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
  return transposed;
}

}  // namespace tj::dev
