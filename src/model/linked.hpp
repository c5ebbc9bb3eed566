// The CPU model with streams and links. Work of several ranks waits in queues. It is done in an order drawn from a
// seed. Links deliver late, in pieces and out of order.
//
// Decides which queue's turn it is, when a copy arrives, and that nobody can go on any more. LinkOrder decides what
// work may rely on. A rank is a set of streams of device 0. Work without a stream is done at once, as on the model
// without links, and unchecked. Invariants:
// - Equal work of each rank, seeds and changes give equal orders of events, whichever rank enqueued first. Queues
//   without a rank count as they were first used.
// - A run leaves nothing in a queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/driver.hpp"
#include "model/link_order.hpp"
#include "model/link_work.hpp"
#include "support/fork_safe.hpp"

namespace tj::model {

class Linked final : public Model {
 public:
  Linked();
  ~Linked() override;
  /// Forgets all work and every queue.
  void begin(std::uint64_t seed, std::optional<LinkMutant> mutant = {});
  /// Does all that was enqueued. Throws tj::Error(model): model_fault for what nothing orders, deadlock where no rank
  /// can go on, with who waits for what as log; and what launches throw. All queues are empty then.
  void run();
  /// Work since begin(), in the order of each queue.
  const std::vector<LinkWork>& works() const { return works_; }
  bool mutant_was_there() const { return mutant_met_; }
  /// Work of the caller's, which writes there. The bytes stay as they are.
  void caller_writes(void* memory, std::size_t bytes, Stream stream);

  void launch(int device, const launch::Kernel& kernel, const launch::LaunchConfig& config, const void* params,
              std::size_t params_bytes, Stream stream) override;
  std::shared_ptr<launch::SideStream> side_stream(int device) override;
  std::shared_ptr<void> allocate(int device, std::size_t bytes) override;
  std::shared_ptr<void> scratch(int device, std::size_t bytes, Stream stream) override;
  void zero(int device, void* memory, std::size_t bytes, Stream stream) override;
  void copy_rows(int device, const launch::RowsToCopy& rows, Stream stream) override;
  void announce(int device, const launch::PeerStep& step, Stream stream) override;
  void let_go(int device, void* memory, std::size_t bytes, Stream stream) override;
  bool idle(int device, Stream stream) override;
  /// Throws tj::Error(launch, unsupported) while the stream has work.
  void synchronize(int device, Stream stream) override;

 private:
  class Side;
  /// Allocations, whose frees may come when the driver has gone, from any thread.
  struct Memory {
    support::Mutex mutex;
    LinkOrder order;
    LinkWords words{order, 0, steps};
    std::uint64_t steps = 0;
  };
  struct Queue {
    unsigned number = 0;   ///< from 0 on
    int rank = -1;         ///< of the step that was announced in it, or in a stream beside it
    unsigned of_rank = 0;  ///< its number among the rank's, from 1 on
    unsigned enqueued = 0, done = 0;
    std::string announced;  ///< of the next launch
    std::deque<std::unique_ptr<QueuedWork>> waiting;
    std::vector<std::size_t> numbers;  ///< of all its works
    LinkOrder::Clock knows;
  };
  LinkOrder& order() const;
  LinkWords& words() const;
  std::uint64_t& steps() const;
  Queue& queue(Stream stream);
  std::string name(const Queue& queue) const;
  void set_rank(Queue& queue, int rank);
  void same_rank(Stream one, Stream other);
  void enqueue(Stream stream, std::unique_ptr<QueuedWork> work, LinkWork what);
  void wait_for(Stream behind, Stream before, const char* what);
  void clear();

  void sort_queues();
  void name_works();
  void apply_mutant();
  void draw_manner();
  Queue* choose();
  bool step();
  void start(Queue& queue, QueuedWork& work);
  [[noreturn]] void deadlock() const;
  std::string report() const;

  support::Mutex mutex_;
  std::map<const void*, Queue*> queue_of_;  ///< by the streams' handles
  std::vector<std::unique_ptr<Queue>> queues_;
  std::map<int, unsigned> streams_of_;  ///< by rank
  std::vector<LinkWork> works_;
  std::vector<std::shared_ptr<void>> kept_;  ///< memory of work that was enqueued
  const std::shared_ptr<Memory> memory_;
  std::optional<LinkMutant> mutant_;
  bool mutant_met_ = false;
  std::uint64_t seed_ = 1, state_ = 0;
  std::uint64_t lateness_ = 1;  ///< of links: a copy moves in one of so many steps in which others can; 0: in none
  std::size_t starved_ = 0;     ///< a queue that hardly moves while others can; behind the last: none
};

/// One as a driver of its own.
std::shared_ptr<Linked> open_linked_model();

/// Runtimes that open their model while one lives take its model. It is for checks and tests, one at a time.
class ModelInPlace {
 public:
  explicit ModelInPlace(std::shared_ptr<launch::Driver> model);
  ~ModelInPlace();
  ModelInPlace(const ModelInPlace&) = delete;
  ModelInPlace& operator=(const ModelInPlace&) = delete;
};

}  // namespace tj::model
