// See block.hpp.
#include "model/cluster.hpp"

#include <algorithm>

#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

void enter(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  thread.block->launch.kernel->run(thread.block->launch.params);
  thread.block->scheduler.end(thread);
}

}  // namespace

Block::Block(const Launch& common, StackPool& pool, Cluster& of, unsigned place)
    : launch(common),
      cluster(of),
      rank(place),
      scheduler(pool, common.threads, common.kernel->warp_threads),
      monitor(of.order, *common.notes, common.threads, common.kernel->warp_threads),
      mbarriers(scheduler, shared, monitor),
      named(scheduler, of.order),
      registers(scheduler),
      copies(shared, monitor),
      stores(scheduler, shared, monitor),
      warps(common.threads / common.kernel->warp_threads),
      tensor(scheduler, common.threads / common.kernel->warp_threads),
      tensor_order(monitor, scheduler),
      thread_copies_(scheduler, shared, mbarriers, monitor),
      tensor_matrix_(*this) {
  monitor.set_barriers(mbarriers, rank % 2 == 0 ? mbarriers : of.block(rank - 1).mbarriers);
  units_.push_back(&copies);
  units_.push_back(&stores);
  for (unsigned group = 0; group < common.threads / kGroupThreads; ++group) {
    matrix.push_back(std::make_unique<MatrixUnit>(scheduler, shared, monitor, group));
    units_.push_back(matrix.back().get());
  }
  constant_units_ = units_.size();
}

MatrixUnit& Block::matrix_of(const Thread& thread) {
  if (thread.group() >= matrix.size())
    fault(thread, cat("matrix instruction in an incomplete warpgroup; the block has ", scheduler.size(),
                      " threads, groups have ", kGroupThreads));
  return *matrix[thread.group()];
}

AsyncUnit& Block::used(AsyncUnit& unit) {
  if (std::find(units_.begin(), units_.end(), &unit) == units_.end()) units_.push_back(&unit);
  return unit;
}

void Block::enter_node(Thread& thread, int call, int iteration) {
  thread.call = call;
  thread.iteration = iteration;
  monitor.enter_node(thread);
  if (const Notes::Role* role = launch.notes->role_of(thread.warp()))
    registers.need(thread, role->registers, role->name);
  if (thread.group() >= matrix.size() || launch.notes->waits.empty()) return;
  const std::string node = launch.notes->node(call, thread.warp());
  for (const Notes::Wait& wait : launch.notes->waits)
    if (wait.dst == node && matrix[thread.group()]->under_way(thread, wait.src, iteration - wait.distance))
      fault(thread, cat("node ", node, ", iteration ", iteration, " begins while the matrix instructions of node ",
                        wait.src, ", iteration ", iteration - wait.distance,
                        ", whose results it needs, have not been waited for: a matrix_wait is missing, or leaves too "
                        "many groups pending"));
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
  if (address % bytes != 0)
    fault(thread,
          cat(what, " of ", bytes, " bytes at shared address ", hex(address), ", which is no multiple of ", bytes));
  return shared.at(thread, address, bytes, what);
}

const std::byte* Block::ordinary_read(const Thread& thread, std::uint32_t address, std::uint32_t bytes,
                                      const char* what) {
  const std::byte* place = ordinary_access(thread, address, bytes, what);
  monitor.read(thread, address, bytes);
  return place;
}

std::byte* Block::ordinary_write(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what) {
  std::byte* place = ordinary_access(thread, address, bytes, what);
  monitor.write(thread, address, bytes);
  return place;
}

void Block::reset(unsigned index) {
  shared.reset(launch.smem_bytes);
  monitor.reset(launch.smem_bytes, rank);
  executed.clear();
  mbarriers.reset();
  named.reset();
  registers.reset(launch.notes->entry_registers);
  copies.reset();
  stores.reset();
  thread_copies_.reset();
  tensor.reset();
  tensor_order.reset();
  tensor_matrix_.reset();
  units_.resize(constant_units_);
  for (WarpUnit& warp : warps) warp.reset();
  for (auto& unit : matrix) unit->reset();
  for (unsigned i = 0; i < scheduler.size(); ++i) {
    Thread& thread = scheduler.thread(i);
    thread.self = {i, index, launch.grid_blocks, SharedMemory::kBase, rank};
    thread.block = this;
    thread.actor = rank * launch.threads + i;
    thread.call = thread.iteration = 0;
    thread.grids_waited_for = false;
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
    stores.ended(thread);
    thread_copies_.ended(thread);
    cluster.thread_ended();
  });
  if (!alive()) check_left();
  return moved;
}

// Every filling of a ring's slot must have been handed back by all of its readers.
void Block::check_rings() const {
  for (const Notes::Ring& ring : launch.notes->rings)
    for (std::uint32_t at = 0; ring.barriers && !ring.filled_once && at < ring.members * ring.slots; ++at) {
      // The first block waits for what both hand back, or all.
      if ((ring.empty_of_pair && rank % 2 != 0) || (ring.of_first && rank != 0)) continue;
      const Notes::Place slot{&ring, at % ring.slots, at / ring.slots};
      const Mbarrier *full = monitor.barrier_of(slot, true), *empty = monitor.barrier_of(slot, false);
      if (full != nullptr && empty != nullptr && full->phase != empty->phase)
        fault(cat(name(), " ends with ring ", ring.value, " in use: slot ", at % ring.slots, " was filled ",
                  full->phase, " times and handed back ", empty->phase, " times; a release is missing",
                  monitor.givers(Monitor::address_of(slot, false))));
    }
}

void Block::check_left() {
  if (copies.ready() != 0)
    fault(cat(name(), " ends while ", copies.ready(),
              " bulk copies are under way; wait on their barriers before the end"));
  if (thread_copies_.ready() != 0)
    fault(cat(name(),
              " ends while copies of its threads or arrivals after them are under way; wait for the groups, or on the "
              "barriers, before the end"));
  if (tensor_matrix_.incoming() != 0)
    fault(cat(name(), " ends while ", tensor_matrix_.incoming(),
              " arrivals of another block's matrix unit are on their way to it; wait for them before the end: its "
              "shared memory is another's then"));
  if (tensor_matrix_.ready() != 0)
    fault(cat(name(),
              " ends while matrix instructions on tensor memory or commits are under way; wait on a barrier that a "
              "matrix_commit after them arrives at before the end"));
  tensor.ended();
  mbarriers.check_left();
  named.check_left();
  registers.check_left();
  check_rings();
}

std::string Block::name() const { return cat("block ", index()); }

}  // namespace tj::model
