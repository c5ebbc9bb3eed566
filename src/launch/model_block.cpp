// See model_block.hpp.
#include "launch/model_cluster.hpp"

#include <algorithm>

#include "support/fail.hpp"

namespace tj::launch::model {
namespace {

using support::cat;

void enter(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  thread.block->launch.kernel->run(thread.block->launch.params);
  thread.block->scheduler.end(thread);
}

}  // namespace

Block::Block(const Launch& common, StackPool& pool, Cluster& of, unsigned place)
    : launch(common), cluster(of), rank(place), scheduler(pool, common.threads, common.kernel->warp_threads), mbarriers(scheduler, shared), named(scheduler),
      copies(shared, mbarriers), stores(scheduler, shared), warps(common.threads / common.kernel->warp_threads),
      tensor(scheduler, common.threads / common.kernel->warp_threads), thread_copies_(scheduler, shared, mbarriers),
      tensor_matrix_(*this) {
  units_.push_back(&copies);
  units_.push_back(&stores);
  for (unsigned group = 0; group < common.threads / kGroupThreads; ++group) {
    matrix.push_back(std::make_unique<MatrixUnit>(scheduler, shared, group));
    units_.push_back(matrix.back().get());
  }
  constant_units_ = units_.size();
}

MatrixUnit& Block::matrix_of(const Thread& thread) {
  if (thread.group() >= matrix.size())
    fault(thread, cat("matrix instruction in an incomplete warpgroup; the block has ", scheduler.size(), " threads, groups have ", kGroupThreads));
  return *matrix[thread.group()];
}

AsyncUnit& Block::used(AsyncUnit& unit) {
  if (std::find(units_.begin(), units_.end(), &unit) == units_.end()) units_.push_back(&unit);
  return unit;
}

ThreadCopies& Block::thread_copies() {
  used(thread_copies_);
  return thread_copies_;
}

TensorMatrixUnit& Block::tensor_matrix() {
  used(tensor_matrix_);
  return tensor_matrix_;
}

std::byte* Block::ordinary_access(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what) {
  if (address % bytes != 0) fault(thread, cat(what, " of ", bytes, " bytes at shared address ", hex(address), ", which is no multiple of ", bytes));
  std::byte* place = shared.at(thread, address, bytes, what);
  if (copies.under_way(address, bytes))
    fault(thread, cat(what, " at shared address ", hex(address), ", to which a bulk copy is under way; wait on its barrier first"));
  if (thread_copies_.under_way(address, bytes))
    fault(thread, cat(what, " at shared address ", hex(address), ", to which a thread's copy is under way; wait for its group, or on its barrier, first"));
  return place;
}

const std::byte* Block::ordinary_read(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what) {
  const std::byte* place = ordinary_access(thread, address, bytes, what);
  if (launch.kernel->shared_barriers == 0) races_.read(thread, address, bytes, named.at(0).generation, warps[thread.warp()].syncs());
  return place;
}

std::byte* Block::ordinary_write(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what) {
  std::byte* place = ordinary_access(thread, address, bytes, what);
  if (launch.kernel->shared_barriers == 0) races_.write(thread, address, bytes, named.at(0).generation, warps[thread.warp()].syncs());
  return place;
}

void Block::reset(unsigned index) {
  shared.reset(launch.smem_bytes);
  if (launch.kernel->shared_barriers == 0) races_.reset(launch.smem_bytes);
  mbarriers.reset();
  named.reset();
  copies.reset();
  stores.reset();
  thread_copies_.reset();
  tensor.reset();
  tensor_matrix_.reset();
  units_.resize(constant_units_);
  for (WarpUnit& warp : warps) warp.reset();
  for (auto& unit : matrix) unit->reset();
  for (unsigned i = 0; i < scheduler.size(); ++i) {
    Thread& thread = scheduler.thread(i);
    thread.self = {i, index, launch.grid_blocks, SharedMemory::kBase, rank};
    thread.block = this;
  }
}

void Block::start(unsigned index) {
  reset(index);
  scheduler.start(launch.options.seed * 0x9e3779b97f4a7c15ull + index, &enter);
}

bool Block::step() {
  const bool moved = scheduler.step(units_, [this](Thread& thread) {
    if (thread.group() < matrix.size()) matrix[thread.group()]->ended(thread);
    tensor.ended(thread);
    cluster.ended();
  });
  if (!alive() && copies.ready() != 0)
    fault(cat(name(), " ends while ", copies.ready(), " bulk copies are under way; wait on their barriers before the end"));
  if (!alive() && thread_copies_.ready() != 0)
    fault(cat(name(), " ends while copies of its threads or arrivals after them are under way; wait for the groups, or on the barriers, before the end"));
  if (!alive() && tensor_matrix_.ready() != 0)
    fault(cat(name(), " ends while matrix instructions on tensor memory or commits are under way; wait on a barrier that a matrix_commit after them arrives at before the end"));
  if (!alive()) tensor.ended();
  if (!alive() && stores.ready() != 0)
    fault(cat(name(), " ends while ", stores.ready(), " bulk stores have still to read its shared memory; wait for them before the end"));
  return moved;
}

std::string Block::name() const { return cat("block ", index()); }

}  // namespace tj::launch::model
