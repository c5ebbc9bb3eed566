// See thread_copies.hpp.
#include "model/thread_copies.hpp"

#include <algorithm>
#include <cstring>

#include "support/fail.hpp"

namespace tj::model {
using support::cat;

void ThreadCopies::reset() {
  batches_.clear();
  due_.clear();
  threads_.assign(scheduler_.size(), {});
}

void ThreadCopies::issue(Thread& thread, std::uint32_t destination, const void* source, std::uint32_t bytes,
                         std::uint32_t present) {
  if (destination % bytes != 0)
    fault(thread, cat("copy_async of ", bytes, " bytes to shared address ", hex(destination),
                      ", which is no multiple of ", bytes));
  if (present > bytes)
    fault(thread, cat("copy_async of ", bytes, " bytes, of which ", present, " are said to be present; at most ", bytes,
                      " can be"));
  std::byte* to = shared_.at(thread, destination, bytes, "copy_async: a destination");
  PerThread& own = threads_[thread.index()];
  if (own.open == nullptr) {
    if (own.sequence == 0) own.agent = monitor_.order.add_agent();
    const Shadow::Id access =
        monitor_.begin(thread, Access::By::thread_copy, true, own.agent, static_cast<Order::Time>(own.sequence + 1));
    batches_.push_back(std::make_unique<Batch>(Batch{thread.index(), own.committed, own.sequence++, access, {}}));
    own.open = batches_.back().get();
    own.pending.push_back(own.committed);
  }
  own.open->pieces.push_back({destination, bytes, present, static_cast<const std::byte*>(source)});
  monitor_.write(thread, own.open->access, destination, bytes);
  std::memset(to, SharedMemory::kPoison, bytes);
}

void ThreadCopies::commit(Thread& thread) {
  PerThread& own = threads_[thread.index()];
  own.open = nullptr;
  ++own.committed;
  own.group_ends.push_back(own.sequence);
}

bool ThreadCopies::passed(const Thread& thread, std::uint32_t pending) const {
  const PerThread& own = threads_[thread.index()];
  return std::none_of(own.pending.begin(), own.pending.end(),
                      [&](std::uint64_t group) { return group + pending < own.committed; });
}

void ThreadCopies::wait(Thread& thread, int site, int pending) {
  while (!passed(thread, static_cast<std::uint32_t>(pending)))
    scheduler_.park(thread, {WaitKind::copies, site, 0, static_cast<std::uint32_t>(pending), 0});
  const PerThread& own = threads_[thread.index()];
  const auto keep = static_cast<std::size_t>(pending);
  if (own.sequence > 0 && own.group_ends.size() > keep)
    monitor_.order.observe(thread.actor, own.agent,
                           static_cast<Order::Time>(own.group_ends[own.group_ends.size() - keep - 1]));
}

void ThreadCopies::ended(const Thread& thread) const {
  const PerThread& own = threads_[thread.index()];
  if (own.sequence > 0 && !monitor_.order.knows(thread.actor, own.agent, static_cast<Order::Time>(own.sequence)))
    fault(thread,
          "ends while copies of its own may be under way; it must wait for their groups, or on a barrier that they "
          "arrive at, before");
}

void ThreadCopies::arrive(Thread& thread, std::uint32_t barrier) {
  barriers_.check(thread, barrier);
  PerThread& own = threads_[thread.index()];
  own.open = nullptr;  // arrivals that come after are not waited for
  const auto time = static_cast<Order::Time>(own.sequence);
  if (own.pending.empty())
    due_.push_back({thread.index(), barrier, time});
  else
    own.arrivals.push_back({barrier, own.sequence, own.pending.size(), time});
}

void ThreadCopies::complete(std::size_t which) {
  if (which >= batches_.size()) {
    const Due due = due_[which - batches_.size()];
    due_.erase(due_.begin() + static_cast<std::ptrdiff_t>(which - batches_.size()));
    barriers_.arrive_after(scheduler_.thread(due.thread), due.barrier, threads_[due.thread].agent, due.time,
                           "copy_async_arrive");
    return;
  }
  const std::unique_ptr<Batch> batch = std::move(batches_[which]);
  batches_[which] = std::move(batches_.back());
  batches_.pop_back();
  finish(*batch);
}

void ThreadCopies::finish(const Batch& batch) {
  for (const Piece& piece : batch.pieces) {
    std::byte* to = shared_.at(piece.destination, piece.bytes, "copy_async: a write");
    if (piece.present > 0) std::memcpy(to, piece.source, piece.present);
    std::memset(to + piece.present, 0, piece.bytes - piece.present);
  }
  PerThread& own = threads_[batch.thread];
  if (own.open == &batch) own.open = nullptr;
  own.pending.erase(std::find(own.pending.begin(), own.pending.end(), batch.group));
  for (Arrival& arrival : own.arrivals)
    if (batch.sequence < arrival.sequence && --arrival.outstanding == 0)
      due_.push_back({batch.thread, arrival.barrier, arrival.time});
  std::erase_if(own.arrivals, [](const Arrival& arrival) { return arrival.outstanding == 0; });
  Thread& thread = scheduler_.thread(batch.thread);
  if (thread.state == ThreadState::waiting && thread.wait.kind == WaitKind::copies &&
      passed(thread, thread.wait.detail))
    scheduler_.wake(thread);
}

}  // namespace tj::model
