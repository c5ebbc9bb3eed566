// Global memory while all resident blocks of a grid run side by side: counters that blocks wait for, and accesses that
// nothing orders.
//
// Decides what a thread of one cluster may rely on of another's: only what a release on a counter has told it, which
// it has acquired. Order says the rest, within a cluster. Not thread safe: one OS thread runs the grid. Invariant: an
// access is recorded after it was found in order. A counter is 0 before a launch and after it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/order.hpp"
#include "model/thread.hpp"

namespace tj::model {

class Cluster;
struct Launch;

class GlobalMemory {
 public:
  explicit GlobalMemory(const Launch& launch) : launch_(launch) {}

  /// The cluster begins with other blocks, which know of nobody.
  void begin(Cluster& cluster);
  /// A thread's own access, or one that it makes the copy engine do (`proxied`). Throws tj::Error(model_fault) when
  /// nothing orders it after one of another thread, or when it touches a counter.
  void access(const Thread& thread, std::uintptr_t address, std::size_t bytes, bool write, bool proxied = false);

  /// Adds to a counter and returns what it was. release: what the thread knows is told with it.
  std::uint32_t add(Thread& thread, std::uint32_t* counter, std::uint32_t amount, bool release);
  /// Returns once the counter, counted from `value`, is not negative. acquire: the thread learns what was told with it.
  void wait(Thread& thread, int site, const std::uint32_t* counter, std::uint32_t value, bool acquire);
  void set(Thread& thread, std::uint32_t* counter, std::uint32_t value);
  /// A thread's fence: the copy engine sees what the thread has acquired.
  void proxy_fence(const Thread& thread);

  /// The launch has ended. Throws tj::Error(model_fault) for a counter that is not as it was.
  void finish() const;
  /// "counter 0x7f.. to reach 3, which is 1", of a thread that waits.
  static std::string waiting(const Wait& wait);

 private:
  /// Knowledge that was told with a counter: for each cluster, by number, the work of its threads that is done.
  struct Told {
    std::map<unsigned, Order::Known> of;
  };
  struct Counter {
    std::shared_ptr<const Told> told;
    std::vector<Thread*> waiting;
    std::string user;  ///< the last thread that changed it
  };
  /// Something that a cluster has acquired. Its threads pass it on as they pass on time 1 of the agent; time 2 is that
  /// the copy engine sees it, too.
  struct Acquired {
    std::shared_ptr<const Told> told;
    Order::Agent agent = 0;
  };
  struct Member {
    unsigned number = 0;  ///< counts clusters as they begin
    std::vector<Acquired> acquired;
  };
  struct Access {
    unsigned cluster = 0, actor = 0, block = 0;
    bool write = false, proxied = false;
    Order::Time time = 0;
    int call = 0, iteration = 0;
    std::string who;
  };
  using Id = std::uint32_t;  ///< 0: none
  struct Grain {
    Id writer = 0;
    std::vector<Id> readers;  ///< since the last write
  };
  static constexpr std::uintptr_t kGrain = 2, kPage = 2048;  ///< bytes of the least access; grains of a page
  using Page = std::array<Grain, kPage>;

  bool watched(std::uintptr_t address) const;
  Grain& grain(std::uintptr_t number);
  Id record(const Thread& thread, bool write, bool proxied);
  bool knows(const Thread& thread, const Access& prior, Order::Section section, bool proxied);
  bool told(const Thread& thread, const Told& told, const Access& prior, Order::Section section) const;
  [[noreturn]] void race(const Thread& thread, std::uintptr_t address, const Access& prior, bool write, bool proxied);
  Counter& counter(const Thread& thread, const std::uint32_t* address);
  void tell(Thread& thread, Counter& counter);
  void wake(const std::uint32_t* address, Counter& counter);
  void acquire(const Thread& thread, const Counter& counter);
  static std::string who(const Thread& thread);

  const Launch& launch_;
  unsigned begun_ = 0;
  std::map<const Cluster*, Member> members_;
  std::map<const std::uint32_t*, Counter> counters_;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::vector<Access> accesses_{1};
  std::unordered_map<std::uint64_t, Id> last_;  ///< by cluster's number and actor: the access recorded last
};

}  // namespace tj::model
