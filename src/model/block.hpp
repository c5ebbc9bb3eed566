// One block of the model: threads, shared memory, barriers and asynchronous units together.
//
// Decides what belongs to a block; cluster.hpp has what blocks of a cluster share. Not thread safe: one OS thread runs
// one block, then may run the next with the same object. Invariant: a block that ends leaves nothing under way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/barrier.hpp"
#include "model/copy.hpp"
#include "model/matrix.hpp"
#include "model/model.hpp"
#include "model/monitor.hpp"
#include "model/registers.hpp"
#include "model/scheduler.hpp"
#include "model/shared.hpp"
#include "model/store.hpp"
#include "model/tensor_matrix.hpp"
#include "model/tensor_memory.hpp"
#include "model/tensor_order.hpp"
#include "model/thread_copies.hpp"
#include "model/warp.hpp"

namespace tj::model {

class LinkPort;

/// Facts that all blocks of a launch have in common; outlives them.
struct Launch {
  const tj_model_kernel* kernel = nullptr;
  const void* params = nullptr;
  unsigned grid_blocks = 1, cluster = 1, threads = 0;
  std::size_t smem_bytes = 0;
  ModelOptions options;
  std::vector<support::MemoryRange> memory;  ///< memory that it may touch; empty: not known
  const Notes* notes = nullptr;              ///< notes of the unit
  bool waits_itself = false;                 ///< waits for the grids before it: they may still run
  std::vector<bool> disabled, weakened;      ///< by site id
  LinkPort* links = nullptr;                 ///< null: nobody knows of other ranks

  bool off(int site) const { return has(disabled, site); }
  bool weak(int site) const { return has(weakened, site); }
  static bool has(const std::vector<bool>& sites, int site) {
    return site >= 0 && static_cast<std::size_t>(site) < sites.size() && sites[static_cast<std::size_t>(site)];
  }
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
  std::vector<std::uint32_t> executed;  ///< by site: how often, by all threads
  SharedMemory shared;
  Scheduler scheduler;
  Monitor monitor;
  Mbarriers mbarriers;
  NamedBarriers named;
  RegisterPool registers;
  CopyEngine copies;
  StoreEngine stores;
  std::vector<WarpUnit> warps;
  std::vector<std::unique_ptr<MatrixUnit>> matrix;  ///< one for each warpgroup
  TensorMemory tensor;
  TensorOrder tensor_order;

  void count(int site) {
    if (site < 0) return;
    if (static_cast<std::size_t>(site) >= executed.size()) executed.resize(static_cast<std::size_t>(site) + 1);
    ++executed[static_cast<std::size_t>(site)];
  }
  MatrixUnit& matrix_of(const Thread& thread);
  /// The thread begins a node's work of an iteration. Results of the matrix unit that the node needs must have been
  /// waited for.
  void enter_node(Thread& thread, int call, int iteration);
  /// Completions of a unit take part in the order of things from its first use on. So a block without such a unit keeps
  /// the order that it had.
  ThreadCopies& thread_copies();
  TensorMatrixUnit& tensor_matrix();  ///< likewise from its first use on

  /// The bytes of a thread's own load or store. Throw tj::Error(model_fault) when they are outside, misaligned, or when
  /// nothing orders the access after one of another thread or unit.
  const std::byte* ordinary_read(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what);
  std::byte* ordinary_write(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what);

 private:
  void reset(unsigned index);
  void check_left();
  void check_rings() const;
  std::byte* ordinary_access(const Thread& thread, std::uint32_t address, std::uint32_t bytes, const char* what);

  AsyncUnit& used(AsyncUnit& unit);

  ThreadCopies thread_copies_;
  TensorMatrixUnit tensor_matrix_;
  std::vector<AsyncUnit*> units_;
  std::size_t constant_units_ = 0;  ///< the first of units_, which every block has
};

/// One line for each set of threads that waits for the same thing: warps, lanes, barrier, what is missing, since when.
std::string waiting_report(const Block& block);
/// Roles that wait for roles: on what, and who could end the wait and has not; "" where the notes know no roles.
std::string wait_graph(const Block& block);

/// The calls that a unit makes; the table serves every block of every thread.
const tj_model_api& api();

}  // namespace tj::model
