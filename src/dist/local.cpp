// Ranks of one process: each copies what it receives out of the sender's memory.
//
// Decides when a message may be read and when its memory is the sender's again. Invariant: an exchange ends for no rank
// before all of its readers have copied, whatever it ends by.
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "dist/transport.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/patience.hpp"

namespace tj::dist {
namespace {

using support::cat;
using support::fail;

/// The state that all ranks share. Exchange n is open until every rank has come to it and copied.
struct Hub {
  static constexpr std::string_view kNoMemory = "a rank ran out of memory in a call";
  explicit Hub(int size, double limit_s) : wait_limit_s(limit_s), at(static_cast<std::size_t>(size)) {
    broken.reserve(kNoMemory.size());
  }
  struct Rank {
    std::uint64_t come = 0, copied = 0;  ///< exchanges
    std::vector<Send> sends;             ///< of the last that it came to
  };
  const double wait_limit_s;
  support::Bell bell;
  support::Mutex mutex;  ///< of what is below
  std::vector<Rank> at;
  int readers = 0;     ///< ranks that copy out of others' memory at the moment
  std::string broken;  ///< why; empty while it works
};

class Local final : public Transport {
 public:
  Local(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(hub_->at.size()); }
  void check() override {
    if (broken()) fail_broken();
  }
  void give_up(std::string_view why) noexcept override {
    try {
      break_with(cat("a call of rank ", rank_, " failed: ", why));
    } catch (const std::bad_alloc&) {
      break_without_memory();
    }
  }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives, Stream) override {
    try {
      exchange_with_all(sends, receives);
    } catch (const std::bad_alloc&) {
      break_without_memory();
      // This rank is no reader then, as readers allocate nothing. From here on none begins to read its messages.
      while (are_readers()) hub_->bell.wait(hub_->bell.rung(), std::chrono::milliseconds(100));
      throw;
    }
  }

 private:
  struct Pair {
    Send from;
    Receive to;
  };
  void exchange_with_all(std::span<const Send> sends, std::span<const Receive> receives) {
    const std::uint64_t number = come(sends);
    wait("come to", number, &Hub::Rank::come);
    const std::vector<Pair> pairs = matched(receives);
    for (const auto& [from, to] : pairs) std::memcpy(to.to, from.from, to.bytes);
    {
      const std::lock_guard lock(hub_->mutex);
      own().copied = number;
      --hub_->readers;
    }
    hub_->bell.ring();
    wait("end", number, &Hub::Rank::copied);
  }
  Hub::Rank& own() { return hub_->at[static_cast<std::size_t>(rank_)]; }
  bool broken() const {
    const std::lock_guard lock(hub_->mutex);
    return !hub_->broken.empty();
  }
  /// The first reason stays.
  void break_with(std::string why) {
    {
      const std::lock_guard lock(hub_->mutex);
      if (hub_->broken.empty()) hub_->broken = std::move(why);
    }
    hub_->bell.ring();
  }
  /// There is room for the reason.
  void break_without_memory() noexcept {
    {
      const std::lock_guard lock(hub_->mutex);
      if (hub_->broken.empty()) hub_->broken = Hub::kNoMemory;
    }
    hub_->bell.ring();
  }
  bool are_readers() const {
    const std::lock_guard lock(hub_->mutex);
    return hub_->readers > 0;
  }
  /// Its caller's memory may be freed afterwards, so it waits for those that still copy out of it.
  [[noreturn]] void fail_broken() const {
    while (true) {
      const std::uint32_t before = hub_->bell.rung();
      std::string why;
      {
        const std::lock_guard lock(hub_->mutex);
        if (hub_->readers == 0) why = hub_->broken;
      }
      if (!why.empty()) fail(Stage::launch, Code::driver_error, cat("the group is broken: ", why, "; make a new one"));
      hub_->bell.wait(before, std::chrono::milliseconds(100));
    }
  }

  std::uint64_t come(std::span<const Send> sends) {
    if (broken()) fail_broken();
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(hub_->mutex);
      own().sends.assign(sends.begin(), sends.end());
      number = ++own().come;
    }
    hub_->bell.ring();
    return number;
  }

  /// Waits until every rank has done so many.
  void wait(const char* what, std::uint64_t number, std::uint64_t Hub::Rank::* done) {
    support::Patience patience(hub_->wait_limit_s);
    while (true) {
      const std::uint32_t before = hub_->bell.rung();
      std::string missing;
      {
        const std::lock_guard lock(hub_->mutex);
        for (std::size_t r = 0; r < hub_->at.size(); ++r)
          if (hub_->at[r].*done < number) missing += cat(missing.empty() ? "" : ", ", r);
      }
      if (missing.empty()) return;
      if (broken()) fail_broken();
      if (patience.over())
        break_with(cat("rank ", missing, " of ", size(), " did not ", what, " exchange ", number, " within ",
                       hub_->wait_limit_s, " s (TJ_WAIT_LIMIT)"));
      hub_->bell.wait(before, patience.step(std::chrono::milliseconds(100)));
    }
  }

  /// The n-th message from a rank is the n-th that it sends to this one. Counts this rank as a reader.
  std::vector<Pair> matched(std::span<const Receive> receives) {
    std::vector<Pair> pairs;
    std::string wrong;
    {
      const std::lock_guard lock(hub_->mutex);
      for (int from = 0; from < size() && wrong.empty(); ++from) wrong = match(from, receives, pairs);
      if (wrong.empty() && hub_->broken.empty()) {
        ++hub_->readers;
        return pairs;
      }
    }
    if (!wrong.empty()) break_with(std::move(wrong));
    fail_broken();
  }
  /// Adds the pairs of one sender; returns what does not fit.
  std::string match(int from, std::span<const Receive> receives, std::vector<Pair>& pairs) const {
    std::vector<Send> sent;
    for (const Send& send : hub_->at[static_cast<std::size_t>(from)].sends)
      if (send.to == rank_) sent.push_back(send);
    std::size_t n = 0;
    const auto differs = [&](std::size_t wanted) {
      return cat("rank ", rank_, " waits for ", wanted, " bytes as message ", n, " of rank ", from, ", which sends ",
                 n < sent.size() ? sent[n].bytes : 0, ": the ranks' arguments differ");
    };
    for (const Receive& receive : receives) {
      if (receive.from != from) continue;
      if (n == sent.size() || sent[n].bytes != receive.bytes) return differs(receive.bytes);
      pairs.push_back({sent[n++], receive});
    }
    return n == sent.size() ? std::string() : differs(0);
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> local_transports(int size, double wait_limit_s) {
  const auto hub = std::make_shared<Hub>(size, wait_limit_s);
  std::vector<std::unique_ptr<Transport>> ends;
  for (int rank = 0; rank < size; ++rank) ends.push_back(std::make_unique<Local>(hub, rank));
  return ends;
}

}  // namespace tj::dist
