// A piece of work in a queue of a rank: a launch, a copy, an event, a wait for one.
//
// Decides how a piece of work is done, in parts where it may wait or arrive late. linked.hpp decides when. Invariant: a
// launch that waits for words of other ranks is one cluster, which is run in parts; others run to their end at once.
// Accesses of a launch are checked at its end, by all that it has learnt. A read that comes before the wait of its own
// launch is not found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launch/peer_memory.hpp"
#include "model/launching.hpp"
#include "model/link_order.hpp"
#include "model/link_port.hpp"

namespace tj::model {

/// A change of one piece of work, which the checks are to find.
struct LinkMutant {
  enum class Kind {
    left_out,
    early,  ///< a copy goes before the copies that it was behind
    deaf,   ///< a launch learns nothing from the words that it loads
    mute    ///< a launch tells nothing with the words that it stores
  };
  std::string queue;  ///< "rank 1, stream 2"
  unsigned index = 0;
  Kind kind = Kind::left_out;
};

/// A piece of work that was enqueued.
struct LinkWork {
  std::string queue, text;
  unsigned index = 0;
  enum class Kind { launch, copy, event, wait, let_go, zero } kind = Kind::launch;
  bool loads_words = false, stores_words = false;  ///< a launch that has done so
  bool is_word = false;                            ///< a copy of one
  std::uint64_t ended = 0;                         ///< the run's step at whose end it was done
};

/// Words that were written so far, by number: who waits looks again when it grows.
struct LinkWords {
  LinkOrder& order;
  std::uint64_t written = 0;
  const std::uint64_t& steps;
};

/// A point in a queue that others wait for.
struct LinkEvent {
  bool done = false;
  LinkOrder::Clock knows;
};

class QueuedWork {
 public:
  virtual ~QueuedWork() = default;
  /// It may move now. Only events are waited for before the start.
  virtual bool can_move() const { return true; }
  /// It begins, with what its queue knows.
  virtual void start(LinkOrder::Work work) = 0;
  /// A part of it; returns whether it has ended.
  virtual bool go_on() = 0;
  /// The queue knows this afterwards.
  virtual LinkOrder::Clock knows() const = 0;
  /// The text says who or what it waits for.
  virtual std::string waits_for() const { return {}; }

  /// Applies it, unless it changes the order of works. False where it is none of this work.
  virtual bool change(LinkMutant::Kind kind) {
    left_out = kind == LinkMutant::Kind::left_out;
    return left_out;
  }
  /// It writes there what has been seen of it.
  virtual void note(LinkWork&) const {}

  std::string text;
  std::size_t number = 0;  ///< in the list of all works
  unsigned index = 0;      ///< in its queue
  bool started = false, left_out = false;
};

/// A launch.
class QueuedLaunch final : public QueuedWork, public LinkPort {
 public:
  QueuedLaunch(const launch::Kernel& kernel, const launch::LaunchConfig& config, const void* params,
               std::size_t params_bytes, ModelOptions options, StackPool& stacks, LinkWords& words);
  bool can_move() const override { return cluster_ == nullptr || seen_ != words_.written; }
  void start(LinkOrder::Work work) override;
  bool go_on() override;
  LinkOrder::Clock knows() const override { return knows_; }
  std::string waits_for() const override;

  std::uint32_t load(Thread& thread, const std::uint32_t* word) override;
  void store(Thread& thread, std::uint32_t* word, std::uint32_t value) override;
  void rest(Thread& thread) override;
  std::uint64_t time_ns() const override { return words_.steps * 1000; }
  void access(std::uintptr_t address, std::size_t bytes, bool write) override;

  bool change(LinkMutant::Kind kind) override;
  void note(LinkWork& what) const override;

 private:
  unsigned number_of(const Thread& thread) const;  ///< in the launch
  LinkOrder::Clock& knowledge_of(const Thread& thread);
  void finish();

  Launching launching_;
  StackPool& stacks_;
  LinkWords& words_;
  std::unique_ptr<Cluster> cluster_;
  std::uint64_t seen_ = 0;
  std::vector<Thread*> resting_;
  std::map<unsigned, std::set<const std::uint32_t*>> asked_;  ///< by thread: words that it has loaded since it rested
  LinkOrder::Work work_;
  LinkOrder::Clock knows_;
  std::map<unsigned, LinkOrder::Clock> of_threads_;  ///< that have learnt something
  std::vector<LinkOrder::Span> reads_, writes_;
  bool deaf_ = false, mute_ = false;
  bool loads_words_ = false, stores_words_ = false;
};

/// A copy by an engine over a link, whose pieces arrive one by one.
class QueuedCopy final : public QueuedWork {
 public:
  QueuedCopy(const launch::RowsToCopy& rows, std::uint64_t& random, LinkWords& words);
  void start(LinkOrder::Work work) override;
  bool go_on() override;
  LinkOrder::Clock knows() const override { return work_.knows; }
  bool is_word() const { return rows_.rows == 1 && rows_.row_bytes == sizeof(std::uint32_t); }

 private:
  struct Piece {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
  };

  const launch::RowsToCopy rows_;
  std::uint64_t& random_;
  LinkWords& words_;
  LinkOrder::Work work_;
  std::vector<Piece> pieces_;  ///< that have not arrived
};

/// Work that is done at once: bytes become zeros, are let go of, or somebody writes what they are.
class QueuedBytes final : public QueuedWork {
 public:
  enum class What { zeroed, let_go, written };
  QueuedBytes(void* memory, std::size_t bytes, What what, LinkOrder& order)
      : memory_(static_cast<std::byte*>(memory)), bytes_(bytes), what_(what), order_(order) {}
  void start(LinkOrder::Work work) override;
  bool go_on() override { return true; }
  LinkOrder::Clock knows() const override { return knows_; }

 private:
  std::byte* const memory_;
  const std::size_t bytes_;
  const What what_;
  LinkOrder& order_;
  LinkOrder::Clock knows_;
};

/// An event, or a wait for another queue's.
class QueuedEvent final : public QueuedWork {
 public:
  QueuedEvent(std::shared_ptr<LinkEvent> event, bool waits) : event_(std::move(event)), waits_(waits) {}
  bool can_move() const override { return !waits_ || event_->done || left_out; }
  void start(LinkOrder::Work work) override;
  bool go_on() override { return true; }
  LinkOrder::Clock knows() const override { return knows_; }

 private:
  const std::shared_ptr<LinkEvent> event_;
  const bool waits_;
  LinkOrder::Clock knows_;
};

}  // namespace tj::model
