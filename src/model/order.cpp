// See order.hpp.
#include "model/order.hpp"

#include <algorithm>
#include <utility>

namespace tj::model {
namespace {

using Clock = Order::Clock;

// a = max(a, b) on [begin, end) of b.
void raise(Clock& a, const Clock& b, std::size_t begin, std::size_t end) {
  end = std::min(end, b.size());
  if (a.size() < end) a.resize(end);
  for (std::size_t i = begin; i < end; ++i) a[i] = std::max(a[i], b[i]);
}

// Does a know all that b knows?
bool covers(const Clock& a, const Clock& b) {
  for (std::size_t i = 0; i < b.size(); ++i)
    if (b[i] > (i < a.size() ? a[i] : 0)) return false;
  return true;
}

}  // namespace

Order::Known Order::Gathering::take() {
  last_ = nullptr;
  return std::make_shared<const Clock>(std::exchange(times_, {}));
}

void Order::reset() {
  agents_ = 0;
  own_.assign(threads_, Own{std::make_shared<const Clock>(), 1, 0, 0});
  for (unsigned i = 1; i < threads_; ++i) own_[i].known = own_[0].known;
  joins_ = {};
}

template <class Make>
Order::Known Order::joined(const Known& a, const Known& b, std::uint64_t detail, Make&& make) {
  const std::uint64_t key = (reinterpret_cast<std::uintptr_t>(a.get()) >> 4) * 31 +
                            (reinterpret_cast<std::uintptr_t>(b.get()) >> 4) * 17 + detail * 0x9e3779b97f4a7c15ull;
  Join& join = joins_[(key ^ key >> 20) % kJoins];
  if (join.result == nullptr || join.a != a || join.b != b || join.detail != detail) join = {a, b, make(), detail};
  return join.result;
}

void Order::publish(unsigned thread, Gathering& into, bool reads_only) {
  Own& own = own_[thread];
  if (into.times_.size() < place(Agent{0})) into.times_.resize(place(Agent{0}));
  if (reads_only) {
    raise(into.times_, *own.known, place(Section::reads, 0), place(Section::proxied_writes, 0));
    raise(into.times_, *own.known, place(Section::arrived_reads, 0), own.known->size());
  } else {
    if (into.last_ != own.known) raise(into.times_, *own.known, 0, own.known->size());
    into.last_ = own.known;
    into.times_[place(Section::writes, thread)] = own.now;
    into.times_[place(Section::proxied_writes, thread)] = own.fenced;
  }
  into.times_[place(Section::reads, thread)] = own.now;
  into.times_[place(Section::arrived_reads, thread)] = own.arrived;
  ++own.now;
}

void Order::add(Gathering& into, const Known& before) const {
  const std::size_t first = place(Agent{0});
  if (before == nullptr || before->size() <= first) return;
  if (into.times_.size() < before->size()) into.times_.resize(before->size());
  raise(into.times_, *before, first, before->size());
}
void Order::add(Gathering& into, Agent agent, Time time) const {
  if (into.times_.size() <= place(agent)) into.times_.resize(place(agent) + 1);
  into.times_[place(agent)] = std::max(into.times_[place(agent)], time);
}

void Order::observe(unsigned thread, const Known& what) {
  Own& own = own_[thread];
  if (what == nullptr || what == own.known) return;
  own.known = joined(own.known, what, 0, [&]() -> Known {
    if (covers(*own.known, *what)) return own.known;
    if (covers(*what, *own.known)) return what;
    Clock both = *own.known;
    raise(both, *what, 0, what->size());
    return std::make_shared<const Clock>(std::move(both));
  });
}

void Order::observe(unsigned thread, Agent agent, Time until) {
  Own& own = own_[thread];
  if (knows(thread, agent, until)) return;
  own.known = joined(own.known, nullptr, std::uint64_t{until} << 32 | (agent + 1), [&] {
    Clock more = *own.known;
    if (more.size() <= place(agent)) more.resize(place(agent) + 1);
    more[place(agent)] = until;
    return std::make_shared<const Clock>(std::move(more));
  });
}

Order::Known Order::raised(const Known& known, Section from, Section to) {
  if (known->empty()) return known;
  // Sections as detail: no agent's time is that small with agent 0's place kept free.
  return joined(known, known, (static_cast<std::uint64_t>(from) << 8 | static_cast<std::uint64_t>(to)) + 1,
                [&]() -> Known {
                  Clock clock = *known;
                  if (clock.size() < place(Agent{0})) clock.resize(place(Agent{0}));
                  bool changed = false;
                  for (unsigned i = 0; i < threads_; ++i) {
                    Time& raised = clock[place(to, i)];
                    const Time least = clock[place(from, i)];
                    changed = changed || least > raised;
                    raised = std::max(raised, least);
                  }
                  return changed ? std::make_shared<const Clock>(std::move(clock)) : known;
                });
}

void Order::proxy_fence(unsigned thread) {
  Own& own = own_[thread];
  own.known = raised(own.known, Section::writes, Section::proxied_writes);
  own.fenced = own.now++;
}

void Order::reads_arrived(unsigned thread) {
  Own& own = own_[thread];
  own.known = raised(own.known, Section::reads, Section::arrived_reads);
  own.arrived = own.now++;
}

bool Order::knows(unsigned thread, Section section, unsigned of, Time time) const {
  const Own& own = own_[thread];
  if (of == thread) {
    if (section == Section::proxied_writes) return time <= own.fenced;
    return section != Section::arrived_reads || time <= own.arrived;
  }
  const std::size_t at = place(section, of);
  return at < own.known->size() && (*own.known)[at] >= time;
}

bool Order::knows(unsigned thread, Agent agent, Time time) const { return knows(own_[thread].known, agent, time); }

}  // namespace tj::model
