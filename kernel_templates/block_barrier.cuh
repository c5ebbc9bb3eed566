// Stand-ins for archs whose only barrier is that of the whole block, and whose threads bring their copies through
// registers. Names that such archs lack are declared, so that pipeline.cuh compiles. They are refused in words once a
// unit or a body gets there.
//
// Decides no instruction: the same text serves the device and the model. Included by arch/amd.cuh of both. Invariant:
// between parts of a block there is block_sync and nothing else.
#pragma once

#include "no_copy_engine.cuh"

namespace tj::dev {

template <class... Arguments>
TJ_DEVICE void mbarrier_init(Arguments...) {
  static_assert(detail::kHere<Arguments...>, "there are no barriers in shared memory here; a block has block_sync");
}
template <int Site>
TJ_DEVICE void mbarrier_arrive(u32) {
  static_assert(detail::kSiteHere<Site>, "there are no barriers in shared memory here; a block has block_sync");
}
template <int Site>
TJ_DEVICE void mbarrier_arrive_if(bool, u32) {
  static_assert(detail::kSiteHere<Site>, "there are no barriers in shared memory here; a block has block_sync");
}
template <int Site>
TJ_DEVICE void mbarrier_expect(u32, u32) {
  static_assert(detail::kSiteHere<Site>, "there are no barriers in shared memory here; a block has block_sync");
}
template <int Site>
TJ_DEVICE void mbarrier_wait(u32, u32) {
  static_assert(detail::kSiteHere<Site>, "there are no barriers in shared memory here; a block has block_sync");
}
template <int Site>
TJ_DEVICE void mbarrier_wait_phase(u32, u32) {
  static_assert(detail::kSiteHere<Site>, "there are no barriers in shared memory here; a block has block_sync");
}
template <int Site>
TJ_DEVICE void named_sync(u32, u32) {
  static_assert(detail::kSiteHere<Site>, "there are no barriers for part of a block here; a block has block_sync");
}
template <int Site>
TJ_DEVICE void named_arrive(u32, u32) {
  static_assert(detail::kSiteHere<Site>, "there are no barriers for part of a block here; a block has block_sync");
}
template <class... Arguments>
TJ_DEVICE void copy_box_4d(Arguments...) {
  static_assert(detail::kHere<Arguments...>, "there is no copy engine here: load_global, and store_shared later");
}
template <class... Arguments>
TJ_DEVICE void copy_box_5d(Arguments...) {
  static_assert(detail::kHere<Arguments...>, "there is no copy engine here: load_global, and store_shared later");
}
template <int Bytes, class... Arguments>
TJ_DEVICE void copy_async(Arguments...) {
  static_assert(detail::kHere<Arguments...>, "no copy goes past registers here: load_global, and store_shared later");
}
template <int Site>
TJ_DEVICE void copy_async_commit() {
  static_assert(detail::kSiteHere<Site>, "no copy goes past registers here: load_global, and store_shared later");
}
template <int Site, int Pending>
TJ_DEVICE void copy_async_wait() {
  static_assert(detail::kSiteHere<Site>, "no copy goes past registers here: load_global, and store_shared later");
}
template <int Site>
TJ_DEVICE void copy_async_arrive(u32) {
  static_assert(detail::kSiteHere<Site>, "no copy goes past registers here: load_global, and store_shared later");
}
template <class... Arguments>
TJ_DEVICE u32 grid_blocks(Arguments...) {
  static_assert(detail::kHere<Arguments...>,
                "how many blocks a grid has is an implicit argument here; take it from the kernel's parameter");
  return 0;
}

}  // namespace tj::dev
