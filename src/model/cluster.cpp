// See cluster.hpp. Rules: PTX ISA 8.7, "barrier.cluster", "mapa" and "cp.async.bulk.tensor" with multicast.
#include "model/cluster.hpp"

#include <algorithm>
#include <iterator>

#include "model/global_memory.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;
using support::fail;

}  // namespace

Cluster::Cluster(const Launch& launch, StackPool& pool, GlobalMemory* global)
    : order(launch.threads * launch.cluster), launch_(launch), global_(global) {
  for (unsigned rank = 0; rank < launch.cluster; ++rank)
    blocks_.push_back(std::make_unique<Block>(launch, pool, *this, rank));
}

void Cluster::begin(unsigned first_block) {
  waiting_.clear();
  order.reset();
  gathering_.take();
  current_ = nullptr;
  stuck_.assign(blocks_.size(), false);
  state_ = launch_.options.seed * 0xd1342543de82ef95ull + first_block;
  for (unsigned rank = 0; rank < size(); ++rank) blocks_[rank]->start(first_block + rank);
  if (global_ != nullptr) global_->begin(*this);
  draw_manner();
}

void Cluster::run(unsigned first_block) {
  begin(first_block);
  while (step()) {
  }
  if (!ended())
    fail(Stage::model, Code::deadlock,
         cat("deadlock in ", name(), " at step ", blocks_[0]->scheduler.step(),
             ": no thread can run and nothing is under way; the log says who waits for what"),
         report());
}

bool Cluster::step() {
  // Another cluster may have woken a thread here since the last step.
  std::fill(stuck_.begin(), stuck_.end(), false);
  try {
    while (Block* block = next()) {
      const bool moved = block->step();
      current_ = moved ? block : nullptr;
      if (moved) return true;
      stuck_[block->rank] = true;
    }
  } catch (const Error& e) {
    fail(e.stage, e.code, e.message, report());
  }
  return false;
}

bool Cluster::ended() const {
  return std::none_of(blocks_.begin(), blocks_.end(), [](const auto& block) { return block->alive(); });
}

// Blocks in turns of some length, or one far ahead: it moves whenever it can, the others only when it waits.
void Cluster::draw_manner() {
  static constexpr std::uint64_t kStretch[] = {1, 8, 128};
  favourite_ = nullptr;
  if (size() == 1) return;
  stretch_ = kStretch[split_mix(state_) % std::size(kStretch)];
  if (split_mix(state_) % 2 == 0) favourite_ = blocks_[split_mix(state_) % size()].get();
}

Block* Cluster::next() {
  const auto can_move = [&](const Block* block) { return block != nullptr && block->alive() && !stuck_[block->rank]; };
  if (size() == 1) return can_move(blocks_[0].get()) ? blocks_[0].get() : nullptr;
  if (can_move(favourite_)) return favourite_;
  if (favourite_ == nullptr && can_move(current_) && split_mix(state_) % stretch_ != 0) return current_;
  std::vector<Block*> able;
  for (const auto& block : blocks_)
    if (can_move(block.get())) able.push_back(block.get());
  return able.empty() ? nullptr : able[split_mix(state_) % able.size()];
}

Block& Cluster::peer(const Thread& thread, unsigned rank, const char* what) {
  if (rank >= size())
    fault(thread,
          cat(what, " in the block of rank ", rank, "; the cluster has ", size(), size() == 1 ? " block" : " blocks"));
  Block& block = *blocks_[rank];
  if (!block.alive())
    fault(thread,
          cat(what, " in ", block.name(), " of its cluster, which has ended; sync the cluster before a block ends"));
  return block;
}

void Cluster::copy_to(Thread& thread, std::uint32_t mask, std::uint32_t destination, const void* map,
                      std::uint32_t barrier, const int* coordinates, int rank) {
  if (mask == 0 || mask >> size() != 0)
    fault(thread, cat("copy_box_multicast with the mask ", hex(mask), "; allowed are 1 to ", hex((1u << size()) - 1),
                      ", a bit for each block of the cluster"));
  for (unsigned to = 0; to < size(); ++to)
    if ((mask >> to & 1u) != 0) {
      Block& there = peer(thread, to, "copy_box_multicast");
      there.copies.issue(thread, destination, map, barrier, coordinates, rank, there.mbarriers);
    }
}

void Cluster::sync(Thread& thread, int site, bool orders) {
  if (orders) {
    order.reads_arrived(thread.actor);
    order.publish(thread.actor, gathering_);
  }
  if (waiting_.size() + 1 == threads()) return release_all(&thread);
  waiting_.push_back(&thread);
  thread.block->scheduler.park(thread, {WaitKind::cluster, site, 0, 0, 0});
}

void Cluster::thread_ended() {
  if (!waiting_.empty() && waiting_.size() == threads()) release_all(nullptr);
}

std::size_t Cluster::threads() const noexcept {
  std::size_t count = 0;
  for (const auto& block : blocks_) count += block->scheduler.alive();
  return count;
}

void Cluster::release_all(Thread* last) {
  const Order::Known known = gathering_.take();
  if (last != nullptr) order.observe(last->actor, known);
  for (const auto& block : blocks_) block->mbarriers.cluster_met();
  for (Thread* waiter : waiting_) {
    order.observe(waiter->actor, known);
    waiter->block->scheduler.wake(*waiter);
  }
  waiting_.clear();
}

std::string Cluster::arrived() const { return cat(waiting_.size(), " of ", threads(), " threads have come"); }

std::string Cluster::name() const {
  if (size() == 1) return blocks_[0]->name();
  return cat("the cluster of blocks ", blocks_.front()->index(), " to ", blocks_.back()->index());
}

std::string Cluster::report() const {
  std::string text;
  for (const auto& block : blocks_) text += waiting_report(*block) + wait_graph(*block);
  return text;
}

}  // namespace tj::model
