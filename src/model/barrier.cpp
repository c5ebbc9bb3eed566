// See barrier.hpp. Rules and limits: PTX ISA 8.7, "mbarrier" and "bar".
#include "model/barrier.hpp"

#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

constexpr std::uint32_t kBarrierBytes = 8;
constexpr std::uint32_t kMaxArrivals = (1u << 20) - 1;
constexpr std::int64_t kMaxBytes = (1 << 20) - 1;

std::string unannounced(const Mbarrier& barrier) { return cat(-barrier.bytes, " bytes came that nobody announced"); }

}  // namespace

std::string Mbarrier::lacks() const {
  return cat("lacks ", pending, " of ", arrivals, " arrivals and ",
             bytes < 0 ? unannounced(*this) : cat(bytes, " bytes"));
}

// ---- mbarriers ----------------------------------------------------------------------------------

void Mbarriers::init(Thread& thread, std::uint32_t address, std::uint32_t arrivals) {
  if (address % kBarrierBytes != 0)
    fault(thread, cat("mbarrier_init at ", hex(address), "; the address must be a multiple of 8"));
  shared_.at(thread, address, kBarrierBytes, "mbarrier_init");
  if (arrivals == 0 || arrivals > kMaxArrivals)
    fault(thread,
          cat("mbarrier_init at ", hex(address), " with ", arrivals, " arrivals; allowed are 1 to ", kMaxArrivals));
  // No primitive invalidates the barrier that lies there: PTX leaves it undefined then.
  if (barriers_.count(address) != 0)
    fault(thread,
          cat("mbarrier_init of the ", name(address),
              " a second time; a barrier is initialised once, and barriers of two rings must not lie in one place"));
  Mbarrier& barrier = barriers_[address];
  const Order::Agent agent = monitor_.order.add_agent();
  barrier = Mbarrier{};
  barrier.arrivals = barrier.pending = arrivals;
  barrier.agent = agent;
  barrier.initialiser = thread.actor;
  barrier.initialised = monitor_.order.now(thread.actor);
  monitor_.set_barrier(address, kBarrierBytes);
}

const Mbarrier* Mbarriers::find(std::uint32_t address) const {
  const auto found = barriers_.find(address);
  return found == barriers_.end() ? nullptr : &found->second;
}

void Mbarriers::init_done(const Thread& thread) {
  for (auto& [address, barrier] : barriers_)
    if (barrier.initialiser == thread.actor) barrier.announced = true;
}

void Mbarriers::cluster_met() {
  for (auto& [address, barrier] : barriers_) {
    if (barrier.announced) barrier.published = true;
    barrier.from_outside.clear();
  }
}

std::string Mbarriers::name(std::uint32_t address) const {
  const std::string place = monitor_.place(address);
  return cat("mbarrier at ", hex(address), place.empty() ? "" : cat(" (", place, ")"));
}

void Mbarriers::check(const Thread& thread, std::uint32_t address) const {
  if (find(address) == nullptr)
    fault(thread, cat("copy reports to ", hex(address), ", where no mbarrier was initialised"));
}

void Mbarriers::begin_copy(const Thread& thread, std::uint32_t address) {
  check(thread, address);
  check_announced(thread, address, "a copy", "copy engine");
  ++at(thread, address, "a copy's report").copies;
}
void Mbarriers::check_announced(const Thread& thread, std::uint32_t address, const char* what, const char* unit) const {
  if (!find(address)->announced)
    fault(thread, cat(what, " reports to the ", name(address), ", whose initialisation the ", unit,
                      " need not see: mbarrier_init_done is missing"));
}

Mbarrier& Mbarriers::at(const Thread& thread, std::uint32_t address, const char* what) {
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) fault(thread, cat(what, " at ", hex(address), ", where no mbarrier was initialised"));
  const Mbarrier& barrier = found->second;
  if (!barrier.published &&
      !monitor_.order.knows(thread.actor, Order::Section::writes, barrier.initialiser, barrier.initialised))
    fault(thread, cat(what, " at the ", name(address),
                      ", whose initialisation need not have happened yet: a block_sync, or for other blocks a "
                      "cluster_sync after mbarrier_init_done, is missing"));
  return found->second;
}

void Mbarriers::count_arrival(Thread& thread, std::uint32_t address, Mbarrier& barrier) {
  if (barrier.pending == 0)
    fault(thread,
          cat(name(address), " gets one arrival more than the ", barrier.arrivals, " of its phase ", barrier.phase,
              ", while ", barrier.bytes < 0 ? unannounced(barrier) : cat(barrier.bytes, " bytes are outstanding"),
              monitor_.givers(address)));
  --barrier.pending;
  advance_if_done(address, barrier);
}

void Mbarriers::arrive(Thread& thread, std::uint32_t address, bool from_outside) {
  Mbarrier& barrier = at(thread, address, "mbarrier_arrive");
  if (from_outside) barrier.from_outside.emplace_back(thread.actor, monitor_.order.now(thread.actor));
  monitor_.order.publish(thread.actor, barrier.arrived, from_outside);
  count_arrival(thread, address, barrier);
}

void Mbarriers::arrive_after(Thread& thread, std::uint32_t address, Order::Agent agent, Order::Time time,
                             const char* what, const Order::Known& before) {
  Mbarrier& barrier = at(thread, address, what);
  monitor_.order.add(barrier.arrived, agent, time);
  monitor_.order.add(barrier.arrived, before);
  if (thread.self.cluster_rank != scheduler_.thread(0).self.cluster_rank) barrier.sent = barrier.phase + 1;
  count_arrival(thread, address, barrier);
}

void Mbarriers::expect(Thread& thread, std::uint32_t address, std::uint32_t bytes) {
  Mbarrier& barrier = at(thread, address, "mbarrier_expect");
  barrier.bytes += bytes;
  if (barrier.bytes > kMaxBytes)
    fault(thread,
          cat(name(address), " has ", barrier.bytes, " bytes outstanding; at most ", kMaxBytes, " can be counted"));
  monitor_.order.publish(thread.actor, barrier.arrived);
  count_arrival(thread, address, barrier);
}

std::pair<Order::Agent, Order::Time> Mbarriers::complete_bytes(std::uint32_t address, std::uint32_t bytes) {
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) fault(cat("a copy completes on ", hex(address), ", where no mbarrier is any more"));
  Mbarrier& barrier = found->second;
  barrier.bytes -= bytes;
  if (barrier.bytes < -kMaxBytes)
    fault(cat(name(address), " got ", -barrier.bytes, " bytes more than were announced; at most ", kMaxBytes,
              " can be counted"));
  --barrier.copies;
  barrier.brought = barrier.phase + 1;
  const std::pair done(barrier.agent, static_cast<Order::Time>(barrier.phase + 1));
  advance_if_done(address, barrier);
  return done;
}

void Mbarriers::advance_if_done(std::uint32_t address, Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  if (barrier.copies != 0)
    fault(cat("block ", scheduler_.thread(0).self.block, ": ", name(address), " completes phase ", barrier.phase,
              " while ", barrier.copies, barrier.copies == 1 ? " copy that reports" : " copies that report", " to it ",
              barrier.copies == 1 ? "is" : "are", " under way: fewer bytes were announced than are copied",
              monitor_.givers(address)));
  ++barrier.phase;
  barrier.completed = barrier.arrived.take();
  barrier.pending = barrier.arrivals;
  for (Thread* thread : barrier.waiting) scheduler_.wake(*thread);
  barrier.waiting.clear();
}

// The hardware compares parities: a phase that is two away from the one that is meant looks like it.
bool Mbarriers::passed(const Thread& thread, std::uint32_t address, const Mbarrier& barrier,
                       std::uint32_t phase) const {
  const std::uint32_t wanted = phase + 1, done = static_cast<std::uint32_t>(barrier.phase);  // completed phases
  if (done == wanted) return true;
  if (done > wanted)
    fault(thread,
          cat("waits for phase ", static_cast<std::int32_t>(phase), " of the ", name(address), ", which has completed ",
              done - wanted, " more: a phase was passed over, and the parity means another one"));
  if ((done & 1u) != (phase & 1u))
    fault(thread,
          cat("waits for phase ", static_cast<std::int32_t>(phase), " of the ", name(address), ", which is in phase ",
              done, ": by its parity the wait passes ", wanted - done, " phases too early"));
  return false;
}

void Mbarriers::wait(Thread& thread, int site, std::uint32_t address, std::uint32_t phase, bool exact) {
  if (!exact && phase > 1)
    fault(thread, cat("mbarrier_wait at ", hex(address), " for parity ", phase, "; allowed are 0 and 1"));
  // A waiter looks again when it runs, as on the device. If the next phase came and went meanwhile, it waits on.
  for (;;) {
    Mbarrier& barrier = at(thread, address, "mbarrier_wait");
    if (exact ? passed(thread, address, barrier, phase) : (barrier.phase & 1u) != phase)
      return observe(thread, barrier);
    barrier.waiting.push_back(&thread);
    scheduler_.park(thread, {WaitKind::mbarrier, site, address, phase, 0});
  }
}

bool Mbarriers::done(Thread& thread, std::uint32_t address, std::uint32_t phase) {
  Mbarrier& barrier = at(thread, address, "mbarrier_phase_done");
  const bool yes = passed(thread, address, barrier, phase);
  if (yes) observe(thread, barrier);
  return yes;
}

void Mbarriers::observe(Thread& thread, Mbarrier& barrier) {
  if (barrier.phase == 0) return;
  barrier.observed = barrier.phase;
  std::erase_if(barrier.from_outside, [&](const auto& arrival) {
    return monitor_.order.knows(barrier.completed, Order::Section::reads, arrival.first, arrival.second);
  });
  monitor_.order.observe(thread.actor, barrier.completed);
  monitor_.order.observe(thread.actor, barrier.agent, static_cast<Order::Time>(barrier.phase));
}

bool Mbarriers::known_here(unsigned actor, Order::Time time) const {
  for (unsigned i = 0; i < scheduler_.size(); ++i)
    if (monitor_.order.knows(scheduler_.thread(i).actor, Order::Section::reads, actor, time)) return true;
  return false;
}

void Mbarriers::check_left() const {
  const unsigned block = scheduler_.thread(0).self.block;
  for (const auto& [address, barrier] : barriers_) {
    if (barrier.pending != barrier.arrivals || barrier.bytes != 0)
      fault(cat("block ", block, " ends with the ", name(address), " in use: its phase ", barrier.phase, " has ",
                barrier.arrivals - barrier.pending, " of ", barrier.arrivals, " arrivals and ",
                barrier.bytes < 0 ? unannounced(barrier) : cat(barrier.bytes, " bytes outstanding"),
                monitor_.givers(address)));
    if (barrier.brought > barrier.observed)  // whether they are done by then is chance
      fault(cat("block ", block, " ends, and nobody has waited for phase ", barrier.brought - 1, " of the ",
                name(address), ", to which bulk copies report; they may go on when the block has ended"));
    if (barrier.sent > barrier.observed)
      fault(cat("block ", block, " ends, and nobody in it has waited for phase ", barrier.sent - 1, " of the ",
                name(address),
                ", in which another block's matrix unit arrives; it may do so when the block has ended, whose shared "
                "memory is another's then"));
    for (const auto& [actor, time] : barrier.from_outside)
      if (!known_here(actor, time))
        fault(cat("block ", block, " ends, and nobody in it has waited for another block's arrival at the ",
                  name(address), "; it may come when the block has ended, whose shared memory is another's then"));
  }
}

// ---- named barriers -----------------------------------------------------------------------------

void NamedBarriers::sync_block(Thread& thread, int site) {
  const Wait wait{WaitKind::block, site, 0, scheduler_.size(), 0};
  arrive(thread, 0, scheduler_.size(), &wait);
}

void NamedBarriers::meet(Thread& thread, int site, std::uint32_t id, std::uint32_t threads, bool wait) {
  if (id == 0 || id >= kCount) fault(thread, cat("named barrier ", id, "; allowed are 1 to ", kCount - 1));
  if (threads == 0 || threads % kWarpThreads != 0 || threads > scheduler_.size())
    fault(thread, cat("named barrier ", id, " for ", threads, " threads; allowed are multiples of ", kWarpThreads,
                      " up to ", scheduler_.size()));
  const Wait reason{WaitKind::named, site, id, threads, 0};
  arrive(thread, id, threads, wait ? &reason : nullptr);
}

void NamedBarriers::arrive(Thread& thread, std::uint32_t id, std::uint32_t threads, const Wait* wait) {
  NamedBarrier& barrier = barriers_[id];
  if (barrier.came.empty()) barrier.came.resize(scheduler_.size());
  if (barrier.came[thread.index()])
    fault(thread, cat("comes to ", id == 0 ? std::string("block_sync") : cat("named barrier ", id),
                      " again before the other threads have: ", barrier.arrived, " of ", barrier.threads,
                      " had; who should wait there does not"));
  barrier.came[thread.index()] = true;
  order_.reads_arrived(thread.actor);
  order_.publish(thread.actor, barrier.gathering);
  if (barrier.arrived == 0)
    barrier.threads = threads;
  else if (barrier.threads != threads)
    fault(thread, cat("named barrier ", id, " for ", threads, " threads, but others came to it for ", barrier.threads));
  if (++barrier.arrived == threads) {
    check_warps(thread, id, barrier);
    if (wait == nullptr && barrier.waiting.empty())
      fault(thread, cat("completes named barrier ", id, " of ", threads,
                        " threads, at which nobody waits: all of them have only arrived"));
    return release(thread, barrier, wait != nullptr);
  }
  if (wait == nullptr) return;
  barrier.waiting.push_back(&thread);
  scheduler_.park(thread, *wait);
}

// The hardware counts warps.
void NamedBarriers::check_warps(const Thread& thread, std::uint32_t id, const NamedBarrier& barrier) const {
  for (unsigned first = 0; first < scheduler_.size(); first += scheduler_.warp_threads()) {
    unsigned lanes = 0;
    for (unsigned lane = 0; lane < scheduler_.warp_threads(); ++lane) lanes += barrier.came[first + lane] ? 1 : 0;
    if (lanes != 0 && lanes != scheduler_.warp_threads())
      fault(thread, cat("completes named barrier ", id, " of ", barrier.threads, " threads, to which ", lanes,
                        " lanes of warp ", first / scheduler_.warp_threads(), " have come; whole warps count"));
  }
}

void NamedBarriers::release(Thread& last, NamedBarrier& barrier, bool last_waits) {
  barrier.arrived = 0;
  ++barrier.generation;
  barrier.came.assign(scheduler_.size(), false);
  const Order::Known known = barrier.gathering.take();
  if (last_waits) order_.observe(last.actor, known);
  for (Thread* waiter : barrier.waiting) {
    order_.observe(waiter->actor, known);
    scheduler_.wake(*waiter);
  }
  barrier.waiting.clear();
}

void NamedBarriers::check_left() const {
  for (std::uint32_t id = 0; id < kCount; ++id)
    if (barriers_[id].arrived != 0)
      fault(cat("block ", scheduler_.thread(0).self.block, " ends with named barrier ", id,
                " in use: ", barriers_[id].arrived, " of ", barriers_[id].threads,
                " threads have come to it, and nobody has waited there for them"));
}

}  // namespace tj::model
