// See global_memory.hpp. Rules: PTX ISA 8.7, "Memory consistency model" (release and acquire patterns, causality
// order, proxy fences).
#include "model/global_memory.hpp"

#include <algorithm>
#include <utility>

#include "model/cluster.hpp"
#include "support/fail.hpp"

namespace tj::model {

using support::cat;

namespace {

bool reached(std::uint32_t counter, std::uint32_t value) { return static_cast<std::int32_t>(counter - value) >= 0; }

/// The larger time of each place.
Order::Known joined(const Order::Known& a, const Order::Known& b) {
  if (a == nullptr) return b;
  Order::Clock both = *a;
  both.resize(std::max(a->size(), b->size()));
  for (std::size_t i = 0; i < b->size(); ++i) both[i] = std::max(both[i], (*b)[i]);
  return std::make_shared<const Order::Clock>(std::move(both));
}

}  // namespace

void GlobalMemory::begin(Cluster& cluster) { members_[&cluster] = {++begun_, {}}; }

bool GlobalMemory::watched(std::uintptr_t address) const {
  const auto& memory = launch_.memory;
  return memory.empty() || std::any_of(memory.begin(), memory.end(), [&](const support::MemoryRange& range) {
           return range.written && address >= range.begin && address < range.end;
         });
}

GlobalMemory::Grain& GlobalMemory::grain(std::uintptr_t number) {
  auto& page = pages_[number / kPage];
  if (page == nullptr) page = std::make_unique<Page>();
  return (*page)[number % kPage];
}

GlobalMemory::Id GlobalMemory::record(const Thread& thread, bool write, bool proxied) {
  const Cluster& cluster = thread.block->cluster;
  const unsigned number = members_.at(&cluster).number;
  Id& last = last_[std::uint64_t{number} << 32 | thread.actor];
  const Order::Time now = cluster.order.now(thread.actor);
  const Access& before = accesses_[last];
  if (last != 0 && before.write == write && before.proxied == proxied && before.time == now &&
      before.call == thread.call && before.iteration == thread.iteration)
    return last;
  accesses_.push_back(
      {number, thread.actor, thread.self.block, write, proxied, now, thread.call, thread.iteration, who(thread)});
  return last = static_cast<Id>(accesses_.size() - 1);
}

bool GlobalMemory::told(const Thread& thread, const Told& told, const Access& prior, Order::Section section) const {
  const auto known = told.of.find(prior.cluster);
  return known != told.of.end() && thread.block->cluster.order.knows(known->second, section, prior.actor, prior.time);
}

bool GlobalMemory::knows(const Thread& thread, const Access& prior, Order::Section section, bool proxied) {
  const Member& own = members_.at(&thread.block->cluster);
  const Order& order = thread.block->cluster.order;
  const Order::Section seen = proxied && section == Order::Section::writes ? Order::Section::proxied_writes : section;
  if (prior.proxied && prior.write) return prior.cluster == own.number && prior.actor == thread.actor;
  if (prior.cluster == own.number) return order.knows(thread.actor, seen, prior.actor, prior.time);
  return std::any_of(own.acquired.begin(), own.acquired.end(), [&](const Acquired& each) {
    if (order.knows(thread.actor, each.agent, 1) && told(thread, *each.told, prior, seen)) return true;
    return proxied && order.knows(thread.actor, each.agent, 2) && told(thread, *each.told, prior, section);
  });
}

void GlobalMemory::access(const Thread& thread, std::uintptr_t address, std::size_t bytes, bool write, bool proxied) {
  if (bytes == 0 || !watched(address)) return;
  const Id id = record(thread, write, proxied);
  for (std::uintptr_t at = address / kGrain; at <= (address + bytes - 1) / kGrain; ++at) {
    Grain& place = grain(at);
    if (place.writer != 0 && place.writer != id &&
        !knows(thread, accesses_[place.writer], Order::Section::writes, proxied))
      race(thread, at * kGrain, accesses_[place.writer], write, proxied);
    if (!write) {
      if (std::find(place.readers.begin(), place.readers.end(), id) == place.readers.end()) place.readers.push_back(id);
      continue;
    }
    for (const Id reader : place.readers)
      if (!knows(thread, accesses_[reader], Order::Section::reads, proxied))
        race(thread, at * kGrain, accesses_[reader], write, proxied);
    place.readers.clear();
    place.writer = id;
  }
  const auto counter = counters_.lower_bound(reinterpret_cast<const std::uint32_t*>(address & ~std::uintptr_t{3}));
  if (counter != counters_.end() && reinterpret_cast<std::uintptr_t>(counter->first) < address + bytes)
    fault(thread, cat(write ? "writes" : "reads", " the counter at global address ", hex(address),
                      " as ordinary memory; allowed: the primitives of counters"));
}

void GlobalMemory::race(const Thread& thread, std::uintptr_t address, const Access& prior, bool write, bool proxied) {
  const Order::Section section = prior.write ? Order::Section::writes : Order::Section::reads;
  const char* const missing =
      prior.proxied && prior.write
          ? "nobody else knows when a bulk store has written; store_global is for what others read"
      : proxied && knows(thread, prior, section, false) ? "a proxy_fence is missing"
      : prior.cluster == members_.at(&thread.block->cluster).number
          ? "a sync of the block is missing"
          : "a signal_global behind the one or a wait_global before the other is missing";
  fault(thread, cat(proxied ? "makes the copy engine " : "", write ? "write" : "read", proxied ? " " : "s ",
                    "global address ", hex(address), ", which ", prior.who, prior.write ? " has written" : " has read",
                    ", and nothing orders the two: ", missing));
}

GlobalMemory::Counter& GlobalMemory::counter(const Thread& thread, const std::uint32_t* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  if (number % sizeof *address != 0)
    fault(thread, cat("counter at global address ", hex(number), "; allowed: a multiple of ", sizeof *address));
  const auto [found, fresh] = counters_.try_emplace(address);
  if (fresh) {
    if (*address != 0)
      fault(thread, cat("finds the counter at global address ", hex(number), " at ", *address,
                        ", not at 0: a launch before it was aborted, or the memory was never zeroed"));
    for (std::uintptr_t at = number / kGrain; at < (number + sizeof *address) / kGrain; ++at)
      if (const Grain& place = grain(at); place.writer != 0 || !place.readers.empty())
        fault(thread, cat("uses global address ", hex(number), " as a counter, which ",
                          accesses_[place.writer != 0 ? place.writer : place.readers.front()].who,
                          " has accessed as ordinary memory"));
  }
  return found->second;
}

// A release continues what earlier ones have told: readers of the sum rely on all of them.
void GlobalMemory::tell(Thread& thread, Counter& counter) {
  Cluster& cluster = thread.block->cluster;
  const Member& own = members_.at(&cluster);
  auto next = std::make_shared<Told>(counter.told != nullptr ? *counter.told : Told{});
  Order::Gathering gathering;
  for (const Acquired& each : own.acquired) {
    if (!cluster.order.knows(thread.actor, each.agent, 1)) continue;
    for (const auto& [number, known] : each.told->of) next->of[number] = joined(next->of[number], known);
  }
  cluster.order.publish(thread.actor, gathering);
  next->of[own.number] = joined(next->of[own.number], gathering.take());
  counter.told = std::move(next);
}

std::uint32_t GlobalMemory::add(Thread& thread, std::uint32_t* address, std::uint32_t amount, bool release) {
  Counter& of = counter(thread, address);
  if (release) tell(thread, of);
  const std::uint32_t before = *address;
  *address += amount;
  of.user = who(thread);
  wake(address, of);
  return before;
}

void GlobalMemory::set(Thread& thread, std::uint32_t* address, std::uint32_t value) {
  Counter& of = counter(thread, address);
  of.told = nullptr;
  *address = value;
  of.user = who(thread);
  wake(address, of);
}

void GlobalMemory::wake(const std::uint32_t* address, Counter& counter) {
  const auto done = std::stable_partition(counter.waiting.begin(), counter.waiting.end(), [&](const Thread* thread) {
    return !reached(*address, thread->wait.detail);
  });
  const std::vector<Thread*> woken(done, counter.waiting.end());
  counter.waiting.erase(done, counter.waiting.end());
  for (Thread* thread : woken) thread->block->scheduler.wake(*thread);
}

void GlobalMemory::wait(Thread& thread, int site, const std::uint32_t* address, std::uint32_t value, bool acquires) {
  while (!reached(*address, value)) {
    counter(thread, address).waiting.push_back(&thread);
    Wait wait{WaitKind::counter, site, 0, value, 0};
    wait.counter = address;
    thread.block->scheduler.park(thread, wait);
  }
  if (acquires) acquire(thread, counter(thread, address));
}

void GlobalMemory::acquire(const Thread& thread, const Counter& counter) {
  if (counter.told == nullptr) return;
  Cluster& cluster = thread.block->cluster;
  std::vector<Acquired>& acquired = members_.at(&cluster).acquired;
  auto found =
      std::find_if(acquired.begin(), acquired.end(), [&](const Acquired& each) { return each.told == counter.told; });
  if (found == acquired.end()) found = acquired.insert(acquired.end(), {counter.told, cluster.order.add_agent()});
  cluster.order.observe(thread.actor, found->agent, 1);
}

void GlobalMemory::proxy_fence(const Thread& thread) {
  Order& order = thread.block->cluster.order;
  for (const Acquired& each : members_.at(&thread.block->cluster).acquired)
    if (order.knows(thread.actor, each.agent, 1)) order.observe(thread.actor, each.agent, 2);
}

void GlobalMemory::finish() const {
  for (const auto& [address, counter] : counters_)
    if (*address != 0)
      fault(cat("the launch ends with the counter at global address ", hex(reinterpret_cast<std::uintptr_t>(address)),
                " at ", *address, ", which it found at 0; ", counter.user,
                " was the last to change it: a reset_global is missing"));
}

std::string GlobalMemory::waiting(const Wait& wait) {
  return cat("the counter at global address ", hex(reinterpret_cast<std::uintptr_t>(wait.counter)), " to reach ",
             wait.detail, "; it is ", *wait.counter);
}

std::string GlobalMemory::who(const Thread& thread) {
  return cat("block ", thread.self.block, ", ", thread.block->monitor.who(thread.actor, thread.call, thread.iteration));
}

}  // namespace tj::model
