// Consequences of work that queues for one unit (see search.hpp).
//
// Reservations that exclude each other follow one another. For example, a node must wait for some reservations. A set
// of them begins no earlier than its earliest member and takes its sum. The node comes after that, and after what lies
// between the last of the set and the node. The same backwards for what must come after a node. Each step is a bound
// with the literals that it rests on.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "sched/modulo/search.hpp"
#include "support/index.hpp"

namespace tj::sched {
namespace {

using support::at;

// Plain loops over targets, apart from everything that could alias: they are most of the work.
void add_to(const std::int32_t* from, std::size_t stride, int more, std::size_t size, int* __restrict to) {
  for (std::size_t t = 0; t < size; ++t) to[t] = from[t * stride] + more;
}

void count_total(const int* __restrict apart, int cycles, std::size_t size, int* __restrict total) {
  for (std::size_t t = 0; t < size; ++t) total[t] += apart[t] >= 0 ? cycles : 0;
}

void count_promising(const int* __restrict apart, int edge, const int* __restrict total, const int* __restrict known,
                     std::size_t size, int* __restrict promising) {
  for (std::size_t t = 0; t < size; ++t)
    promising[t] += static_cast<int>(apart[t] >= 0) & static_cast<int>(edge + apart[t] + total[t] > known[t]);
}

}  // namespace

bool Search::follow_queues() {
  const int size = here().paths.size();
  quiet_.resize(2 * at(size) * conflicts_.queues.size());
  std::uint64_t* quiet = quiet_.data();
  for (const Queue& queue : conflicts_.queues)
    for (const bool before : {false, true}) {
      look(queue, before);
      for (int target = before ? 0 : 1; target < size; ++target)
        if (promising_[at(target)] > 1 && gather(queue, target, before, quiet[target]) &&
            !follow_queue(target, before, quiet[target]))
          return false;
      quiet += size;
    }
  return true;
}

/// For every target, how many reservations could be in a set that tells more of it than is known. A reservation alone
/// proves `edge + cycles + apart` at most, and the others of a set add no more than their cycles.
void Search::look(const Queue& queue, bool before) {
  const Paths& paths = here().paths;
  const std::size_t size = at(paths.size());
  total_.assign(size, 0);
  promising_.assign(size, 0);
  known_.resize(size);
  apart_.resize(items_of(queue) * size);
  for (std::size_t t = 0; t < size; ++t) known_[t] = known_edge(static_cast<int>(t), before);
  for (std::size_t k = 0; k < items_of(queue); ++k) {
    const CoverItem& item = queue.items[k];
    int* apart = apart_.data() + k * size;
    if (before)
      add_to(paths.column(item.node + 1), size, item.start, size, apart);
    else
      add_to(paths.row(item.node + 1), 1, -item.start - item.cycles, size, apart);
    apart[item.node + 1] = -1;
    count_total(apart, item.cycles, size, total_.data());
  }
  for (std::size_t k = 0; k < items_of(queue); ++k)
    count_promising(apart_.data() + k * size, edge_of(queue.items[k], before), total_.data(), known_.data(), size,
                    promising_.data());
}

int Search::known_edge(int target, bool before) const {
  return target == 0 ? 0 : before ? here().paths.at(target, 0) : here().paths.at(0, target);
}

/// When a reservation begins at the earliest, or minus when it ends at the latest.
int Search::edge_of(const CoverItem& item, bool before) const {
  return before ? here().paths.at(item.node + 1, 0) - item.start - item.cycles
                : here().paths.at(0, item.node + 1) + item.start;
}

/// The reservations that matter to the target; false when nothing followed the last time that they looked like this.
bool Search::gather(const Queue& queue, int target, bool before, std::uint64_t& quiet) {
  const std::size_t size = at(here().paths.size());
  std::uint64_t sight = static_cast<std::uint32_t>(known_edge(target, before));
  entries_.clear();
  int total = 0;
  for (std::size_t k = 0; k < items_of(queue); ++k) {
    const int apart = apart_[k * size + at(target)], edge = edge_of(queue.items[k], before);
    if (apart < 0 || edge + apart + total_[at(target)] <= known_[at(target)]) continue;
    entries_.push_back({queue.items[k].node + 1, edge, queue.items[k].cycles, apart});
    total += queue.items[k].cycles;
    sight = (sight ^
             (static_cast<std::uint64_t>(static_cast<std::uint32_t>(edge)) << 32 | static_cast<std::uint32_t>(apart))) *
            0x9E3779B97F4A7C15ull;
  }
  if (std::exchange(quiet, sight) == sight) return false;
  for (int sum = total + 1; total < sum;) {  // fewer are left, so what the others may add is less
    sum = total;
    std::size_t kept = 0;
    for (const QueueEntry& each : entries_) {
      if (each.edge + each.apart + sum > known_[at(target)])
        entries_[kept++] = each;
      else
        total -= each.cycles;
    }
    entries_.resize(kept);
  }
  return entries_.size() > 1;
}

/// The most that any set of the entries proves. The unit works on what has most behind it, and may turn to another at
/// any time. The bound is then the latest end of a reservation plus what is behind it.
int Search::queue_bound() {
  std::sort(entries_.begin(), entries_.end(), [](const QueueEntry& a, const QueueEntry& b) { return a.edge < b.edge; });
  by_edge_.clear();  // reservations that have begun: (apart, cycles left), most behind it last
  int best = std::numeric_limits<int>::min(), time = 0;
  for (std::size_t next = 0; next < entries_.size() || !by_edge_.empty();) {
    if (by_edge_.empty()) time = next == 0 ? entries_[next].edge : std::max(time, entries_[next].edge);
    for (; next < entries_.size() && entries_[next].edge <= time; ++next) {
      const std::pair<int, int> begun(entries_[next].apart, entries_[next].cycles);
      by_edge_.insert(std::upper_bound(by_edge_.begin(), by_edge_.end(), begun), begun);
    }
    auto& [apart, left] = by_edge_.back();
    const int run = next < entries_.size() ? std::min(left, entries_[next].edge - time) : left;
    time += run;
    left -= run;
    if (left > 0) continue;
    best = std::max(best, time + apart);
    by_edge_.pop_back();
  }
  return best;
}

/// `before`: reservations that come after the target bound it from above (0: the begin of all). Else reservations that
/// it waits for bound it from below.
bool Search::follow_queue(int target, bool before, std::uint64_t& quiet) {
  if (queue_bound() <= known_edge(target, before)) return true;
  std::sort(entries_.begin(), entries_.end(), [](const QueueEntry& a, const QueueEntry& b) {
    return a.apart != b.apart ? a.apart > b.apart : a.node < b.node;
  });
  int best = std::numeric_limits<int>::min(), best_edge = 0;
  std::size_t best_count = 0;
  by_edge_.clear();
  for (std::size_t count = 1; count <= entries_.size(); ++count) {
    const QueueEntry& last = entries_[count - 1];
    const auto place =
        std::find_if(by_edge_.begin(), by_edge_.end(), [&](const auto& each) { return each.first < last.edge; });
    by_edge_.insert(place, {last.edge, last.cycles});
    // A set that is better for the last entry holds it: its edge is no later.
    int sum = last.apart;
    for (const auto& [edge, cycles] : by_edge_) {
      sum += cycles;
      if (edge > last.edge || edge + sum <= best) continue;
      best = edge + sum;
      best_count = count;
      best_edge = edge;
    }
  }
  const Distance bound = before ? Distance{target, 0, best} : Distance{0, target, best};
  quiet = 0;
  std::vector<int>& literals = literals_;
  literals.clear();
  for (std::size_t k = 0; k < best_count; ++k) {
    if (entries_[k].edge < best_edge) continue;
    const int node = entries_[k].node;
    explain(before ? node : 0, before ? 0 : node, literals);
    explain(before ? target : node, before ? node : target, literals);
  }
  remove_repeated(literals);
  if (target > 0) return insert_derived(bound);
  conflict_ = literals;
  return false;
}

}  // namespace tj::sched
