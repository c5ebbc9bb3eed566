// Ranks of one process: each copies what it receives out of the sender's memory.
//
// Decides when a message may be read and when its memory is the sender's again. Invariant: an exchange ends for no rank
// before all of its readers have copied.
#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>

#include "dist/transport.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/patience.hpp"

namespace tj::dist {
namespace {

using support::cat;
using support::fail;

/// What the ranks share. Exchange n is open until every rank has come to it and copied.
struct Hub {
  explicit Hub(int size, double limit_s) : wait_limit_s(limit_s), at(static_cast<std::size_t>(size)) {}
  struct Rank {
    std::uint64_t come = 0, copied = 0;  ///< exchanges
    std::vector<Send> sends;             ///< of the last that it came to
  };
  const double wait_limit_s;
  support::Bell bell;
  support::Mutex mutex;  ///< of what is below
  std::vector<Rank> at;
  std::string broken;  ///< why; empty while it works
};

class Local final : public Transport {
 public:
  Local(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(hub_->at.size()); }
  void check() override {
    const std::lock_guard lock(hub_->mutex);
    check_locked();
  }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives, Stream) override {
    const std::uint64_t number = come(sends);
    wait("come to", number, &Hub::Rank::come);
    for (const auto& [from, to] : matched(receives)) std::memcpy(to.to, from.from, to.bytes);
    {
      const std::lock_guard lock(hub_->mutex);
      own().copied = number;
    }
    hub_->bell.ring();
    wait("end", number, &Hub::Rank::copied);
  }

 private:
  struct Pair {
    Send from;
    Receive to;
  };
  Hub::Rank& own() { return hub_->at[static_cast<std::size_t>(rank_)]; }
  void check_locked() const {
    if (!hub_->broken.empty())
      fail(Stage::launch, Code::driver_error, cat("the group is broken: ", hub_->broken, "; make a new one"));
  }

  std::uint64_t come(std::span<const Send> sends) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(hub_->mutex);
      check_locked();
      own().sends.assign(sends.begin(), sends.end());
      number = ++own().come;
    }
    hub_->bell.ring();
    return number;
  }

  /// Until every rank has done so many.
  void wait(const char* what, std::uint64_t number, std::uint64_t Hub::Rank::* done) {
    support::Patience patience(hub_->wait_limit_s);
    while (true) {
      const std::uint32_t before = hub_->bell.rung();
      std::string missing;
      {
        const std::lock_guard lock(hub_->mutex);
        check_locked();
        for (std::size_t r = 0; r < hub_->at.size(); ++r)
          if (hub_->at[r].*done < number) missing += cat(missing.empty() ? "" : ", ", r);
        if (missing.empty()) return;
        if (patience.over())
          hub_->broken = cat("rank ", missing, " of ", size(), " did not ", what, " exchange ", number, " within ",
                             hub_->wait_limit_s, " s (TJ_WAIT_LIMIT)");
      }
      if (patience.over()) hub_->bell.ring();
      hub_->bell.wait(before, patience.step(std::chrono::milliseconds(100)));
    }
  }

  /// The n-th message from a rank is the n-th that it sends to this one.
  std::vector<Pair> matched(std::span<const Receive> receives) {
    const std::lock_guard lock(hub_->mutex);
    check_locked();
    std::vector<Pair> pairs;
    for (int from = 0; from < size(); ++from) {
      std::vector<Send> sent;
      for (const Send& send : hub_->at[static_cast<std::size_t>(from)].sends)
        if (send.to == rank_) sent.push_back(send);
      std::size_t n = 0;
      for (const Receive& receive : receives) {
        if (receive.from != from) continue;
        if (n == sent.size() || sent[n].bytes != receive.bytes) break_off(from, n, sent, receive.bytes);
        pairs.push_back({sent[n++], receive});
      }
      if (n != sent.size()) break_off(from, n, sent, 0);
    }
    return pairs;
  }
  [[noreturn]] void break_off(int from, std::size_t n, const std::vector<Send>& sent, std::size_t wanted) {
    hub_->broken = cat("rank ", rank_, " waits for ", wanted, " bytes as message ", n, " of rank ", from,
                       ", which sends ", n < sent.size() ? sent[n].bytes : 0, ": the ranks' arguments differ");
    hub_->bell.ring();
    check_locked();
    fail(Stage::launch, Code::internal, "a broken group went on");
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
