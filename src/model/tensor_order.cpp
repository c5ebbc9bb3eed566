// See tensor_order.hpp.
#include "model/tensor_order.hpp"

#include <algorithm>

#include "model/block.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

}  // namespace

TensorOrder::TensorOrder(Monitor& monitor, Scheduler& scheduler) : monitor_(monitor), scheduler_(scheduler) {}

void TensorOrder::reset() {
  used_ = false;
  products_.clear();
  warps_.assign(scheduler_.size() / kWarpLanes + 1, {});
  usable_.assign(scheduler_.size(), nullptr);
}

// ---- who does what ------------------------------------------------------------------------------

TensorOrder::PerWarp& TensorOrder::warp_of(const Thread& thread) {
  PerWarp& warp = warps_[thread.warp()];
  if (warp.used) return warp;
  warp.used = true;
  for (Kind* kind : {&warp.loads, &warp.stores}) {
    kind->agent = monitor_.order.add_agent();
    kind->fenced = monitor_.order.add_agent();
  }
  return warp;
}

TensorOrder::Products& TensorOrder::products_of(const Thread& thread) {
  const auto found = std::find_if(products_.begin(), products_.end(),
                                  [&](const Products& each) { return each.thread == thread.index(); });
  if (found != products_.end()) return *found;
  products_.push_back({thread.index(), monitor_.order.add_agent(), 0});
  return products_.back();
}

TensorOrder::Id TensorOrder::add(const Thread& thread, By by, const TensorRange& cells, Order::Agent agent,
                                 Order::Agent fenced, Order::Time time) {
  accesses_.push_back({by, thread.actor, agent, fenced, time, cells, thread.call, thread.iteration});
  return static_cast<Id>(accesses_.size() - 1);
}

void TensorOrder::load(const Thread& last, const TensorRange& cells) {
  Kind& kind = warp_of(last).loads;
  read(last, add(last, By::load, cells, kind.agent, kind.fenced, ++kind.issued), true);
}

void TensorOrder::store(const Thread& last, const TensorRange& cells) {
  Kind& kind = warp_of(last).stores;
  write(last, add(last, By::store, cells, kind.agent, kind.fenced, ++kind.issued), true);
}

void TensorOrder::waited(const Thread& last, bool stores) {
  PerWarp& warp = warp_of(last);
  Kind& kind = stores ? warp.stores : warp.loads;
  if (kind.waited == kind.issued) return;
  kind.waited = kind.issued;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    monitor_.order.observe(scheduler_.thread(last.warp() * kWarpLanes + lane).actor, kind.agent, kind.waited);
}

void TensorOrder::fence(const Thread& thread, bool after) {
  if (after) {
    usable_[thread.index()] = monitor_.order.known(thread.actor);
    return;
  }
  PerWarp& warp = warp_of(thread);
  for (Kind* kind : {&warp.loads, &warp.stores}) {
    kind->said[thread.lane()] = kind->waited;
    // The last lane to say it says it for all: earlier messages of the others are about their earlier accesses.
    const Order::Time all = *std::min_element(kind->said.begin(), kind->said.end());
    if (all != 0) monitor_.order.observe(thread.actor, kind->fenced, all);
  }
}

TensorOrder::Done TensorOrder::next(const Thread& thread) {
  Products& products = products_of(thread);
  return {products.agent, ++products.issued, nullptr};
}

void TensorOrder::product(const Thread& thread, const Done& done, const TensorRange& sums, bool accumulate,
                          const TensorRange* left) {
  if (left != nullptr) read(thread, add(thread, By::left, *left, done.agent, done.agent, done.time), false);
  const Id id = add(thread, By::sums, sums, done.agent, done.agent, done.time);
  if (accumulate)
    visit(sums, [&](const Cell& cell) {
      if (cell.writer == kNever) unwritten(thread, accesses_[id]);
    });
  write(thread, id, false);
}

TensorOrder::Done TensorOrder::issued(const Thread& thread) {
  const Products& products = products_of(thread);
  return {products.agent, products.issued, monitor_.order.known(thread.actor)};
}

// ---- cells --------------------------------------------------------------------------------------

void TensorOrder::allocated(unsigned column, unsigned columns) {
  if (!used_) {
    used_ = true;
    first_column_ = column;
    accesses_.assign(1, {});
    cells_.assign(std::size_t{kLaneSteps} * TensorMemory::kColumns, {});
    return;
  }
  visit({0, TensorMemory::kLanes, column, columns}, [](Cell& cell) {
    cell.writer = kNever;
    cell.readers.clear();
  });
}

void TensorOrder::freed(const Thread& last, unsigned column, unsigned columns) {
  const auto known = [&](Id id) {
    const Access& access = accesses_[id];
    if (!monitor_.order.knows(last.actor, access.agent, access.time))
      fault(last, cat("tensor_free of ", columns, " columns from ", column, " on, of which ", text_of(access.cells),
                      " may still be used by ", who(last, access), "; nobody has told this thread that it is done"));
  };
  visit({0, TensorMemory::kLanes, column, columns}, [&](Cell& cell) {
    if (cell.writer != kNever) known(cell.writer);
    for (const Id reader : cell.readers) known(reader);
  });
}

template <class Visit>
void TensorOrder::visit(const TensorRange& cells, Visit&& visit) {
  const unsigned end = (cells.lane + cells.lanes + kLaneStep - 1) / kLaneStep;
  for (unsigned step = cells.lane / kLaneStep; step < end; step += cells.apart ? 2 : 1)
    for (unsigned column = cells.column; column < cells.column + cells.columns; ++column)
      visit(cells_[std::size_t{step} * TensorMemory::kColumns + column]);
}

void TensorOrder::read(const Thread& thread, Id id, bool by_warp) {
  check_slot(thread, id, by_warp);
  Id checked = kNever;
  visit(accesses_[id].cells, [&](Cell& cell) {
    if (cell.writer == kNever) unwritten(thread, accesses_[id]);
    if (cell.writer != checked) check(thread, id, cell.writer, by_warp);
    checked = cell.writer;
    const auto same = [&](Id reader) { return accesses_[reader].agent == accesses_[id].agent; };
    cell.readers.erase(std::remove_if(cell.readers.begin(), cell.readers.end(), same), cell.readers.end());
    cell.readers.push_back(id);
  });
}

void TensorOrder::write(const Thread& thread, Id id, bool by_warp) {
  const Monitor::Told told = check_slot(thread, id, by_warp);
  Id written = kNever, read = kNever;
  visit(accesses_[id].cells, [&](Cell& cell) {
    for (const Id reader : cell.readers) {
      if (reader != read) {
        check(thread, id, reader, by_warp);
        check_told(thread, id, reader, told);
      }
      read = reader;
    }
    if (cell.writer != kNever && cell.writer != written) {
      check(thread, id, cell.writer, by_warp);
      check_told(thread, id, cell.writer, told);
    }
    written = cell.writer;
    cell.writer = id;
    cell.readers.clear();
  });
}

// ---- order --------------------------------------------------------------------------------------

void TensorOrder::check(const Thread& thread, Id later, Id prior, bool by_warp) const {
  if (later == prior) return;
  const Access &before = accesses_[prior], &after = accesses_[later];
  const auto check_one = [&](const Thread& one) {
    const Lack lacks = lack(before, one, after);
    if (lacks != Lack::nothing) report(one, after, before, lacks);
  };
  if (!by_warp) return check_one(thread);
  each_lane(thread, check_one);
}

template <class Check>
void TensorOrder::each_lane(const Thread& of, Check&& check) const {
  const void* passed = this;  // the knowledge of a lane that was found to be enough
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    const Thread& one = scheduler_.thread(of.warp() * kWarpLanes + lane);
    if (usable(one).get() == passed) continue;
    check(one);
    passed = usable(one).get();
  }
}

Monitor::Told TensorOrder::check_slot(const Thread& thread, Id id, bool by_warp) const {
  const Access& access = accesses_[id];
  const auto check_one = [&](const Thread& one) {
    return monitor_.check_columns(one, access.by == By::store || access.by == By::sums,
                                  access.cells.column - first_column_, usable(one));
  };
  if (!by_warp) return check_one(thread);
  each_lane(thread, check_one);
  return {};
}

// A tensor_before_sync must stand between the loads and stores of a slot that a product overwrites and the arrival at
// the slot's own barrier. Order by another barrier holds for one schedule only.
void TensorOrder::check_told(const Thread& thread, Id later, Id prior, const Monitor::Told& told) const {
  const Access& before = accesses_[prior];
  const bool moved = before.by == By::load || before.by == By::store;
  if (told.ring == nullptr || !moved || !monitor_.reads(before.call, *told.ring) ||
      monitor_.order.knows(told.known, before.fenced, before.time))
    return;
  report(thread, accesses_[later], before, Lack::before);
}

const Order::Known& TensorOrder::usable(const Thread& thread) {
  return thread.block->tensor_order.usable_[thread.index()];
}

bool TensorOrder::pipelined(const Access& prior, const Access& later) const {
  if (prior.actor != later.actor || later.by != By::sums) return false;
  if (prior.by == By::left) return true;
  return prior.by == By::sums && prior.cells.column == later.cells.column &&
         prior.cells.columns == later.cells.columns && prior.cells.apart == later.cells.apart;
}

TensorOrder::Lack TensorOrder::lack(const Access& prior, const Thread& thread, const Access& later) const {
  if (pipelined(prior, later)) return Lack::nothing;
  const bool moved = prior.by == By::load || prior.by == By::store;
  if (moved && prior.actor / kWarpLanes == thread.actor / kWarpLanes) {
    const PerWarp& warp = warps_[thread.warp()];
    return prior.time <= (prior.by == By::load ? warp.loads : warp.stores).waited ? Lack::nothing : Lack::own_wait;
  }
  const Order& order = monitor_.order;
  if (order.knows(usable(thread), prior.fenced, prior.time)) return Lack::nothing;
  if (!order.knows(thread.actor, prior.agent, prior.time)) return Lack::everything;
  return order.knows(thread.actor, prior.fenced, prior.time) ? Lack::after : Lack::before;
}

// ---- reports ------------------------------------------------------------------------------------

std::string TensorOrder::who(const Thread& asking, const Access& access) const {
  const unsigned rank = access.actor / scheduler_.size();
  const std::string block = rank == asking.block->rank ? std::string() : cat("the block of rank ", rank, ", ");
  return block +
         monitor_.who(access.actor, access.call, access.iteration, access.by == By::load || access.by == By::store);
}

void TensorOrder::unwritten(const Thread& thread, const Access& access) const {
  static constexpr const char* kDoes[] = {"loads", "stores", "adds to", "multiplies"};
  fault(cat(monitor_.kernel(), "block ", thread.self.block, ": ", who(thread, access), " ",
            kDoes[static_cast<int>(access.by)], " ", text_of(access.cells),
            " of tensor memory, some of which nobody has written since their allocation"));
}

void TensorOrder::report(const Thread& thread, const Access& later, const Access& prior, Lack lack) const {
  static constexpr const char* kDoes[] = {"loads", "stores", "issues a product whose sums are",
                                          "issues a product whose left operand is"};
  static constexpr const char* kDid[] = {"has loaded", "has stored", "has issued a product on as sums",
                                         "has issued a product on as left operand"};
  const bool moved = prior.by == By::load || prior.by == By::store;
  const char* wait = prior.by == By::load ? "tensor_load_wait" : "tensor_store_wait";
  std::string missing;
  const std::string other =
      thread.block == scheduler_.thread(0).block ? std::string() : cat(" of block ", scheduler_.thread(0).self.block);
  switch (lack) {
    case Lack::own_wait:
      missing = cat("a ", wait, " is missing between the two");
      break;
    case Lack::before:
      missing = cat("a tensor_before_sync is missing after the ", wait,
                    " there and before the sync, in all lanes of the warp");
      break;
    case Lack::after:
      missing = "a tensor_after_sync is missing between the sync and this";
      break;
    default:
      missing = moved
                    ? cat("nothing orders the two: nobody has told this thread that the warp's ", wait, " has returned")
                    : "nothing orders the two: this thread has not waited on a barrier that a matrix_commit after the "
                      "product arrives at";
  }
  fault(cat(monitor_.kernel(), "block ", thread.self.block, ": ", who(thread, later), " ",
            kDoes[static_cast<int>(later.by)], " ", text_of(later.cells), " of tensor memory", other, ", where ",
            who(thread, prior), " ", kDid[static_cast<int>(prior.by)], " ", text_of(prior.cells), "; ", missing));
}

}  // namespace tj::model
