// Helpers of the cache tests: keys, entries, and a log that counts.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.hpp"
#include "cache/format.hpp"
#include "tests/support/scratch.hpp"

namespace tj::testing {

inline cache::Key key_of(const std::string& request, const std::string& compiler = "nvrtc 13") {
  return cache::make_key({{"op", "fmha"}, {"request", request}},
                         compiler.empty() ? cache::Fields{} : cache::Fields{{"path", compiler}});
}

inline cache::Entry entry_of(std::string payload) {
  return cache::Entry{{{"name", "fmha_f16_d128"}, {"target", "sm_90a"}, {"empty", ""}}, std::move(payload)};
}

/// Thread safe; copies share one record.
class LogRecord {
 public:
  void operator()(LogLevel level, std::string_view text) const {
    const std::lock_guard<std::mutex> guard(state_->mutex);
    state_->lines[level].emplace_back(text);
  }
  std::vector<std::string> at(LogLevel level) const {
    const std::lock_guard<std::mutex> guard(state_->mutex);
    return state_->lines[level];
  }
  std::size_t warnings() const { return at(LogLevel::warn).size(); }

 private:
  struct State {
    std::mutex mutex;
    std::map<LogLevel, std::vector<std::string>> lines;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Empty for a miss.
inline std::string payload(cache::Store& store, const cache::Key& key) {
  const auto entry = store.load(key);
  return entry ? entry->payload : std::string();
}

inline std::string payload_in(const std::string& directory, const cache::Key& key) {
  cache::Store store(directory, 0, {});
  return payload(store, key);
}

inline constexpr uid_t kSomebody = 54321;
inline const bool is_root = ::geteuid() == 0;

/// In a child that is no longer root, because permission bits do not bind root.
template <class Work>
int as_plain_user(Work&& work) {
  return wait_for(start_child([&] {
    if (is_root && (::setgroups(0, nullptr) != 0 || ::setgid(kSomebody) != 0 || ::setuid(kSomebody) != 0)) return 98;
    return work();
  }));
}

inline void give_to_plain_user(const std::string& path) {
  if (is_root) REQUIRE(::lchown(path.c_str(), kSomebody, kSomebody) == 0);
}

/// Seconds since 1970, as last use and as time of making.
inline void set_times(const std::string& path, time_t last_use, time_t made) {
  const timespec times[2] = {{last_use, 0}, {made, 0}};
  ::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

}  // namespace tj::testing
