// Slots of a tile (see rules.hpp): when each role hands one back, and what waits for that.
//
// In the code that is emitted, a role hands a slot back when it knows that its reads are complete. It looks where a
// node of its waits for a product, after its next bulk store, and at the end of its loop for all.
#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "graph/lifetimes.hpp"
#include "sched/tile/rules.hpp"
#include "support/index.hpp"

namespace tj::sched {

using support::at;

using graph::Async;
using graph::Edge;
using graph::Scope;

namespace {

/// Roles of more stages hand back what is filled once a tile only at the end of their loop (src/codegen).
constexpr int kEarlyStages = 2;

}  // namespace

int TileRules::slots_of(int value) const {
  for (const Ring& ring : schedule_.rings)
    if (ring.value == value) return ring.slots;
  return 0;
}

void TileRules::follow(const Moment& moment, int to, int iteration, int tiles, Why why, int index) {
  rule(moment.event, to, moment.cycles - iteration * ii(), tiles, why, index);
}

/// The role's node before an instance of another one, in the order of its text; node -1: it is the loop's first.
TileRules::Instance TileRules::before(int index, int iteration) const {
  const std::vector<int> loop = part(role(index), Scope::iteration);
  auto place = std::find(loop.begin(), loop.end(), index) - loop.begin();
  int first = stage(loop.front());
  for (const int other : loop) first = std::min(first, stage(other));
  for (int step = iteration + stage(index); step >= first; --step, place = static_cast<std::ptrdiff_t>(loop.size()))
    while (place-- > 0) {
      const int other = loop[static_cast<std::size_t>(place)], of = step - stage(other);
      if (of >= 0 && of < n_) return {other, of};
    }
  return {};
}

/// The role's next bulk store of the loop after an instance of one; node -1: there is none.
TileRules::Instance TileRules::next_store(int index, int iteration) const {
  const std::vector<int> loop = part(role(index), Scope::iteration);
  auto place = std::find(loop.begin(), loop.end(), index) - loop.begin();
  int last = stage(index);
  for (const int other : loop) last = std::max(last, stage(other));
  for (int step = iteration + stage(index); step < n_ + last; ++step, place = -1)
    while (++place < static_cast<std::ptrdiff_t>(loop.size())) {
      const int other = loop[static_cast<std::size_t>(place)], of = step - stage(other);
      if (of >= 0 && of < n_ && node(other).async == Async::store) return {other, of};
    }
  return {};
}

/// Waits of a role's loop for its products: nodes that block on one, and nodes that fill a slot that one has read.
std::vector<TileRules::Wait> TileRules::waits_of(int of) const {
  const auto product_here = [&](int index) {
    return node(index).async == Async::matrix && loops(index) && role(index) == of;
  };
  std::vector<Wait> waits;
  for (const Edge& edge : graph_.edges)
    if (edge.blocking && product_here(edge.src) && loops(edge.dst) && role(edge.dst) == of)
      waits.push_back({edge.src, edge.dst, edge.distance});
  if (waits.empty() || !schedule_.mixed_roles) return waits;
  for (const Edge& read : graph_.edges)
    if (read.value >= 0 && product_here(read.dst) && loops(read.src) && role(read.src) == of)
      if (const int slots = slots_of(read.value); slots > 0)
        waits.push_back({read.dst, read.src, slots - read.distance});
  return waits;
}

/// Is what the product reads filled by another role? At the end of a tile: again in this tile.
bool TileRules::hands_back(int product, int iteration, bool at_end) const {
  return std::any_of(graph_.edges.begin(), graph_.edges.end(), [&](const Edge& read) {
    if (read.dst != product || read.value < 0 || role(read.src) == role(product) || iteration < read.distance ||
        graph_.values[at(read.value)].scope != Scope::iteration)
      return false;
    int again = iteration - read.distance + slots_of(read.value);
    for (const graph::Sharing& sharing : graph::sharings(graph_))
      if (sharing.every_iteration && (read.value == sharing.first || read.value == sharing.second))
        again = iteration - read.distance + (read.value == sharing.first ? 0 : 1);
    return !at_end || again < n_;
  });
}

/// Where the loop's schedule has the look of a wait that sees an instance of a product. The text has it, too, where the
/// tile lacks an iteration that it is for, if anybody gains by that.
bool TileRules::looks(const Wait& wait, int product, int iteration, Instance& waiter) const {
  const std::int64_t since = cycle(product) - cycle(wait.product);
  const std::int64_t younger = wait.product == product ? 0 : since > 0 ? (since + ii() - 1) / ii() : -(-since / ii());
  const std::vector<int> loop = part(role(product), Scope::iteration);
  int last = stage(product);
  for (const int other : loop) last = std::max(last, stage(other));
  const auto at_end = [&](std::int64_t awaited) { return awaited >= n_ || awaited + wait.distance >= n_; };
  std::int64_t awaited = iteration + younger;
  const bool lacks = awaited < 0 || awaited + wait.distance < 0 || at_end(awaited);
  if (lacks && !hands_back(product, iteration, at_end(awaited))) {
    awaited = std::max<std::int64_t>({0, awaited, -wait.distance});
    if (at_end(awaited)) return false;
  }
  waiter = {wait.by, static_cast<int>(awaited + wait.distance)};
  return waiter.iteration + stage(wait.by) < n_ + last;  // no step comes behind
}

std::int64_t TileRules::returns_of(int index) const {
  const std::vector<int> loop = part(role(index), Scope::iteration);
  return returns(loop, static_cast<std::size_t>(std::find(loop.begin(), loop.end(), index) - loop.begin()));
}

/// A role looks for the end of a product where a node waits for it or for a younger one. The wait begins when the node
/// before that one is done.
TileRules::Look TileRules::look_at(int product, int iteration) const {
  Look first;
  for (const Wait& wait : waits_of(role(product))) {
    Instance waiter;
    if (!looks(wait, product, iteration, waiter)) continue;
    const std::int64_t waits = cycle(wait.by) + std::int64_t{waiter.iteration} * ii();
    const Instance previous = before(wait.by, waiter.iteration);
    const bool any = previous.node >= 0;
    const std::int64_t issued = any ? cycle(previous.node) + previous.iteration * ii() : waits;
    const std::int64_t rest = any ? std::min(returns_of(previous.node), waits - issued) : 0;
    if (first.waiter.node >= 0 && issued + rest >= first.cycle) continue;
    first = {waiter,
             any ? Moment{previous.node, previous.iteration * ii() + rest} : Moment{wait.by, waiter.iteration * ii()},
             issued + rest};
  }
  return first;
}

/// The role looks at all that is under way behind its loop. Then it waits for what the last iteration leaves in a ring,
/// whose filling may wait for that look.
std::vector<TileRules::Moment> TileRules::after_loop(int of) const {
  const bool waits = std::any_of(graph_.edges.begin(), graph_.edges.end(), [&](const Edge& edge) {
    return edge.value >= 0 && edge.distance > 0 && role(edge.dst) == of && role(edge.src) != of;
  });
  if (!waits || n_ == 0) return {{events_.loop_end(of), 0}};
  std::vector<Moment> all;
  for (const int index : part(of, Scope::iteration)) all.push_back({index, (n_ - 1) * ii() + seen_after(node(index))});
  return all;
}

std::vector<TileRules::Moment> TileRules::looked(int product, int iteration) const {
  const Moment done{product, iteration * ii() + node(product).latency};
  if (waits_of(role(product)).empty()) return {done};  // as rings count it; no code is emitted for such a role
  const Look look = look_at(product, iteration);
  if (look.waiter.node < 0) return after_loop(role(product));
  return {look.begins, done};
}

/// The slot that a node of the loop reads in an iteration is free after all of these.
std::vector<TileRules::Moment> TileRules::released(const Edge& read, int filling, int slots) const {
  const int reader = read.dst, end = events_.loop_end(role(reader)), iteration = filling + read.distance;
  const bool inside = role(read.src) == role(reader);
  if (!loops(reader)) return read_at_end(reader);
  if (iteration >= n_) return {{end, 0}};
  const Moment done{reader, iteration * ii() + (inside ? std::max(1, node(reader).latency) : node(reader).latency)};
  if (inside) return {done};
  if (node(reader).async == Async::matrix) return looked(reader, iteration);
  if (node(reader).async != Async::store || slots == 1) return {done};
  const Instance next = next_store(reader, iteration);
  if (next.node < 0) return after_loop(role(reader));
  return {done, {next.node, next.iteration * ii() + node(next.node).cycles}};
}

std::vector<TileRules::Moment> TileRules::read_at_end(int reader) const {
  const graph::Node& n = node(reader);
  if (n.async == Async::matrix) return {{events_.leave(role(reader)), 0}};
  std::vector<Moment> all = {{reader, std::max(n.cycles, n.latency)}};
  const std::vector<int> end = part(role(reader), Scope::tile_end);
  const auto place = std::find(end.begin(), end.end(), reader);
  if (n.async != Async::store) return all;
  const auto next = std::find_if(place + 1, end.end(), [&](int index) { return node(index).async == Async::store; });
  if (next != end.end())
    all.push_back({*next, node(*next).cycles});  // looked for behind it
  else if (place + 1 != end.end())
    all.push_back({events_.leave(role(reader)), 0});
  if (place != end.begin() && node(*(place - 1)).async == Async::store)
    all.push_back({*(place - 1), node(*(place - 1)).latency});  // which is waited for first
  return all;
}

/// A role hands back what is filled once a tile after all of these.
std::vector<TileRules::Moment> TileRules::released_by(int value, int by) const {
  std::vector<Moment> all;
  std::vector<int> readers;
  for (const Edge& edge : graph_.edges)
    if (edge.value == value && role(edge.dst) == by) readers.push_back(edge.dst);
  for (const int reader : readers)
    if (node(reader).scope == Scope::tile_end)
      for (const Moment& each : read_at_end(reader)) all.push_back(each);
  if (!all.empty()) return all;
  const std::vector<int> loop = part(by, Scope::iteration);
  int first = 0, last = 0;
  for (const int index : loop) {
    first = index == loop.front() ? stage(index) : std::min(first, stage(index));
    last = index == loop.front() ? stage(index) : std::max(last, stage(index));
  }
  const bool early = n_ > 0 && last > first && last - first <= kEarlyStages;
  for (const int reader : readers) {
    const bool unit = loops(reader) && node(reader).async == Async::unit && n_ > 0;
    if (unit) all.push_back({reader, (n_ - 1) * ii() + node(reader).latency});
    if (!early || !loops(reader) || unit) continue;
    // Behind the call of the node that waits for it, or behind its own.
    const Instance seen =
        node(reader).async == Async::matrix ? look_at(reader, n_ - 1).waiter : Instance{reader, n_ - 1};
    const bool called = seen.node >= 0 && seen.iteration >= 0 && seen.iteration < n_;
    all.push_back(!called ? Moment{events_.loop_end(by), 0}
                          : Moment{seen.node, seen.iteration * ii() + node(seen.node).cycles});
  }
  if (!early) {
    all.push_back({events_.loop_end(by), 0});
  } else {  // in the steps that have no new iteration: behind the last one that has
    for (auto place = loop.rbegin(); place != loop.rend(); ++place)
      if (const int iteration = n_ - 1 + first - stage(*place); iteration >= 0) {
        all.push_back({*place, iteration * ii() + node(*place).cycles});
        break;
      }
  }
  return all;
}

// ---- who waits ------------------------------------------------------------------------------------------------------
void TileRules::rings() {
  for (const Ring& ring : schedule_.rings) {
    const graph::Value& value = graph_.values[at(ring.value)];
    if (value.scope == Scope::iteration)
      ring_of_loop(ring);
    else if (graph_.walks())
      ring_of_tile(ring);
  }
}

/// The filling that comes into a slot again, `slots` later, perhaps in a later tile.
void TileRules::ring_of_loop(const Ring& ring) {
  for (const Edge& read : graph_.edges) {
    if (read.value != ring.value || (role(read.src) == role(read.dst) && !schedule_.mixed_roles)) continue;
    for (int filling = loops(read.dst) ? 0 : std::max(0, n_ - 1); filling < n_; ++filling) {
      const int tiles = (filling + ring.slots) / n_, again = (filling + ring.slots) % n_;
      if (tiles > 0 && !graph_.walks()) break;
      for (const Moment& each : released(read, filling, ring.slots))
        follow(each, read.src, again, tiles, Why::ring, ring.value);
    }
  }
}

void TileRules::ring_of_tile(const Ring& ring) {
  for (const Edge& fill : graph_.edges) {
    if (fill.value != ring.value) continue;
    const int waits = loops(fill.src) ? events_.loop_begin(role(fill.src)) : fill.src;  // sums: before the loop
    for (const int reader : ring.consumer_roles)
      for (const Moment& each : released_by(ring.value, reader))
        follow(each, waits, 0, ring.slots, Why::ring, ring.value);
  }
}

void TileRules::places() {
  for (const graph::Sharing& sharing : graph::sharings(graph_)) {
    if (slots_of(sharing.first) == 0 || slots_of(sharing.second) == 0) continue;
    take_turns(sharing, false);
    if (graph_.walks()) take_turns(sharing, true);
  }
  if (n_ == 0) return;
  for (const Edge& edge : graph::place_edges(graph_)) {
    if (edge.distance < n_) rule(edge.src, edge.dst, edge.delay - edge.distance * ii(), 0, Why::order);
  }
}

/// The filler of one value of a place waits until the other has been read. `back`: the second one's of the tile before.
void TileRules::take_turns(const graph::Sharing& sharing, bool back) {
  const int before = back ? sharing.second : sharing.first, after = sharing.other(before);
  if (sharing.every_iteration && (!back || n_ == 0)) return;  // edges of the loop
  const bool of_loop = graph_.values[at(before)].scope == Scope::iteration;
  if (of_loop && n_ == 0) return;
  for (const Edge& fill : graph_.edges) {
    if (fill.value != after) continue;
    if (loops(fill.src) && n_ == 0) continue;
    const bool first_filling = loops(fill.src) && (sharing.every_iteration || copies_alone(role(fill.src)));
    const int waits = loops(fill.src) && !first_filling ? events_.loop_begin(role(fill.src)) : fill.src;
    for (const Edge& read : graph_.edges) {
      if (read.value != before) continue;
      const std::vector<Moment> all = of_loop ? released(read, n_ - 1, 2) : released_by(before, role(read.dst));
      for (const Moment& each : all) follow(each, waits, 0, back ? 1 : 0, Why::place, after);
    }
  }
}

/// Does the role's loop only issue copies? Then it waits in front of its first filling, not of its loop.
bool TileRules::copies_alone(int of) const {
  const std::vector<int> loop = part(of, Scope::iteration);
  return std::all_of(loop.begin(), loop.end(), [&](int index) { return graph::issued_by_one(node(index).async); });
}

}  // namespace tj::sched
