// See tensor_memory.hpp.
#include "model/tensor_memory.hpp"

#include <algorithm>
#include <cstring>

#include "model/block.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

constexpr std::uint32_t kInFlight =
    0x7fa0dead;  // as a warpgroup's accumulators have: a signalling NaN, which arithmetic changes

const char* name_of_move(bool store, tj_model_tensor_shape shape) {
  if (shape == TJ_MODEL_ROWS) return store ? "tensor_store" : "tensor_load";
  if (shape == TJ_MODEL_OPERAND) return store ? "tensor_store_operand" : "tensor_load_operand";
  return store ? "tensor_store_fragment" : "tensor_load_fragment";
}

}  // namespace

std::string text_of(const TensorRange& range) {
  return cat("lanes ", range.lane, "-", range.lane + range.lanes - 1, range.apart ? " (16 of each 32)" : "",
             ", columns ", range.column, "-", range.column + range.columns - 1);
}

void TensorMemory::reset() {
  allocations_.clear();
  least_ = kColumns;
  relinquished_ = false;
  waiting_.clear();
  blocks_ = 0;
  come_ = {};
  moves_.assign(warps_, {});
}

// ---- cells --------------------------------------------------------------------------------------

TensorRange TensorMemory::range(const Thread& thread, std::uint32_t tensor, unsigned lanes, unsigned columns,
                                const char* what) const {
  const TensorRange range{tensor >> 16, lanes, tensor & 0xffffu, columns};
  if (range.lane + lanes > kLanes || range.column + columns > kColumns)
    fault(thread, cat(what, " of ", text_of(range), " of tensor memory, which has ", kLanes, " lanes and ", kColumns,
                      " columns"));
  const auto inside = [&](const Allocation& a) {
    return range.column >= a.column && range.column + columns <= a.column + a.columns;
  };
  if (std::any_of(allocations_.begin(), allocations_.end(), inside)) return range;
  const auto begins = [&](const Allocation& a) {
    return range.column >= a.column && range.column < a.column + a.columns;
  };
  const auto found = std::find_if(allocations_.begin(), allocations_.end(), begins);
  if (found == allocations_.end())
    fault(thread, cat(what, " of ", text_of(range), " of tensor memory, which are not allocated"));
  fault(thread, cat(what, " of ", text_of(range), " of tensor memory, beyond the ", found->columns,
                    " columns that are allocated from ", found->column, " on"));
}

// ---- loads and stores ---------------------------------------------------------------------------

void TensorMemory::load(Thread& thread, std::uint32_t tensor, std::uint32_t* words, int count,
                        tj_model_tensor_shape shape) {
  const Request request{tensor, words, count, shape};
  thread.block->warps[thread.warp()].meet_all(
      scheduler_, thread, WarpUnit::Kind::tensor_load, &request,
      [](Thread& last, const Requests& requests) { last.block->tensor.move_all(last, requests, false); });
}

void TensorMemory::store(Thread& thread, std::uint32_t tensor, const std::uint32_t* words, int count,
                         tj_model_tensor_shape shape) {
  const Request request{tensor, const_cast<std::uint32_t*>(words), count, shape};
  thread.block->warps[thread.warp()].meet_all(
      scheduler_, thread, WarpUnit::Kind::tensor_store, &request,
      [](Thread& last, const Requests& requests) { last.block->tensor.move_all(last, requests, true); });
}

void TensorMemory::move_all(Thread& last, const Requests& requests, bool store) {
  const Request& own = *static_cast<const Request*>(requests[last.lane()]);
  const char* what = name_of_move(store, own.shape);
  Move move;
  move.count = own.count;
  move.shape = own.shape;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    const Request& other = *static_cast<const Request*>(requests[lane]);
    if (other.tensor != own.tensor || other.count != own.count || other.shape != own.shape)
      fault(last,
            cat(what, ": the lanes of its warp name different cells; all 32 must name the same address and count"));
    move.to[lane] = other.words;
  }
  const bool rows = own.shape == TJ_MODEL_ROWS;
  const auto count = static_cast<unsigned>(own.count);
  move.range = range(last, own.tensor, rows ? kWarpLanes : kWarpLanes / 2, rows ? count : 2 * count, what);
  const unsigned quarter = last.warp() % kGroupWarps * kWarpLanes;
  if (move.range.lane != quarter && (rows || move.range.lane != quarter + kWarpLanes / 2))
    fault(last, cat(what, " of ", text_of(move.range), " of tensor memory; warp ", last.warp(), " reaches lanes ",
                    quarter, " to ", quarter + kWarpLanes - 1,
                    rows ? ", and begins at the first" : ", and begins at the first or the seventeenth"));
  if (store)
    last.block->tensor_order.store(last, move.range);
  else
    last.block->tensor_order.load(last, move.range);
  PerWarp& mine = moves_[last.warp()];
  const std::uint32_t* registers = move.to[last.lane()];
  for (const Move& load : mine.loads)
    if (const std::uint32_t* taken = load.to[last.lane()]; registers < taken + load.count && taken < registers + count)
      fault(last, cat(what, store ? " out of" : " into", " registers to which a ", name_of_move(false, load.shape),
                      " is under way; tensor_load_wait is missing between the two"));
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (store)
      move.values.insert(move.values.end(), move.to[lane], move.to[lane] + count);
    else
      std::fill_n(move.to[lane], count, kInFlight);
  }
  (store ? mine.stores : mine.loads).push_back(std::move(move));
}

std::uint32_t& TensorMemory::cell(const Move& move, unsigned lane, int index) {
  const auto i = static_cast<unsigned>(index);
  if (move.shape == TJ_MODEL_ROWS) return row(move.range.lane + lane)[move.range.column + i];
  if (move.shape == TJ_MODEL_OPERAND)
    return row(move.range.lane + lane / 4 + 8 * (i % 2))[move.range.column + 4 * (i / 2) + lane % 4];
  return row(move.range.lane + lane / 4 + 8 * (i / 2 % 2))[move.range.column + 8 * (i / 4) + 2 * (lane % 4) + i % 2];
}

void TensorMemory::wait(Thread& thread, bool stores) {
  const auto kind = stores ? WarpUnit::Kind::tensor_store_wait : WarpUnit::Kind::tensor_load_wait;
  thread.block->warps[thread.warp()].meet_all(
      scheduler_, thread, kind, nullptr,
      stores ? [](Thread& last, const Requests&) { last.block->tensor.wait_all(last, true); }
             : [](Thread& last, const Requests&) { last.block->tensor.wait_all(last, false); });
}

void TensorMemory::wait_all(Thread& last, bool stores) {
  last.block->tensor_order.waited(last, stores);
  PerWarp& mine = moves_[last.warp()];
  if (stores) {
    for (const Move& store : mine.stores)
      for (unsigned lane = 0; lane < kWarpLanes; ++lane)
        for (int i = 0; i < store.count; ++i)
          cell(store, lane, i) = store.values[lane * static_cast<unsigned>(store.count) + static_cast<unsigned>(i)];
    mine.stores.clear();
    return;
  }
  for (const Move& load : mine.loads) arrive(last, load);
  mine.loads.clear();
}

void TensorMemory::arrive(const Thread& last, const Move& load) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    const Thread& thread = scheduler_.thread(last.warp() * kWarpLanes + lane);
    for (int i = 0; i < load.count; ++i) {
      std::uint32_t& word = load.to[lane][i];
      if (word != kInFlight)
        fault(thread, cat("registers of a ", name_of_move(false, load.shape),
                          " changed between its issue and its tensor_load_wait"));
      word = cell(load, lane, i);
    }
  }
}

// ---- the end ------------------------------------------------------------------------------------

void TensorMemory::ended(const Thread& thread) const {
  if (cells_.empty()) return;
  const PerWarp& mine = moves_[thread.warp()];
  if (!mine.loads.empty())
    fault(thread, cat("ends while ", mine.loads.size(),
                      " loads of tensor memory by its warp have not been waited for; tensor_load_wait is missing"));
  if (!mine.stores.empty())
    fault(thread, cat("ends while ", mine.stores.size(),
                      " stores to tensor memory by its warp have not been waited for; tensor_store_wait is missing"));
}

void TensorMemory::ended() const {
  if (allocations_.empty()) return;
  const Allocation& left = allocations_.front();
  fault(cat("block ", scheduler_.thread(0).self.block, " ends while ", left.columns, " columns of tensor memory at ",
            hex(left.column), " are allocated; tensor_free is missing"));
}

}  // namespace tj::model
