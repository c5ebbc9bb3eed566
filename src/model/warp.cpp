// See warp.hpp.
#include "model/warp.hpp"

#include "model/cluster.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

const char* name(WarpUnit::Kind kind) {
  switch (kind) {
    case WarpUnit::Kind::sync:
      return "warp_sync";
    case WarpUnit::Kind::elect:
      return "elect_one";
    case WarpUnit::Kind::shuffle:
      return "shuffle";
    case WarpUnit::Kind::shuffle_xor:
      return "shuffle_xor";
    case WarpUnit::Kind::any:
      return "any_in_warp";
    case WarpUnit::Kind::load_matrices:
      return "load_matrices";
    case WarpUnit::Kind::mma:
      return "mma_m16n8k16";
    case WarpUnit::Kind::wave_mma:
      return "mma_m16n16k16";
    case WarpUnit::Kind::tensor_allocate:
      return "tensor_allocate";
    case WarpUnit::Kind::tensor_relinquish:
      return "tensor_relinquish";
    case WarpUnit::Kind::tensor_free:
      return "tensor_free";
    case WarpUnit::Kind::tensor_load:
      return "tensor_load";
    case WarpUnit::Kind::tensor_store:
      return "tensor_store";
    case WarpUnit::Kind::tensor_load_wait:
      return "tensor_load_wait";
    case WarpUnit::Kind::tensor_store_wait:
      return "tensor_store_wait";
  }
  return "?";
}

}  // namespace

void WarpUnit::check(const Thread& thread, Kind kind) {
  if (arrived_ == 0)
    kind_ = kind;
  else if (kind_ != kind)
    fault(thread, support::cat("executes ", name(kind), " while other lanes of its warp are in ", name(kind_), "; all ",
                               thread.warp_threads, " lanes must execute the same"));
}

bool WarpUnit::last_to_come(Scheduler& scheduler, Thread& thread) {
  arrived_ |= std::uint64_t{1} << thread.lane();
  if (arrived_ == ~std::uint64_t{0} >> (kMaxWarpThreads - thread.warp_threads)) return true;
  scheduler.park(thread, {WaitKind::warp, 0, 0, 0, 0});
  return false;
}

void WarpUnit::release(Scheduler& scheduler, const Thread& thread) {
  arrived_ = 0;
  for (unsigned other = 0; other < thread.warp_threads; ++other)
    if (other != thread.lane()) scheduler.wake(scheduler.thread(thread.warp() * thread.warp_threads + other));
}

std::uint32_t WarpUnit::meet(Scheduler& scheduler, Thread& thread, Kind kind, std::uint32_t value,
                             std::uint32_t operand) {
  const unsigned lane = thread.lane();
  check(thread, kind);
  if ((kind == Kind::shuffle || kind == Kind::shuffle_xor) && operand >= thread.warp_threads)
    fault(thread, support::cat(name(kind), " with ", kind == Kind::shuffle ? "lane " : "mask ", operand,
                               "; allowed are 0 to ", thread.warp_threads - 1));
  value_[lane] = value;
  operand_[lane] = operand;
  if (last_to_come(scheduler, thread)) {
    finish(thread.warp_threads);
    if (kind == Kind::sync) order_lanes(scheduler, thread);
    release(scheduler, thread);
  }
  return result_[lane];
}

void WarpUnit::meet_all(Scheduler& scheduler, Thread& thread, Kind kind, const void* request,
                        void (*work)(Thread& last, const Requests& requests)) {
  check(thread, kind);
  requests_[thread.lane()] = request;
  if (!last_to_come(scheduler, thread)) return;
  work(thread, requests_);
  release(scheduler, thread);
}

void WarpUnit::order_lanes(Scheduler& scheduler, const Thread& thread) {
  Order& order = thread.block->cluster.order;
  const auto lane = [&](unsigned l) { return scheduler.thread(thread.warp() * thread.warp_threads + l).actor; };
  Order::Gathering gathering;
  for (unsigned l = 0; l < thread.warp_threads; ++l) order.publish(lane(l), gathering);
  const Order::Known known = gathering.take();
  for (unsigned l = 0; l < thread.warp_threads; ++l) order.observe(lane(l), known);
}

void WarpUnit::finish(unsigned lanes) {
  std::uint32_t any = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) any |= value_[lane] != 0 ? 1u : 0u;
  for (unsigned lane = 0; lane < lanes; ++lane)
    result_[lane] = kind_ == Kind::shuffle       ? value_[operand_[lane]]
                    : kind_ == Kind::shuffle_xor ? value_[lane ^ operand_[lane]]
                                                 : any;
}

}  // namespace tj::model
