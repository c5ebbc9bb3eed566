// A remote store as the last layer: asked before a kernel is compiled, given what was compiled.
//
// Decides how long it is waited for, when it is left alone, and what is believed of its values. Does not decide bytes
// (remote_format.hpp). Invariants: no function of it throws or outlasts the time limit; an entry that get() gives is
// whole, is the key's, and somebody who is trusted vouches for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/remote.hpp>

#include "cache/cache.hpp"
#include "support/fork_safe.hpp"
#include "support/signature.hpp"
#include "support/workers.hpp"

namespace tj::cache {

struct RemoteCounts {
  std::uint64_t hits = 0, misses = 0, failures = 0, rejected = 0, skipped = 0, puts = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;
};

/// Thread safe.
class RemoteLayer {
 public:
  using Judge = std::function<bool(const Entry& entry, std::string* why)>;
  /// keys_path: a file of public keys; read once, here. Throws tj::Error(argument) that names the member of
  /// Options::remote with a bad value.
  RemoteLayer(Remote functions, const std::string& keys_path, LogFunction log,
              std::shared_ptr<support::Workers::Queue> queue);

  /// serves: has the last word on an entry that is whole. Without a compiler in the key nothing is asked.
  std::optional<Entry> get(const Key& key, const Judge& serves);
  /// Gives the store an entry that it does not have, or has a value of that was refused here.
  void put(const Key& key, const Entry& entry);
  RemoteCounts counts() const;

 private:
  struct Call;
  using Work = std::function<RemoteAnswer(const Remote&, Call&)>;
  /// The answer to one function, which a thread of the queue calls; failed also where none is given.
  RemoteAnswer ask(const char* function, const std::shared_ptr<Call>& call, Work work);
  bool may_ask();
  void failed(const std::string& why);
  void reject(const std::string& name, const std::string& why);
  /// Something went wrong: once more than so often in a row, the store is left alone. warns: whether `why` is worth it.
  void strike(const std::string& why, bool warns);
  void answered();
  template <class Change>
  void count(Change&& change) {
    const std::lock_guard lock(mutex_);
    change(counts_);
  }

  const std::shared_ptr<const Remote> functions_;
  const LogFunction log_;
  const std::shared_ptr<support::Workers::Queue> queue_;
  std::vector<support::PublicKey> keys_;
  std::optional<support::SecretKey> secret_;
  mutable support::Mutex mutex_;  ///< of what is below
  RemoteCounts counts_;
  std::set<std::string> refused_;  ///< names whose values are to be replaced
  int failures_in_a_row_ = 0;
  bool warned_ = false, warned_of_values_ = false;
  std::chrono::steady_clock::time_point left_alone_until_{};
  std::chrono::seconds pause_{};
};

}  // namespace tj::cache
