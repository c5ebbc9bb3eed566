// Knowledge of past events: the happens-before order of a cluster's threads and of the units that work beside them, by
// vector clocks.
//
// Decides what a thread may rely on. It learns that accesses of every other thread are done, in four senses (Section).
// It learns up to which time the work of every asynchronous agent is done: a barrier's phases, a matrix unit, a
// thread's copies or stores. Knows no address and no barrier. Not thread safe. Invariant: a Known never changes; a
// thread's only grows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tj::model {

class Order {
 public:
  using Time = std::uint32_t;
  using Agent = std::uint32_t;  ///< a source of asynchronous work
  using Clock = std::vector<Time>;
  using Known = std::shared_ptr<const Clock>;
  static constexpr Time kNotDone = ~Time{0};

  /// Senses in which accesses of a thread can be known.
  enum class Section : unsigned {
    writes,          ///< ordinary accesses of others see them
    reads,           ///< are done: ordinary writes of others may follow
    proxied_writes,  ///< the copy engine and the matrix unit see them
    arrived_reads    ///< cannot be overtaken by what is written asynchronously
  };
  static constexpr unsigned kSections = 4;

  /// Knowledge that comes together at a barrier until it lets its waiters go.
  class Gathering {
   public:
    Known take();

   private:
    friend class Order;
    Clock times_;
    Known last_;  ///< the clock that was added last, whole: adding it again changes nothing
  };

  explicit Order(unsigned threads) : threads_(threads) { reset(); }
  void reset();
  Agent add_agent() { return agents_++; }

  /// The time of the thread's accesses from now on; what it publishes includes them.
  Time now(unsigned thread) const { return own_[thread].now; }
  /// Release. reads_only: what the thread has seen written is not passed on.
  void publish(unsigned thread, Gathering& into, bool reads_only = false);
  void add(Gathering& into, Agent agent, Time time) const;
  /// Adds what was known of asynchronous work when a work that is done now began: it came before.
  void add(Gathering& into, const Known& before) const;
  /// Acquire.
  void observe(unsigned thread, const Known& what);
  void observe(unsigned thread, Agent agent, Time until);
  /// Everything written that the thread knows of is from now on known to be seen by the async proxy as well.
  void proxy_fence(unsigned thread);
  /// Every read that the thread knows of has arrived.
  void reads_arrived(unsigned thread);

  bool knows(unsigned thread, Section section, unsigned of, Time time) const;
  bool knows(unsigned thread, Agent agent, Time time) const;
  /// The thread's present knowledge of others, to be asked later.
  const Known& known(unsigned thread) const { return own_[thread].known; }
  bool knows(const Known& known, Agent agent, Time time) const {
    return known != nullptr && place(agent) < known->size() && (*known)[place(agent)] >= time;
  }
  bool knows(const Known& known, Section section, unsigned of, Time time) const {
    return known != nullptr && place(section, of) < known->size() && (*known)[place(section, of)] >= time;
  }
  /// Equal for two threads: what they know of all others is the same.
  const void* identity(unsigned thread) const { return own_[thread].known.get(); }

 private:
  struct Own {
    Known known;  ///< its knowledge of others; its own follows
    Time now = 1, fenced = 0, arrived = 0;
  };
  /// Results of joins, so that the threads of a warp, which learn the same, share one clock.
  struct Join {
    Known a, b, result;
    std::uint64_t detail = 0;
  };
  static constexpr std::size_t kJoins = 256;

  std::size_t place(Section section, unsigned thread) const {
    return static_cast<std::size_t>(section) * threads_ + thread;
  }
  std::size_t place(Agent agent) const { return std::size_t{kSections} * threads_ + agent; }
  template <class Make>
  Known joined(const Known& a, const Known& b, std::uint64_t detail, Make&& make);
  Known raised(const Known& known, Section from, Section to);

  const unsigned threads_;
  Agent agents_ = 0;
  std::vector<Own> own_;
  std::array<Join, kJoins> joins_;
};

}  // namespace tj::model
