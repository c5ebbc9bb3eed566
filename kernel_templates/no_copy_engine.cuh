// Stand-ins for archs without a copy engine, clusters and registers that move. Some primitives have nothing to do.
// Others, which the archs lack, are declared by name: a node body which never gets there compiles, and a body which
// does is refused in words.
//
// Decides no instruction: the same text serves the device and the model. Included by before_sm90.cuh and
// block_barrier.cuh, which add what their archs have beside. Invariant: every name of an arch with a copy engine is
// declared here or in those files, so that node bodies may choose by kBulkCopies.
#pragma once

namespace tj::dev {

/// Whether there is a copy engine that fills shared memory with boxes of tensors.
inline constexpr bool kBulkCopies = false;

/// True in exactly one lane of a converged warp.
TJ_DEVICE bool elect_one() { return lane_index() == 0; }

// ---- nothing to do --------------------------------------------------------------------------------------------------
/// Grids of one stream run one after the other.
TJ_DEVICE void next_grid_may_start() {}
TJ_DEVICE void wait_for_grids_before() {}
TJ_DEVICE void go_beside_grid_before() {}
template <int Site>
TJ_DEVICE void wait_for_grids_before() {}
/// After all inits, before the block_sync that publishes them: no copy engine has to see them.
TJ_DEVICE void mbarrier_init_done() {}
template <int Site>
TJ_DEVICE void mbarrier_init_done() {}
/// Shared memory has one kind of reader: ordinary writes need no fence.
template <int Site>
TJ_DEVICE void proxy_fence() {}
/// A cluster is one block.
TJ_DEVICE u32 cluster_rank() { return 0; }

// ---- lacking --------------------------------------------------------------------------------------------------------
namespace detail {
template <class...>
inline constexpr bool kHere = false;
template <int>
inline constexpr bool kSiteHere = false;
}  // namespace detail

template <int Site>
TJ_DEVICE void cluster_sync() {
  static_assert(detail::kSiteHere<Site>, "blocks form clusters from sm_90 on");
}
template <int Site>
TJ_DEVICE void cluster_sync_all() {
  static_assert(detail::kSiteHere<Site>, "blocks form clusters from sm_90 on");
}
template <int Site>
TJ_DEVICE void mbarrier_arrive_at(u32, u32) {
  static_assert(detail::kSiteHere<Site>, "blocks form clusters from sm_90 on");
}
template <int Site>
TJ_DEVICE void mbarrier_arrive_at_if(bool, u32, u32) {
  static_assert(detail::kSiteHere<Site>, "blocks form clusters from sm_90 on");
}
template <int Site, int Registers>
TJ_DEVICE void registers_shrink() {
  static_assert(detail::kSiteHere<Site>, "registers move between roles from sm_90a on");
}
template <int Site, int Registers>
TJ_DEVICE void registers_grow() {
  static_assert(detail::kSiteHere<Site>, "registers move between roles from sm_90a on");
}
template <class... Arguments>
TJ_DEVICE void prefetch_map(Arguments...) {
  static_assert(detail::kHere<Arguments...>, "tensor maps are read from sm_90 on");
}
template <class... Arguments>
TJ_DEVICE void store_box_4d(Arguments...) {
  static_assert(detail::kHere<Arguments...>, "boxes of tensors are stored from sm_90 on");
}
template <class... Arguments>
TJ_DEVICE void store_box_5d(Arguments...) {
  static_assert(detail::kHere<Arguments...>, "boxes of tensors are stored from sm_90 on");
}
template <int Site>
TJ_DEVICE void store_commit() {
  static_assert(detail::kSiteHere<Site>, "boxes of tensors are stored from sm_90 on");
}
template <int Site, int Pending>
TJ_DEVICE void store_wait() {
  static_assert(detail::kSiteHere<Site>, "boxes of tensors are stored from sm_90 on");
}

}  // namespace tj::dev
