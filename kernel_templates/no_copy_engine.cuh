// What archs without a copy engine lack, by the names that others have: declared, so that a node body that never gets there compiles,
// and refused in words where one does.
//
// Decides nothing but the words. Included by arch/sm80.cuh, on the device and on the model. Invariant: nothing here can be called.
#pragma once

namespace tj::dev {

namespace detail {
template <class...>
inline constexpr bool kHere = false;
template <int>
inline constexpr bool kSiteHere = false;
}  // namespace detail

/// Copies by threads report to a barrier by copy_async_arrive.
template <int Site>
TJ_DEVICE void mbarrier_expect(u32, u32) {
  static_assert(detail::kSiteHere<Site>, "barriers count bytes from sm_90 on; copies by threads arrive on theirs");
}
template <int Site>
TJ_DEVICE void cluster_sync() {
  static_assert(detail::kSiteHere<Site>, "blocks form clusters from sm_90 on");
}
template <int Site>
TJ_DEVICE void mbarrier_arrive_at(u32, u32) {
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
TJ_DEVICE void copy_box_4d(Arguments...) {
  static_assert(detail::kHere<Arguments...>, "boxes of tensors are copied from sm_90 on; here threads copy, by copy_async");
}
template <class... Arguments>
TJ_DEVICE void store_box_4d(Arguments...) {
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
