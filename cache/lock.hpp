// One maker a key, across threads and processes.
//
// Decides how makers exclude each other: by locks that the kernel holds, so that they end with their holder. Decides
// how a waiter learns who the holder is. Invariant: failing to lock is never an error; correctness rests on the atomic
// publication of entries alone.
#pragma once

#include <memory>
#include <string>

#include "cache/cache.hpp"

namespace tj::cache {

inline constexpr const char* kLockFile = ".lock";

/// Why there is no lock.
struct NoLock {
  std::string problem;
  int file_error = 0;  ///< errno of a lock file that lies in a directory of ours and cannot be opened all the same
};

/// Waits as long as `wait` says until this thread holds the key's lock in the open directory. Null, with the reason,
/// when the time is over and where locks do not work.
std::shared_ptr<void> lock_key(int directory, const Key& key, const LockWait& wait, NoLock* reason);

}  // namespace tj::cache
