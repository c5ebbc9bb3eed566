// One block of the model: threads, shared memory, barriers and asynchronous units together.
//
// Decides what belongs to a block; what blocks of a cluster have together is model_cluster.hpp's. Not thread safe: one OS thread
// runs one block, then may run the next with the same object. Invariant: a block that ends leaves nothing under way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/model.hpp"
#include "launch/model_barrier.hpp"
#include "launch/model_copy.hpp"
#include "launch/model_matrix.hpp"
#include "launch/model_races.hpp"
#include "launch/model_scheduler.hpp"
#include "launch/model_shared.hpp"
#include "launch/model_store.hpp"
#include "launch/model_tensor_matrix.hpp"
#include "launch/model_tensor_memory.hpp"
#include "launch/model_thread_copies.hpp"
#include "launch/model_warp.hpp"

namespace tj::launch::model {

/// What all blocks of a launch have in common; outlives them.
struct Launch {
  const tj_model_kernel* kernel = nullptr;
  const void* params = nullptr;
  unsigned grid_blocks = 1, cluster = 1, threads = 0;
  std::size_t smem_bytes = 0;
  ModelOptions options;
  std::vector<bool> disabled;  ///< by site id

  bool off(int site) const { return site >= 0 && static_cast<std::size_t>(site) < disabled.size() && disabled[static_cast<std::size_t>(site)]; }
};

class Cluster;

class Block {
 public:
  Block(const Launch& launch, StackPool& pool, Cluster& cluster, unsigned rank);

  /// Block `index` at its beginning.
  void start(unsigned index);
  bool alive() const noexcept { return scheduler.alive() > 0; }
  /// A warp's turn, or the end of something asynchronous. False when neither is possible: all wait. Throws
  /// tj::Error(model_fault).
  bool step();

  unsigned index() const { return scheduler.thread(0).self.block; }
  std::string name() const;  ///< "block 3"

  const Launch& launch;
  Cluster& cluster;
  const unsigned rank;
  SharedMemory shared;
  Scheduler scheduler;
  Mbarriers mbarriers;
  NamedBarriers named;
  CopyEngine copies;
  StoreEngine stores;
  std::vector<WarpUnit> warps;
  std::vector<std::unique_ptr<MatrixUnit>> matrix;  ///< of each warpgroup
  TensorMemory tensor;

  MatrixUnit& matrix_of(const Thread& thread);
  /// Its completions take part in the order of things from the first use on, so that a unit without it keeps the order that it had.
  ThreadCopies& thread_copies();
  TensorMatrixUnit& tensor_matrix();  ///< as above

  /// Where a thread's own load or store finds its bytes. Throws tj::Error(model_fault) when they are outside, misaligned, or
  /// being copied to.
  std::byte* ordinary_access(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what);
  /// The same where it matters which of the two it is: where nothing but syncs orders a block's threads, two that meet are a fault.
  const std::byte* ordinary_read(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what);
  std::byte* ordinary_write(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what);

 private:
  void reset(unsigned index);

  AsyncUnit& used(AsyncUnit& unit);

  ThreadCopies thread_copies_;
  TensorMatrixUnit tensor_matrix_;
  Races races_;  ///< of units without barriers in shared memory
  std::vector<AsyncUnit*> units_;
  std::size_t constant_units_ = 0;  ///< of units_: those that every block has
};

/// One line for each set of threads that waits for the same thing: warps, lanes, barrier, what is missing, since when.
std::string waiting_report(const Block& block);

/// The calls that a unit makes; the table serves every block of every thread.
const tj_model_api& api();

}  // namespace tj::launch::model
