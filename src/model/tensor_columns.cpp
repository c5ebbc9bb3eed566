// Ownership of the columns of tensor memory: see tensor_memory.hpp.
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "model/cluster.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

constexpr unsigned kPlaceBytes = 4;

void check_columns(const Thread& thread, std::uint32_t columns) {
  if (columns < TensorMemory::kUnit || columns > TensorMemory::kColumns || !std::has_single_bit(columns))
    fault(thread, cat("tensor_allocate of ", columns, " columns; allowed are powers of two from ", TensorMemory::kUnit,
                      " to ", TensorMemory::kColumns));
}

const char* name_of(WarpUnit::Kind kind) {
  if (kind == WarpUnit::Kind::tensor_allocate) return "tensor_allocate";
  return kind == WarpUnit::Kind::tensor_free ? "tensor_free" : "tensor_relinquish";
}

}  // namespace

void TensorMemory::use(const Thread& thread, int blocks) {
  const auto count = static_cast<unsigned>(blocks);
  if (blocks_ == 0) blocks_ = count;
  if (blocks_ != count)
    fault(thread,
          cat("tensor memory by ", count == 2 ? "a pair of blocks" : "one block", " after ",
              blocks_ == 2 ? "a pair of blocks" : "one block", "; allowed is one of the two throughout a kernel"));
  if (count == 2 && thread.block->cluster.size() % 2 != 0)
    fault(thread, cat("tensor memory by a pair of blocks in a cluster of ", thread.block->cluster.size(),
                      "; allowed are clusters of an even number of blocks"));
}

Block& TensorMemory::other_of_pair(const Thread& thread, const char* what) {
  return thread.block->cluster.peer(thread, thread.block->rank ^ 1u, what);
}

// ---- requests of a warp, alone or with a warp of the other block --------------------------------

void TensorMemory::allocate(Thread& thread, std::uint32_t place, std::uint32_t columns) {
  ask(thread, WarpUnit::Kind::tensor_allocate, place, columns);
}
void TensorMemory::relinquish(Thread& thread) { ask(thread, WarpUnit::Kind::tensor_relinquish, 0, 0); }
void TensorMemory::free(Thread& thread, std::uint32_t tensor, std::uint32_t columns) {
  ask(thread, WarpUnit::Kind::tensor_free, tensor, columns);
}

void TensorMemory::ask(Thread& thread, WarpUnit::Kind kind, std::uint32_t tensor, std::uint32_t columns) {
  const Asked asked{&thread, kind, tensor, columns};
  thread.block->warps[thread.warp()].meet_all(
      scheduler_, thread, kind, &asked, [](Thread& last, const Requests& requests) {
        const Asked& own = *static_cast<const Asked*>(requests[last.lane()]);
        for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
          const Asked& other = *static_cast<const Asked*>(requests[lane]);
          if (other.tensor != own.tensor || other.columns != own.columns)
            fault(last,
                  cat(name_of(own.kind),
                      ": the lanes of its warp ask for different columns or places; all 32 must ask for the same"));
        }
        last.block->tensor.take_part(own);
      });
}

void TensorMemory::take_part(const Asked& own) {
  Thread& last = *own.thread;
  if (blocks_ != 2) return perform({&own, 1});
  Block& peer = other_of_pair(last, name_of(own.kind));
  Asked& other = peer.tensor.come_;
  if (other.thread == nullptr) {
    come_ = own;
    return scheduler_.park(last, {WaitKind::tensor_pair, 0, 0, 0, 0});
  }
  if (other.kind != own.kind || other.columns != own.columns)
    fault(last,
          cat(name_of(own.kind), " of ", own.columns, " columns while the warp of the other block of its pair is in ",
              name_of(other.kind), " of ", other.columns, "; the two must do the same"));
  const Asked both[] = {own, other};
  perform(both);
  peer.scheduler.wake(*std::exchange(other.thread, nullptr));
}

void TensorMemory::perform(std::span<const Asked> all) {
  switch (all.front().kind) {
    case WarpUnit::Kind::tensor_allocate:
      return allocate_for(all);
    case WarpUnit::Kind::tensor_free:
      for (const Asked& asked : all) asked.thread->block->tensor.give_back(asked);
      return;
    default:
      for (const Asked& asked : all) asked.thread->block->tensor.relinquished_ = true;
  }
}

// ---- columns ------------------------------------------------------------------------------------

// Nothing here owns memory: a thread that waits for ever is left where it is.
void TensorMemory::allocate_for(std::span<const Asked> all) {
  Thread& last = *all.front().thread;
  const unsigned columns = all.front().columns;
  check_columns(last, columns);
  if (relinquished_)
    fault(last,
          "tensor_allocate after tensor_relinquish; allowed is none: the block has given up its right to allocate");
  if (columns > least_)
    fault(last,
          cat("tensor_allocate of ", columns, " columns after one of ", least_, "; allowed is no more than that"));
  least_ = columns;
  // Both blocks of a pair have the same columns: what one allocates and frees, the other does.
  int column = fitting(columns);
  for (; column < 0; column = fitting(columns)) {
    waiting_.push_back(&last);
    scheduler_.park(last, {WaitKind::tensor, 0, columns, 0, 0});
  }
  for (const Asked& asked : all) asked.thread->block->tensor.take(asked, static_cast<unsigned>(column));
}

void TensorMemory::take(const Asked& asked, unsigned column) {
  allocations_.push_back({column, asked.columns});
  least_ = asked.columns;
  cells_.resize(std::size_t{kLanes} * kColumns);
  for (unsigned lane = 0; lane < kLanes; ++lane) std::fill_n(row(lane) + column, asked.columns, kPoison);
  Block& block = *asked.thread->block;
  block.tensor_order.allocated(column, asked.columns);
  const std::uint32_t address = column;
  std::memcpy(block.ordinary_write(*asked.thread, asked.tensor, kPlaceBytes, "tensor_allocate's address"), &address,
              kPlaceBytes);
}

// From the end on, so that a forgotten address shows: the first column is the last to be given away.
int TensorMemory::fitting(unsigned columns) const {
  for (int column = static_cast<int>(kColumns - columns); column >= 0; column -= static_cast<int>(columns)) {
    const auto begin = static_cast<unsigned>(column);
    const auto meets = [&](const Allocation& other) {
      return begin < other.column + other.columns && other.column < begin + columns;
    };
    if (std::none_of(allocations_.begin(), allocations_.end(), meets)) return column;
  }
  return -1;
}

void TensorMemory::give_back(const Asked& asked) {
  const auto same = [&](const Allocation& allocation) {
    return allocation.column == asked.tensor && allocation.columns == asked.columns;
  };
  const auto found = std::find_if(allocations_.begin(), allocations_.end(), same);
  if (found == allocations_.end())
    fault(*asked.thread,
          cat("tensor_free of ", asked.columns, " columns at ", hex(asked.tensor),
              ", which was not allocated so; allowed are an address that tensor_allocate gave and its columns, once"));
  Block& block = *asked.thread->block;
  block.tensor_order.freed(*asked.thread, found->column, found->columns);
  if (blocks_ == 2)
    other_of_pair(*asked.thread, "tensor_free").tensor_order.freed(*asked.thread, found->column, found->columns);
  allocations_.erase(found);
  for (Thread* thread : waiting_) scheduler_.wake(*thread);
  waiting_.clear();
}

std::string TensorMemory::shortage(unsigned columns) const {
  unsigned allocated = 0;
  for (const Allocation& allocation : allocations_) allocated += allocation.columns;
  return cat(columns, " columns of tensor memory; ", allocated, " of ", kColumns, " are allocated");
}

std::string TensorMemory::other_of_pair() const {
  return come_.thread == nullptr ? std::string("the other block of its pair")
                                 : cat("the warp of the other block of its pair, to do the same ", name_of(come_.kind));
}

}  // namespace tj::model
