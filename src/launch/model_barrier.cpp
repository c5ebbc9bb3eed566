// See model_barrier.hpp. Rules and limits: PTX ISA 8.7, "mbarrier" and "bar".
#include "launch/model_barrier.hpp"

#include "support/fail.hpp"

namespace tj::launch::model {
namespace {

using support::cat;

constexpr std::uint32_t kBarrierBytes = 8;
constexpr std::uint32_t kMaxArrivals = (1u << 20) - 1;
constexpr std::int64_t kMaxBytes = (1 << 20) - 1;

}  // namespace

// ---- mbarriers --------------------------------------------------------------------------------------------------------

void Mbarriers::init(Thread& thread, std::uint32_t address, std::uint32_t arrivals) {
  if (address % kBarrierBytes != 0) fault(thread, cat("mbarrier_init at ", hex(address), "; the address must be a multiple of 8"));
  shared_.at(thread, address, kBarrierBytes, "mbarrier_init");
  if (arrivals == 0 || arrivals > kMaxArrivals)
    fault(thread, cat("mbarrier_init at ", hex(address), " with ", arrivals, " arrivals; allowed are 1 to ", kMaxArrivals));
  Mbarrier& barrier = barriers_[address];
  if (!barrier.waiting.empty()) fault(thread, cat("mbarrier_init at ", hex(address), " while threads wait on it"));
  barrier = Mbarrier{arrivals, arrivals, 0, 0, {}};
}

const Mbarrier* Mbarriers::find(std::uint32_t address) const {
  const auto found = barriers_.find(address);
  return found == barriers_.end() ? nullptr : &found->second;
}

void Mbarriers::check(const Thread& thread, std::uint32_t address) const {
  if (find(address) == nullptr) fault(thread, cat("copy reports to ", hex(address), ", where no mbarrier was initialised"));
}

Mbarrier& Mbarriers::at(const Thread& thread, std::uint32_t address, const char* what) {
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) fault(thread, cat(what, " at ", hex(address), ", where no mbarrier was initialised"));
  return found->second;
}

void Mbarriers::arrive_at(Thread& thread, std::uint32_t address, Mbarrier& barrier) {
  if (barrier.pending == 0)
    fault(thread, cat("mbarrier at ", hex(address), " gets one arrival more than the ", barrier.arrivals, " of its phase ", barrier.phase,
                      ", while ", barrier.bytes, " bytes are outstanding"));
  --barrier.pending;
  advance_if_done(barrier);
}

void Mbarriers::arrive(Thread& thread, std::uint32_t address) { arrive_at(thread, address, at(thread, address, "mbarrier_arrive")); }

void Mbarriers::expect(Thread& thread, std::uint32_t address, std::uint32_t bytes) {
  Mbarrier& barrier = at(thread, address, "mbarrier_expect");
  barrier.bytes += bytes;
  if (barrier.bytes > kMaxBytes)
    fault(thread, cat("mbarrier at ", hex(address), " has ", barrier.bytes, " bytes outstanding; at most ", kMaxBytes, " can be counted"));
  arrive_at(thread, address, barrier);
}

void Mbarriers::complete_bytes(std::uint32_t address, std::uint32_t bytes) {
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) fault(cat("a copy completes on ", hex(address), ", where no mbarrier is any more"));
  found->second.bytes -= bytes;
  if (found->second.bytes < -kMaxBytes)
    fault(cat("mbarrier at ", hex(address), " got ", -found->second.bytes, " bytes more than were announced; at most ", kMaxBytes, " can be counted"));
  advance_if_done(found->second);
}

void Mbarriers::advance_if_done(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.arrivals;
  for (Thread* thread : barrier.waiting) scheduler_.wake(*thread);
  barrier.waiting.clear();
}

void Mbarriers::wait(Thread& thread, int site, std::uint32_t address, std::uint32_t parity) {
  if (parity > 1) fault(thread, cat("mbarrier_wait at ", hex(address), " for parity ", parity, "; allowed are 0 and 1"));
  // As on the device, a waiter looks again when it runs: where the phase after came and went meanwhile, it waits on.
  while ((at(thread, address, "mbarrier_wait").phase & 1u) == parity) {
    barriers_[address].waiting.push_back(&thread);
    scheduler_.park(thread, {WaitKind::mbarrier, site, address, parity, 0});
  }
}

// ---- named barriers -----------------------------------------------------------------------------------------------------

void NamedBarriers::sync_block(Thread& thread, int site) {
  const Wait wait{WaitKind::block, site, 0, scheduler_.size(), 0};
  arrive(thread, 0, scheduler_.size(), &wait);
}

void NamedBarriers::meet(Thread& thread, int site, std::uint32_t id, std::uint32_t threads, bool wait) {
  if (id == 0 || id >= kCount) fault(thread, cat("named barrier ", id, "; allowed are 1 to ", kCount - 1));
  if (threads == 0 || threads % kWarpThreads != 0 || threads > scheduler_.size())
    fault(thread, cat("named barrier ", id, " for ", threads, " threads; allowed are multiples of ", kWarpThreads, " up to ", scheduler_.size()));
  const Wait reason{WaitKind::named, site, id, threads, 0};
  arrive(thread, id, threads, wait ? &reason : nullptr);
}

void NamedBarriers::arrive(Thread& thread, std::uint32_t id, std::uint32_t threads, const Wait* wait) {
  NamedBarrier& barrier = barriers_[id];
  if (barrier.arrived == 0) barrier.threads = threads;
  else if (barrier.threads != threads)
    fault(thread, cat("named barrier ", id, " for ", threads, " threads, but others came to it for ", barrier.threads));
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.generation;
    for (Thread* waiter : barrier.waiting) scheduler_.wake(*waiter);
    barrier.waiting.clear();
    return;
  }
  if (wait == nullptr) return;
  barrier.waiting.push_back(&thread);
  scheduler_.park(thread, *wait);
}

}  // namespace tj::launch::model
