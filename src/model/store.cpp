// See store.hpp.
#include "model/store.hpp"

#include <algorithm>
#include <cstring>

#include "support/fail.hpp"

namespace tj::model {

using support::cat;

void StoreEngine::reset() {
  pending_.clear();
  issuers_.assign(scheduler_.size(), {});
}

void StoreEngine::issue(Thread& thread, const void* map, std::uint32_t source, const int* coordinates, int rank) {
  Issuer& own = issuers_[thread.index()];
  Store store{read_map(thread, map, rank, "store_box"), source, {}, thread.index(), own.committed};
  check_first(thread, store.map, coordinates[0], "store_box");
  for (int d = 0; d < rank; ++d)  // an illegal instruction on an H200, where copies take them
    if (coordinates[d] < 0)
      fault(thread, cat("store_box: coordinate ", d, " is ", coordinates[d], "; stores take none below 0"));
  if (source % kBoxAlignment != 0)
    fault(thread, cat("store_box from shared address ", hex(source), "; it must be a multiple of ", kBoxAlignment));
  shared_.at(thread, source, box_extent(store.map), "store_box: a source");
  if (own.issued == 0) own.agent = monitor_.order.add_agent();
  own.issued = own.committed + 1;
  const Shadow::Id access =
      monitor_.begin(thread, Access::By::bulk_store, false, own.agent, static_cast<Order::Time>(own.issued));
  for_each_place(store.map, source,
                 [&](std::uint32_t address, std::uint32_t bytes) { monitor_.read(thread, access, address, bytes); });
  for (int d = 0; d < rank; ++d) store.origin[static_cast<std::size_t>(d)] = coordinates[d];
  pending_.push_back(store);
}

void StoreEngine::commit(Thread& thread) { ++issuers_[thread.index()].committed; }

bool StoreEngine::passed(const Thread& thread, std::uint32_t pending) const {
  const std::uint64_t committed = issuers_[thread.index()].committed;
  return std::none_of(pending_.begin(), pending_.end(), [&](const Store& store) {
    return store.thread == thread.index() && store.group + pending < committed;
  });
}

void StoreEngine::wait(Thread& thread, int site, int pending) {
  while (!passed(thread, static_cast<std::uint32_t>(pending)))
    scheduler_.park(thread, {WaitKind::store, site, 0, static_cast<std::uint32_t>(pending), 0});
  Issuer& own = issuers_[thread.index()];
  const auto keep = static_cast<std::uint64_t>(pending);
  if (own.issued == 0 || own.committed <= keep) return;
  own.observed = std::max(own.observed, own.committed - keep);
  monitor_.order.observe(thread.actor, own.agent, static_cast<Order::Time>(own.observed));
}

void StoreEngine::ended(const Thread& thread) const {
  const Issuer& own = issuers_[thread.index()];
  if (own.issued > own.committed) fault(thread, "ends with bulk stores that it has not committed to a group");
  if (own.issued > own.observed)
    fault(thread, cat("ends while ", own.issued - own.observed,
                      " groups of its bulk stores may have still to read the block's shared memory; it must wait for "
                      "them (store_wait) before"));
}

void StoreEngine::complete(std::size_t which) {
  const Store store = pending_[which];
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(which));
  for_each_row(store.map, store.origin, [&](const BoxRow& row) { read_row(store, row); });
  Thread& thread = scheduler_.thread(store.thread);
  if (thread.state == ThreadState::waiting && thread.wait.kind == WaitKind::store && passed(thread, thread.wait.detail))
    scheduler_.wake(thread);
}

void StoreEngine::read_row(const Store& store, const BoxRow& row) {
  // Measured on an H200: a row that ends inside 16 bytes of the tensor is stored to the end of these.
  const std::int64_t end = row.begin == row.end ? row.end : (row.end + 15) / 16 * 16;
  for (std::int64_t at = row.begin; at < end;) {
    const std::uint32_t address = store.source + row.offset + static_cast<std::uint32_t>(at);
    const std::int64_t count = std::min<std::int64_t>(end - at, 16 - address % 16);  // a swizzle moves 16 bytes as one
    const std::byte* from =
        shared_.at(swizzled(address, store.map.swizzle_bytes), static_cast<std::uint64_t>(count), "store_box: a read");
    std::memcpy(reinterpret_cast<std::byte*>(row.global) + at, from, static_cast<std::size_t>(count));
    at += count;
  }
}

}  // namespace tj::model
