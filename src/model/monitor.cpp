// See monitor.hpp.
#include "model/monitor.hpp"

#include <algorithm>

#include "model/barrier.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

const char* does(const Access& access, bool past) {
  switch (access.by) {
    case Access::By::thread:
      return access.write ? (past ? "wrote" : "writes") : past ? "read" : "reads";
    case Access::By::thread_copy:
      return past ? "had written by a copy_async" : "has written by a copy_async";
    case Access::By::bulk_copy:
      return past ? "had written by a bulk copy" : "has written by a bulk copy";
    case Access::By::bulk_store:
      return past ? "had read by a bulk store" : "has read by a bulk store";
    case Access::By::matrix:
      return past ? "had read by a matrix instruction" : "has read by a matrix instruction";
  }
  return "?";
}

}  // namespace

void Monitor::reset(std::size_t bytes, unsigned rank) {
  rank_ = rank;
  shadow_.reset(bytes, SharedMemory::kBase);
  current_.assign(block_threads_, {});
  used_.assign(block_threads_, {});
}

Shadow::Id Monitor::ordinary(const Thread& thread, bool write) {
  Current& current = current_[thread.index()];
  const Order::Time now = order.now(thread.actor);
  if (current.time != now || current.call != thread.call || current.iteration != thread.iteration)
    current = {now, thread.call, thread.iteration, 0, 0};
  Shadow::Id& id = write ? current.write : current.read;
  if (id == 0) id = shadow_.add({Access::By::thread, write, 0, thread.actor, 0, now, thread.call, thread.iteration});
  return id;
}

void Monitor::read(const Thread& thread, std::uint32_t address, std::uint32_t bytes) {
  read(thread, ordinary(thread, false), address, bytes);
}
void Monitor::write(const Thread& thread, std::uint32_t address, std::uint32_t bytes) {
  write(thread, ordinary(thread, true), address, bytes);
}

Shadow::Id Monitor::begin(const Thread& thread, Access::By by, bool write, Order::Agent agent, Order::Time time,
                          std::uint8_t swizzle_bytes) {
  return shadow_.add({by, write, swizzle_bytes, thread.actor, agent, time, thread.call, thread.iteration});
}

void Monitor::read(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes,
                   Shadow::Reading* reading) {
  if (const auto conflict = shadow_.read(id, address, bytes, reading)) report(thread, id, *conflict);
  check_use(thread, id, address, bytes, reading);
}

void Monitor::write(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes) {
  if (const auto conflict = shadow_.write(id, address, bytes)) report(thread, id, *conflict);
  check_filling(thread, id, address, bytes);
  shadow_.wrote(id, address, bytes);
}

std::uint32_t Monitor::address_of(const Notes::Place& slot, bool full) {
  return SharedMemory::kBase + (full ? slot.ring->full : slot.ring->empty) + slot.member * slot.ring->slots * 16 +
         slot.slot * 8;
}

const Mbarrier* Monitor::barrier_of(const Notes::Place& slot, bool full) const {
  const Mbarriers* where = (full ? slot.ring->full_of_pair : slot.ring->empty_of_pair) ? first_barriers_ : barriers_;
  return where == nullptr || !slot.ring->barriers ? nullptr : where->find(address_of(slot, full));
}

bool Monitor::works_here(const Thread& thread, const Notes::Ring& ring) const {
  return thread.self.cluster_rank == rank_ || (ring.of_pair() && thread.self.cluster_rank == (rank_ & ~1u));
}

// A thread that fills a slot again must have waited for the slot's own barrier, and know of all reads by that alone.
// Another wait may imply it, but for one schedule only.
void Monitor::check_filling(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes) const {
  const auto slot = notes_.slot_at(address - SharedMemory::kBase, shadow_.at(id).call);
  if (!slot || thread.self.cluster_rank != rank_) return;
  const Notes::Role* role = notes_.role_of(thread.warp());
  const auto& producers = slot->ring->producers;
  if (role == nullptr || std::find(producers.begin(), producers.end(), role->name) == producers.end()) return;
  for (const Notes::Place& other : notes_.others_at(address - SharedMemory::kBase, *slot->ring))
    check_left(thread, *slot, other);
  if (slot->ring->filled_once) return;
  const Mbarrier *full = barrier_of(*slot, true), *empty = barrier_of(*slot, false);
  if (full == nullptr || empty == nullptr || full->phase == 0) return;
  const auto filled = static_cast<Order::Time>(full->phase);
  if (order.knows(thread.actor, empty->agent, filled)) {
    if (const auto conflict = shadow_.untold(id, {empty->completed, empty->agent, filled}, address, bytes);
        conflict && notes_.reads(shadow_.at(conflict->prior).call, *slot->ring))
      report(thread, id, *conflict);
    return;
  }
  // A slot that has not been handed back yet: this may as well be the rest of the filling before.
  const bool rest = empty->phase < full->phase;
  const std::string published =
      cat(": either the filling before was published while it went on (fewer bytes announced than copied",
          slot->ring->full_of_pair ? "; a pair's barrier counts those of both blocks" : "", "), or this thread");
  fault(cat(kernel(), "block ", thread.self.block, ": ", who(thread.actor, thread.call, thread.iteration), " fills ",
            place(address, shadow_.at(id).call), " for the ", full->phase + 1, ". time", rest ? published : " and",
            " has not waited for its empty barrier ", hex(address_of(*slot, false)), ", which is in phase ",
            empty->phase));
}

// Nor may another wait imply that another ring has left the place: its own barrier says so.
void Monitor::check_left(const Thread& thread, const Notes::Place& slot, const Notes::Place& other) const {
  const Mbarrier *full = barrier_of(other, true), *empty = barrier_of(other, false);
  if (full == nullptr || empty == nullptr || full->phase == 0 ||
      order.knows(thread.actor, empty->agent, static_cast<Order::Time>(full->phase)))
    return;
  fault(cat(kernel(), "block ", thread.self.block, ": ", who(thread.actor, thread.call, thread.iteration),
            " fills ring ", slot.ring->value, ", slot ", slot.slot, " of ", slot.ring->slots, ", in the place of ring ",
            other.ring->value, ", slot ", other.slot, " of ", other.ring->slots,
            ", and has not waited for the empty barrier ", hex(address_of(other, false)), ", which is in phase ",
            empty->phase));
}

// A thread that reads a slot must have waited for the slot's own barrier, and likewise know of all writes by that
// alone.
void Monitor::check_use(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes,
                        Shadow::Reading* reading) {
  if (thread.self.cluster_rank != rank_) return check_use_of_pair(thread, id, address, bytes);
  Used& used = used_[thread.index()];
  const auto slot = address >= used.begin && address < used.end
                        ? std::nullopt
                        : notes_.slot_at(address - SharedMemory::kBase, thread.call);
  if (slot) {
    used.full = full_of(thread, *slot);
    used.begin = SharedMemory::kBase + slot->ring->data +
                 (slot->member * slot->ring->slots + slot->slot) * slot->ring->slot_bytes;
    used.end = used.begin + slot->ring->slot_bytes;
    if (reading != nullptr) reading->slots.push_back(used.begin);
  } else if (address < used.begin || address >= used.end) {
    return;
  }
  if (used.full != nullptr) check_told(thread, id, *used.full, address, bytes);
}

// Use by the thread of the first block of a pair, whose products read both blocks' slots.
void Monitor::check_use_of_pair(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes) const {
  const auto slot = notes_.slot_at(address - SharedMemory::kBase, thread.call);
  if (!slot || !works_here(thread, *slot->ring)) return;
  if (const Mbarrier* full = full_of(thread, *slot)) check_told(thread, id, *full, address, bytes);
}

void Monitor::check_told(const Thread& thread, Shadow::Id id, const Mbarrier& full, std::uint32_t address,
                         std::uint32_t bytes) const {
  if (const auto conflict =
          shadow_.untold(id, {full.completed, full.agent, static_cast<Order::Time>(full.phase)}, address, bytes))
    report(thread, id, *conflict);
}

// Checks slots in tensor memory in the same way; besides, a fence has followed the wait. A thread that writes into a
// slot which it was handed has waited as a reader.
Monitor::Told Monitor::check_columns(const Thread& thread, bool writes, std::uint32_t column,
                                     const Order::Known& usable) const {
  const auto filled = writes ? notes_.columns_at(thread.call, true, column) : std::nullopt;
  const auto slot = filled ? filled : notes_.columns_at(thread.call, false, column);
  if (!slot || slot->ring->filled_once || !works_here(thread, *slot->ring)) return {};
  const Notes::Ring& ring = *slot->ring;
  const Mbarrier *full = barrier_of(*slot, true), *own = barrier_of(*slot, !filled);
  if (full == nullptr || own == nullptr || (filled && full->phase == 0)) return {};
  if (full->phase > 0 && order.knows(usable, own->agent, static_cast<Order::Time>(full->phase)))
    return filled ? Told{&ring, own->completed} : Told{};
  const bool waited = full->phase > 0 && order.knows(thread.actor, own->agent, static_cast<Order::Time>(full->phase));
  fault(cat(kernel(), "block ", thread.self.block, ": ", who(thread.actor, thread.call, thread.iteration),
            filled ? " fills" : " uses", " ring ", ring.value, ", slot ", slot->slot, " of ", ring.slots,
            " in tensor memory, ",
            waited ? "and a tensor_after_sync is missing between its wait for the " : "and has not waited for its ",
            filled ? "empty" : "full", " barrier ", hex(address_of(*slot, !filled)),
            waited ? " and this" : cat(", which is in phase ", own->phase)));
}

/// The barrier that the thread has waited for; null where there is none, or where its node is no reader of the ring.
const Mbarrier* Monitor::full_of(const Thread& thread, const Notes::Place& slot) const {
  if (!notes_.reads(thread.call, *slot.ring)) return nullptr;
  const Mbarrier* full = barrier_of(slot, true);
  if (full != nullptr &&
      (full->phase == 0 || !order.knows(thread.actor, full->agent, static_cast<Order::Time>(full->phase))))
    fault(cat(kernel(), "block ", thread.self.block, ": ", who(thread.actor, thread.call, thread.iteration),
              " reads ring ", slot.ring->value, ", slot ", slot.slot, " of ", slot.ring->slots,
              " and has not waited for its full barrier ", hex(address_of(slot, true)), ", which is in phase ",
              full->phase));
  return full;
}

void Monitor::set_time(Shadow::Id id, Order::Agent agent, Order::Time time) {
  shadow_.at(id).agent = agent;
  shadow_.at(id).time = time;
}

void Monitor::unwritten(const Thread& thread, Shadow::Id id, std::uint32_t address, std::uint32_t bytes) const {
  report(thread, id, {Shadow::kNever, address, bytes, false, false});
}

void Monitor::join(const Thread& thread, Shadow::Id id, const Shadow::Reading& reading) {
  for (const Shadow::Id writer : reading.writers)
    if (const auto conflict = shadow_.after(shadow_.at(id), thread.actor, writer)) report(thread, id, *conflict);
  for (const std::uint32_t address : reading.slots)
    if (const auto slot = notes_.slot_at(address - SharedMemory::kBase, thread.call)) full_of(thread, *slot);
}

// ---- reports ------------------------------------------------------------------------------------

std::string Monitor::place(std::uint32_t address, int call) const {
  const std::uint32_t offset = address - SharedMemory::kBase;
  if (const auto slot = notes_.slot_at(offset, call)) {
    const std::string member = slot->ring->members > 1 ? cat(" of member ", slot->member) : std::string();
    return cat("ring ", slot->ring->value, member, ", slot ", slot->slot, " of ", slot->ring->slots);
  }
  if (const auto barrier = notes_.barrier_at(offset))
    return cat(barrier->full ? "full" : "empty", " barrier of ring ", barrier->ring->value,
               barrier->ring->members > 1 ? cat(" of member ", barrier->member) : std::string(), ", slot ",
               barrier->slot);
  return {};
}

std::string Monitor::givers(std::uint32_t barrier) const {
  const auto found = notes_.barrier_at(barrier - SharedMemory::kBase);
  std::string text;
  if (found)
    for (const int id : notes_.givers(*found))
      text += cat(text.empty() ? "; arrivals here are of " : ", ", "site ", id, " (", notes_.site(id), ")");
  return text;
}

std::string Monitor::kernel() const { return notes_.name.empty() ? std::string() : cat("kernel ", notes_.name, ", "); }

std::string Monitor::who(unsigned actor, int call, int iteration, bool together) const {
  const unsigned index = actor % block_threads_, warp = index / warp_threads();
  const Notes::Role* role = notes_.role_of(warp);
  const std::string node = notes_.node(call, warp);
  const std::string place = cat("warp ", warp, together ? std::string() : cat(", lane ", index % warp_threads()));
  std::string text = role != nullptr ? cat("role ", role->name, " (", place, ")") : place;
  if (!node.empty()) text += cat(", node ", node, ", iteration ", iteration);
  return text;
}

// The other thread's part is named as the thread whose report it is.
void Monitor::report(const Thread& thread, Shadow::Id id, const Shadow::Conflict& conflict) const {
  Access access = shadow_.at(id);
  access.thread = thread.actor;
  const std::string where = place(conflict.address, access.call),
                    range = cat(conflict.bytes, " bytes at shared address ", hex(conflict.address),
                                where.empty() ? "" : cat(" (", where, ")"));
  const auto of = [&](const Access& by) { return who(by.thread, by.call, by.iteration); };
  const std::string begin =
      cat(kernel(), "block ", thread.self.block, ": ", of(access), " ", does(access, false), " ", range);
  if (conflict.prior == Shadow::kNever) fault(cat(begin, ", which nobody has written"));
  if (conflict.prior == Shadow::kBarrier) fault(cat(begin, ", where an mbarrier lies"));
  const Access& prior = shadow_.at(conflict.prior);
  const bool other_block = prior.thread / block_threads_ != thread.actor / block_threads_;
  fault(cat(begin, ", which ", other_block ? cat("the block of rank ", prior.thread / block_threads_, ", ") : "",
            of(prior), " ", does(prior, true), "; ", missing(thread, access, conflict)));
}

std::string Monitor::missing(const Thread& thread, const Access& later, const Shadow::Conflict& conflict) const {
  const Access& prior = shadow_.at(conflict.prior);
  if (conflict.proxy)
    return "a proxy_fence is missing between the two: asynchronous units do not see what ordinary stores wrote without "
           "one";
  if (conflict.overtaken)
    return "reads_arrived is missing after the read and before the slot is handed back: an arrival may overtake loads, "
           "and what is written asynchronously then comes too early";
  const auto slot = notes_.slot_at(conflict.address - SharedMemory::kBase, later.call);
  if (slot && slot->ring->barriers) {
    const auto held = notes_.slot_at(conflict.address - SharedMemory::kBase, prior.call);
    if (later.write && held && held->ring != slot->ring && held->ring->barriers)
      return cat("nothing orders the two: who fills the slot has not waited for the empty barrier ",
                 hex(address_of(*held, false)), " of ring ", held->ring->value, ", slot ", held->slot,
                 ", which had the place before");
    // A filling must be waited for by its readers, and handed back by all of them before it is replaced.
    const bool fills = later.write;
    const Mbarrier* found = barrier_of(*slot, !fills);
    const std::string name = cat(fills ? "empty" : "full", " barrier ", hex(address_of(*slot, !fills)), " of ring ",
                                 slot->ring->value, ", slot ", slot->slot);
    if (found == nullptr || found->phase == 0 ||
        !order.knows(thread.actor, found->agent, static_cast<Order::Time>(found->phase)))
      return cat("nothing orders the two: ", fills ? "who fills the slot" : "who reads the slot",
                 " has not waited for the ", name, found == nullptr ? "" : cat(", which is in phase ", found->phase));
    return cat(
        "nothing orders the two: the ", name, " let this thread pass, but ",
        fills ? "the reader arrived there before it was done" : "the writer announced the filling before it was done",
        prior.by == Access::By::matrix
            ? " (a group wait is missing before its arrival, or a matrix_commit in its place)"
            : "");
  }
  if (later.thread / warp_threads() == prior.thread / warp_threads() && prior.by == Access::By::thread &&
      later.by == Access::By::thread)
    return "nothing says who comes first: a warp_sync is missing between the two";
  if (prior.by == Access::By::thread)
    return "nothing says who comes first: a block_sync, or a barrier that one arrives at and the other waits for, is "
           "missing between the two";
  return "nothing orders the two: nobody has told this thread that it is done";
}

}  // namespace tj::model
